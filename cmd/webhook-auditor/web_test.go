package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestWebFlags: nothing is served in the clear by accident, and nobody gives
// two certificates.
func TestWebFlags(t *testing.T) {
	for line, want := range map[string]string{
		"":                                    "plain HTTP is served on loopback only",
		"--web.listen-address=127.0.0.1:8443": "",
		"--web.listen-address=[::1]:8443,localhost:1":   "",
		"--web.listen-address=127.0.0.1:8443,0.0.0.0:1": "plain HTTP is served on loopback only",
		"--web.allow-http":                                                              "",
		"--web.self-signed":                                                             "",
		"--web.config.file=web.yaml":                                                    "",
		"--web.self-signed --web.config.file=web.yaml":                                  "--web.self-signed",
		"--web.tls-cert-file=c":                                                         "want both",
		"--web.tls-cert-file=c --web.tls-private-key-file=k":                            "",
		"--web.tls-cert-file=c --web.tls-private-key-file=k --web.self-signed":          "",
		"--web.tls-cert-file=c --web.tls-private-key-file=k --web.config.file=web.yaml": "--web.config.file",
	} {
		var f webFlags
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		f.register(flags)
		if err := flags.Parse(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		err := f.check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}
