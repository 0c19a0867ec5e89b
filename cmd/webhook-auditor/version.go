package main

import (
	"context"
	"fmt"

	"github.com/prometheus/common/version"
	"github.com/spf13/pflag"
)

func versionCommand(*pflag.FlagSet) action {
	return func(_ context.Context, _ []string, s streams) error {
		_, err := fmt.Fprintln(s.out, version.Print("webhook-auditor"))
		return err
	}
}
