package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// offlineHooks is how many webhooks the files have that shapes and kube-score are
// compared on, and growth how many those have that show what one more costs.
const offlineHooks = 5000

var growth = []int{500, 5000, 20_000}

// ordinaryShape is the column of webhooks as operators register them.
const ordinaryShape = "as operators register them"

func growthColumn(n int) string { return fmt.Sprintf("%d webhooks", n) }

const (
	duration = "time, s"
	cpu      = "CPU, s"
	cpuEach  = "CPU for 1,000 webhooks, s"
	peakRSS  = "peak RSS, MiB"
)

// measureFiles audits files: of every shape, and of more and more webhooks.
func measureFiles(ctx context.Context, o options) (out fileTables, err error) {
	folder, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return fileTables{}, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if out.shapes, err = measureShapes(ctx, o, folder); err != nil {
		return fileTables{}, err
	}
	out.growth, err = measureGrowth(ctx, o, folder)
	return out, err
}

// fileTables are the tables of the profile files.
type fileTables struct{ shapes, growth *table }

// measureShapes is what each shape costs beside webhooks as operators register them, and
// what kube-score costs for the same file.
func measureShapes(ctx context.Context, o options, folder string) (*table, error) {
	auditor, shapesTable := o.binaries[0], newTable()
	ordinary, mixed, list := filepath.Join(folder, "ordinary.yaml"), filepath.Join(folder, "mixed.yaml"), filepath.Join(folder, "list.json")
	if err := errors.Join(writeOrdinary(ordinary, offlineHooks), writeMixed(mixed, offlineHooks), writeList(list, offlineHooks)); err != nil {
		return nil, err
	}
	for range o.rounds {
		if err := shapesTable.column(ordinaryShape).run(ctx, ordinary, auditor, "audit", ordinary); err != nil {
			return nil, err
		}
		if err := shapesTable.column("among other objects").run(ctx, mixed, auditor, "audit", mixed); err != nil {
			return nil, err
		}
		if err := shapesTable.column("the same as a JSON list").run(ctx, list, auditor, "audit", list); err != nil {
			return nil, err
		}
		if o.peers != "" {
			score := filepath.Join(o.peers, "kube-score")
			if err := errors.Join(
				shapesTable.column("kube-score, as operators register them").run(ctx, ordinary, score, "score", ordinary),
				shapesTable.column("kube-score, among other objects").run(ctx, mixed, score, "score", mixed),
			); err != nil {
				return nil, err
			}
		}
		for _, s := range shapes {
			file := filepath.Join(folder, "shape.yaml")
			if err := writeShape(file, s, offlineHooks); err != nil {
				return nil, err
			}
			if err := shapesTable.column(s.name).run(ctx, file, auditor, "audit", file); err != nil {
				return nil, err
			}
		}
	}
	return shapesTable, nil
}

// measureGrowth audits files of ever more webhooks.
func measureGrowth(ctx context.Context, o options, folder string) (*table, error) {
	t := newTable()
	for _, n := range growth {
		file := filepath.Join(folder, "growth.yaml")
		if err := writeOrdinary(file, n); err != nil {
			return nil, err
		}
		to := t.column(growthColumn(n))
		for range o.rounds {
			if err := to.run(ctx, file, o.binaries[0], "audit", file); err != nil {
				return nil, err
			}
		}
		to.add(cpuEach, to.median(cpu)*1000/float64(n))
	}
	return t, nil
}

// run runs a command that reads the file to its end, and adds what it cost.
func (c *column) run(ctx context.Context, file, path string, args ...string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	c.add("size of the file, MB", float64(info.Size())/1e6)
	if err := c.execute(ctx, path, args...); err != nil {
		return err
	}
	times := c.values[duration]
	c.add("MB/s", float64(info.Size())/1e6/times[len(times)-1])
	return nil
}

// execute runs a command, and adds what it cost. An exit code that says that it found
// something is no error.
func (c *column) execute(ctx context.Context, path string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("running %s: %w", path, err)
	}
	ended, peak := make(chan struct{}), make(chan float64)
	go func() { peak <- peakMemory(cmd.Process.Pid, ended) }()
	err := cmd.Wait()
	close(ended)
	most := <-peak
	if ctx.Err() != nil || cmd.ProcessState.ExitCode() < 0 {
		return fmt.Errorf("running %s: %w\n%.1000s", path, errors.Join(err, ctx.Err()), output.String())
	}
	c.add(duration, time.Since(began).Seconds())
	c.add(cpu, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	c.add(peakRSS, most)
	return nil
}

// peakMemory reads the peak of a process until it ends. What the system says of one
// that has ended counts the process that started it, too.
func peakMemory(pid int, ended <-chan struct{}) float64 {
	most := 0.0
	for {
		select {
		case <-ended:
			return most
		case <-time.After(5 * time.Millisecond):
			most = max(most, memory(pid, "VmHWM"))
		}
	}
}

// writeOrdinary writes n webhooks with a CA bundle each, five in a configuration.
func writeOrdinary(path string, n int) error {
	return writeYAML(path, n/profiles["large"].Hooks, ordinary)
}

func ordinary(i int) (any, error) {
	c := filled{size: profiles["large"]}
	configuration, err := c.configuration(i)
	if err != nil {
		return nil, err
	}
	configuration.TypeMeta = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"}
	return configuration, nil
}

// writeMixed writes n such webhooks, and nine ConfigMaps for each configuration.
func writeMixed(path string, n int) error {
	const others = 9
	return writeYAML(path, n/profiles["large"].Hooks*(1+others), func(i int) (any, error) {
		if i%(1+others) == 0 {
			return ordinary(i / (1 + others))
		}
		return &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("settings-%d", i)},
			Data:       map[string]string{"settings.yaml": strings.Repeat("setting: value\n", 100)},
		}, nil
	})
}

// writeList writes the webhooks of writeOrdinary as kubectl get -o json does.
func writeList(path string, n int) error {
	list := metav1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for i := range n / profiles["large"].Hooks {
		o, err := ordinary(i)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(o)
		if err != nil {
			return err
		}
		list.Items = append(list.Items, runtime.RawExtension{Raw: raw})
	}
	text, err := json.MarshalIndent(list, "", "    ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func writeShape(path string, s shape, n int) error {
	return writeYAML(path, n, func(i int) (any, error) { return s.configuration(configurationName(i), i, n), nil })
}

func writeYAML(path string, n int, object func(int) (any, error)) error {
	var out bytes.Buffer
	for i := range n {
		o, err := object(i)
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return os.WriteFile(path, out.Bytes(), 0o600)
}
