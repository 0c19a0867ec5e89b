# All that a user or a CI needs. Go, git and make are enough: no C compiler, no root, no
# container engine, no cluster. Tests that need more are in "make e2e".

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BUILDER = https://github.com/webhook-auditor/webhook-auditor/blob/main/Makefile
PLATFORMS = linux/amd64,linux/arm64,darwin/arm64
DOWNLOADS = https://github.com/webhook-auditor/webhook-auditor/releases/download
# The flags of all builds of the auditor, those of images and releases too: what one has
# compiled no other compiles again. A release adds -trimpath, by GOFLAGS. Beside a C compiler Go would compile all that reaches package net
# once more for tests, with cgo, and link some of them with the C linker.
export CGO_ENABLED := 0
LDFLAGS := -s -w -X github.com/prometheus/common/version.Version=$(VERSION)
# A loaded machine takes longer than Go's ten minutes for a package. "make lint" vets, all that is imported too.
GOTEST  := $(GO) test -timeout 60m -vet=off
TOOL    := $(GO) tool -modfile=$(CURDIR)/.ci/tools.mod
MODULES := . e2e e2e/helm e2e/suites/installations manifests/packaging

.PHONY: build demo demo-live test unit packaging e2e e2e-suites notifications installations manifests generate lint control-plane monitoring servers test-faults e2e-fleet mutants e2e-matrix node-programs cluster e2e-node e2e-node-worst contributing bench-programs bench bench-check docs screenshots image release-names release clean

# Compilers and tests leave much garbage: collected less often, they take a sixth less.
build test: export GOGC = 400

build: ## the binary, static, in bin/
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/webhook-auditor ./cmd/webhook-auditor

manifests: build ## what is derived
	bin/webhook-auditor print all --write .

control-plane: ## etcd, kube-apiserver, kube-controller-manager and kubectl from source, in e2e/bin; the first time only
	e2e/build.sh

monitoring: ## Prometheus and Alertmanager from source, in e2e/bin; the first time only
	e2e/prom/build.sh

servers: # side by side, as one waits for downloads while the other compiles
	@$(MAKE) --no-print-directory --jobs=3 build control-plane monitoring

# In the foreground of a terminal (+) a demo is a job of its own (set -m), so that
# Ctrl-C is sent to it alone: make, and "go run" as well, would call it an error.
FOREGROUND = case $$(ps -o stat= -p $$$$ 2>/dev/null) in *+*) set -m ;; esac

demo: build ## a recorded incident plays, on a status page and in the terminal; DEMO_ONCE=1 prints its report and ends
	@$(FOREGROUND); bin/webhook-auditor demo $(if $(DEMO_ONCE),--once)

demo-live: ## broken webhooks in a real control plane, audited, with alerts; DEMO_ONCE=1 ends after the report
	@test -e e2e/bin/.stamp || echo 'Kubernetes and Prometheus are built first, for five to twenty minutes. "make demo" shows a recorded incident at once.'
	@$(MAKE) --no-print-directory build
	@e2e/found.sh e2e/bin
	@cd e2e && $(GO) build -o ../bin/demo ./demo
	@$(FOREGROUND); cd e2e && ../bin/demo

test: ## all packages and the packaging; no control plane, no browser
	@mkdir -p bin
	@{ $(MAKE) --no-print-directory --jobs=2 unit packaging; echo $$? >bin/test.code; } 2>&1 | tee bin/test.log
	@echo 'The slowest packages:'
	@awk '$$1 == "ok" && $$3 ~ /^[0-9.]+s$$/ { print $$3, $$2 }' bin/test.log | sort -rn | head -n 5
	@exit $$(cat bin/test.code)

unit:
	$(GOTEST) ./...

packaging: manifests # kustomize, Helm and install.yaml say the same; the image holds what it should; Helm sorts as the auditor says
	cd manifests/packaging && $(GOTEST) -count=1 ./...
	cd e2e/helm && $(GOTEST) -count=1 ./...

