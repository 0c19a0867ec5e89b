#!/bin/sh
# Builds what the benchmark compares with, at a pinned version, into e2e/bin:
# kube-state-metrics.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
export CGO_ENABLED=0 GOWORK=off
mkdir -p "$here/../../bin"
cd "$here/kube-state-metrics"
nice go build -ldflags '-s -w' -o ../../../bin/kube-state-metrics k8s.io/kube-state-metrics/v2
