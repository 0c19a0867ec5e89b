// Command kubectl is kubectl, in a binary of its own: tests and runbooks start
// it again and again, and each start of all of Kubernetes would take twice as
// long.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