# What computes first and side by side, then what a loaded machine would disturb.
e2e: ## all other tests: against a real control plane and in Chromium, promtool, real software; builds both servers the first time
	@$(MAKE) --no-print-directory --jobs=3 manifests control-plane monitoring
	@$(MAKE) --no-print-directory --jobs=2 e2e-suites bin/rules-checked
	@$(MAKE) --no-print-directory installations

notifications: build ## what outages page and open, by Alertmanager's own code in virtual time; a part of e2e
	cd e2e && $(GOTEST) -count=1 -run 'TestNotifications|TestOutages|TestTexts|TestIncidents' ./suites/alerts

installations: build ## the findings on real software, from its released manifests; a part of e2e
	cd e2e/suites/installations && nice $(GOTEST) -count=1 ./...

# The alerts by promtool and amtool, when one of them or the alerts have changed.
bin/rules-checked: rules/check.sh rules/prometheus.yaml rules/alertmanager.yaml $(wildcard e2e/bin/promtool e2e/bin/amtool)
	@mkdir -p bin && touch $@.new
	nice rules/check.sh
	@mv $@.new $@

e2e-suites:
	cd e2e && nice $(GOTEST) -count=1 -p 3 ./...

test-faults: servers ## what breaks control planes, several at a time: they mostly wait; SOAK=1 soaks for 20 minutes
	cd e2e && $(GO) vet -tags faults ./suites/faults && \
		$(GOTEST) -count=1 -tags faults -parallel 4 -run TestFault ./suites/faults

# FLEETFLAGS="-write ../../../rules/README.md" writes what was measured there.
e2e-fleet: servers ## 100 clusters in Thanos, and the rules read by Mimir's tool; builds both the first time, in ten minutes each
	e2e/prom/fleet.sh
	cd e2e && $(GO) vet -tags fleet ./suites/fleet && $(GOTEST) -count=1 -v -tags fleet -run 'TestThanos|TestMimir' ./suites/fleet $(FLEETFLAGS)

mutants: ## each comparison, threshold and matcher of each rule of the alerts is changed: a scenario must notice it
	MUTANTS=. GOMEMLIMIT=4GiB $(GOTEST) -count=1 -v -run TestMutants ./rules

e2e-matrix: build ## the auditor in real releases of Kubernetes, or in RELEASES="1.31 1.36"; builds each once, see e2e/README.md
	cd e2e && $(GO) vet -tags matrix ./suites/alerts && nice matrix/run.sh $(RELEASES)

node-programs: ## kubelet, kube-proxy, kube-scheduler and CoreDNS from source, in e2e/bin; the first time only
	e2e/node/build.sh

# Root is for namespaces, mounts and control groups; nothing of it touches the machine's network.
cluster: build node-programs ## real nodes until Ctrl-C, as root: NODES=3 PROXY_MODE=nftables APISERVER_FLAGS= EMULATED_VERSION=1.36
	@cd e2e && $(GO) build -o ../bin/cluster ./node
	@$(FOREGROUND); cd e2e && ../bin/cluster

# NODEFLAGS="-write ../../../docs/real-cluster.md" writes what was measured there.
NODETEST = $(GOTEST) -count=1 -v -tags node
e2e-node: build ## the image and the manifests as shipped, and webhooks of others, in a cluster of real nodes; as root
	@$(MAKE) --no-print-directory image ARCHITECTURES=$$($(GO) env GOARCH)
	e2e/node/build.sh software
	cd e2e && $(GO) vet -tags node ./internal/nodes ./suites/node && $(NODETEST) ./internal/nodes && $(NODETEST) ./suites/node $(NODEFLAGS) && \
		PROXY_MODE=nftables EMULATED_VERSION=1.36 $(NODETEST) -run 'Installed|NothingLeaves|Outages/(scaled|targetPort)' ./suites/node

