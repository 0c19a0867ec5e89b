package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// auditLogs is the profile of an audit log of 1 GiB: as many rotated files as an API
// server leaves, as such and as a must-gather packs them.
const (
	auditLogs     = "auditlog"
	auditLogParts = 8
	auditLogPart  = 128 << 20
)

const (
	plainLog  = "top --audit-log, .log"
	packedLog = "top --audit-log, .log.gz"
	zcatLog   = "zcat, grep -c"
)

const (
	logCPU  = "CPU for 1 GB, s"
	peakRSS = "peak RSS, MiB"
)

// counted is what jq and grep look for: the calls of mutating webhooks.
const (
	countedKey = "mutation.webhook.admission.k8s.io/"
	jqProgram  = `reduce (inputs | .annotations // {} | to_entries[] | select(.key | startswith("` + countedKey + `")) | .value | fromjson.webhook) as $webhook ({}; .[$webhook] += 1)`
)

// measureAuditLogs reads the log, and has what else counts its lines read it.
func measureAuditLogs(ctx context.Context, o options) (t *table, err error) {
	folder, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	plain, packed := filepath.Join(folder, "plain"), filepath.Join(folder, "packed")
	if err := writeAuditLogs(plain, packed); err != nil {
		return nil, err
	}
	t = newTable()
	for range o.rounds {
		for _, reader := range auditLogReaders(o, plain, packed) {
			if err := t.column(reader.name).measure(ctx, reader); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// logReader is a command that reads so many files of the log.
type logReader struct {
	name    string
	parts   int
	command []string
}

// auditLogReaders are the build at hand and, where the machine has them, what one would
// count lines by without it. As jq takes minutes for all files, it reads one.
func auditLogReaders(o options, plain, packed string) []logReader {
	var out []logReader
	for name, folder := range map[string]string{plainLog: plain, packedLog: packed} {
		out = append(out, logReader{name, auditLogParts, []string{o.binaries[0], "top", "--kubeconfig=" + os.DevNull, "--audit-log", folder}})
	}
	slices.SortFunc(out, func(a, b logReader) int { return strings.Compare(a.name, b.name) })
	out = append(out, logReader{zcatLog, auditLogParts, []string{"sh", "-c", `zcat "$0"/*.gz | grep -c "$1"`, packed, countedKey}})
	if path, err := exec.LookPath("jq"); err == nil {
		first, _ := filepath.Glob(filepath.Join(plain, "*"))
		out = append(out, logReader{"jq", 1, []string{path, "-n", jqProgram, first[0]}})
	}
	return out
}

// measure runs a command that reads the log to its end. The memory of a shell's commands
// is not known.
func (c *column) measure(ctx context.Context, r logReader) error {
	if err := c.execute(ctx, r.command[0], r.command[1:]...); err != nil {
		return err
	}
	if r.command[0] == "sh" {
		delete(c.values, peakRSS)
	}
	last := func(row string) float64 { return c.values[row][len(c.values[row])-1] }
	megabytes := float64(r.parts*auditLogPart) / 1e6
	c.add("read, MB", megabytes)
	c.add("MB/s", megabytes/last(duration))
	c.add(logCPU, last(cpu)*1000/megabytes)
	return nil
}

// writeAuditLogs writes the log twice.
func writeAuditLogs(plain, packed string) error {
	if err := errors.Join(os.Mkdir(plain, 0o700), os.Mkdir(packed, 0o700)); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	for part := range auditLogParts {
		name := fmt.Sprintf("audit-2026-11-23T%02d-00-00.000.log", part)
		if err := writeAuditLog(filepath.Join(plain, name), filepath.Join(packed, name+".gz"), part); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// writeAuditLog writes one file, as such and compressed.
func writeAuditLog(plain, packed string, part int) (err error) {
	var files [2]*os.File
	for i, path := range []string{plain, packed} {
		if files[i], err = os.Create(path); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, files[i].Close()) }()
	}
	lines := bufio.NewWriterSize(files[0], 1<<20)
	zip, err := gzip.NewWriterLevel(files[1], gzip.BestSpeed)
	if err != nil {
		return err
	}
	for written, i := 0, 0; written < auditLogPart; i++ {
		line := auditLine(part, i)
		written += len(line)
		lines.WriteString(line)
		if _, err := zip.Write([]byte(line)); err != nil {
			return err
		}
	}
	return errors.Join(lines.Flush(), zip.Close())
}

// auditLine is the i-th event of a part: eight of ten are reads of controllers, one is
// a write that no webhook meets, one is one that a mutating webhook changed, or, once in
// a while, that a validating one denied or was not there to check.
func auditLine(part, i int) string {
	const prefix = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"%08d-cf7d-4501-8574-%012d","stage":"ResponseComplete",`
	head := fmt.Sprintf(prefix, i, part)
	namespace := fmt.Sprintf("team-%d", i%200)
	times := fmt.Sprintf(`"requestReceivedTimestamp":"2026-11-23T%02d:%02d:%02d.133296Z","stageTimestamp":"2026-11-23T%02d:%02d:%02d.278523Z",`, part, i/60%60, i%60, part, i/60%60, i%60)
	switch {
	case i%10 < 8:
		return head + `"requestURI":"/apis/apps/v1/namespaces/` + namespace + `/replicasets?limit=500","verb":"list","user":{"username":"system:serviceaccount:kube-system:deployment-controller","uid":"5b0d","groups":["system:serviceaccounts","system:serviceaccounts:kube-system","system:authenticated"]},"sourceIPs":["192.0.2.10"],"userAgent":"kube-controller-manager/v1.34.1 (linux/amd64) kubernetes/93248f9","objectRef":{"resource":"replicasets","namespace":"` + namespace + `","apiGroup":"apps","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},` +
			times + `"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"system:controller:deployment-controller\" of ClusterRole \"system:controller:deployment-controller\""}}` + "\n"
	case i%10 == 8:
		return head + fmt.Sprintf(`"requestURI":"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/worker-%d","verb":"update","user":{"username":"system:node:worker-%d","groups":["system:nodes","system:authenticated"]},"sourceIPs":["192.0.2.11"],"userAgent":"kubelet/v1.34.1","objectRef":{"resource":"leases","namespace":"kube-node-lease","name":"worker-%d","apiGroup":"coordination.k8s.io","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},`, i%300, i%300, i%300) +
			times + `"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}` + "\n"
	}
	return head + fmt.Sprintf(`"requestURI":"/api/v1/namespaces/%s/pods","verb":"create","user":{"username":"system:serviceaccount:kube-system:replicaset-controller","groups":["system:serviceaccounts","system:authenticated"]},"sourceIPs":["192.0.2.10"],"userAgent":"kube-controller-manager/v1.34.1","objectRef":{"resource":"pods","namespace":"%s","name":"web-%d","apiVersion":"v1"},`, namespace, namespace, i) +
		auditOutcome(i/10, times) + "\n"
}

// auditOutcome ends the event of a write that webhooks meet.
func auditOutcome(i int, times string) string {
	const allowed = `"responseStatus":{"metadata":{},"code":201},`
	switch {
	case i%20 == 0:
		return `"responseStatus":{"metadata":{},"status":"Failure","message":"admission webhook \"images.policy.example.com\" denied the request: image registry.example/web:` + fmt.Sprint(i) + ` is not signed","code":403},` + times + `"annotations":{"authorization.k8s.io/decision":"allow"}}`
	case i%20 == 1:
		return allowed + times + `"annotations":{"authorization.k8s.io/decision":"allow","failed-open.validating.webhook.admission.k8s.io/round_0_index_0":"quota.policy.example.com"}}`
	}
	return allowed + times + fmt.Sprintf(`"annotations":{"authorization.k8s.io/decision":"allow","`+countedKey+`round_0_index_0":"{\"configuration\":\"mesh\",\"webhook\":\"injector-%d.mesh.example.com\",\"mutated\":%t}"}}`, i%3, i%2 == 0)
}