# The worst that can happen: three minutes once all is built. "e2e/node/build.sh able" says
# whether this machine can have nodes.
e2e-node-worst: build node-programs
	@$(MAKE) --no-print-directory image ARCHITECTURES=$$($(GO) env GOARCH)
	cd e2e && $(GO) vet -tags node ./internal/nodes ./suites/node && \
		$(GOTEST) -count=1 -p 1 -tags node -run 'Left|Installed|NothingLeaves|KilledHolder|Departure/drained|StopsFunctions/(configmaps|serviceaccounts)|Outages/(scaled|targetPort|expired)' ./internal/nodes ./suites/node

contributing: ## follows CONTRIBUTING.md as printed, in copies of the repository
	cd e2e && $(GO) vet -tags contributing ./suites/contributing && nice $(GOTEST) -count=1 -tags contributing ./suites/contributing

# What is compared with is compiled once for each of its versions: that takes minutes.
bin/bench-peers: e2e/bench/peers/build.sh $(wildcard e2e/bench/peers/*/go.mod)
	e2e/bench/peers/build.sh
	@mkdir -p bin && touch $@

bench-programs: build control-plane bin/bench-peers
	cd e2e && $(GO) build -o bin/bench ./bench

# BENCH names one or several of small, medium, large, services and pods; ROUNDS is how often
# each program is measured.
bench: bench-programs ## what the auditor costs beside kube-state-metrics; see BENCH.md
	cd e2e && for profile in $(or $(BENCH),small); do bin/bench --profile $$profile --rounds $(or $(ROUNDS),3) $(BENCHFLAGS) || exit 1; done

bench-check: ## the ratios of one short run of bench within their limits, whatever else the machine does
	$(MAKE) bench BENCH=small ROUNDS=1 BENCHFLAGS="--changes 0 --settle 5s"

docs: ## the documents as a site in dist/docs, its links checked; needs npm
	docs/build.sh

screenshots: servers ## each board drawn with Grafana's own components; needs Debian's apt-get and npm
	e2e/screenshots/run.sh

lint: ## go vet, gofumpt, staticcheck, go fix
	@for m in $(MODULES); do (cd $$m && \
		$(GO) vet ./... && \
		$(TOOL) staticcheck ./... && \
		$(GO) fix -diff ./...) || exit 1; done
	@unformatted=$$($(TOOL) gofumpt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofumpt -w on:"; echo "$$unformatted"; exit 1; fi

generate: manifests ## what is derived, written anew by "print all"; a test compares it

ARCHITECTURES = amd64,arm64
image: build ## the container image for ARCHITECTURES, as an OCI archive in dist/; no daemon, no base image
	cd manifests/packaging && $(GO) run ./image -version '$(VERSION)' -ldflags '$(LDFLAGS)' -built $(CURDIR)/bin/webhook-auditor \
		-architectures '$(ARCHITECTURES)' -out $(CURDIR)/dist/webhook-auditor-image.tar

# It fails before it compiles, and compiles once for each platform: the image, its
# binaries and the program that writes the manifests share what they compile. Two cores
# take more than two minutes for a platform; PLATFORMS of release.yml has all.
release-names:
	@echo '$(VERSION)' | grep -Eq '^v[0-9]+\.[0-9]+\.[0-9]+' && echo '$(IMAGE)' | grep -Eq '[:@][^/]+$$' || { \
		echo "make release: VERSION=v1.2.3 and IMAGE=REGISTRY/webhook-auditor:v1.2.3 are needed" >&2; exit 2; }

release: export GOFLAGS = -trimpath
release: release-names manifests image ## the files of a release in dist/; needs VERSION=v1.2.3 and IMAGE=REGISTRY/webhook-auditor:v1.2.3, takes PLATFORMS
	cd manifests/packaging && $(GO) run ./release -version '$(VERSION)' -ldflags '$(LDFLAGS)' -image '$(IMAGE)' -url '$(DOWNLOADS)' -builder '$(BUILDER)' -platforms '$(PLATFORMS)' -out $(CURDIR)/dist

clean:
	rm -rf bin dist e2e/bin
