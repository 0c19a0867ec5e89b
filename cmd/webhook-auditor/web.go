package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/access"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/page"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

// webFlags are the addresses to serve on, the certificate and the clients.
type webFlags struct {
	listen           []string
	config           string
	certFile, key    string
	clientCA         string
	trusted          []string
	plain, anonymous bool
	selfSigned       bool
	// maxSeries bounds each metric family.
	maxSeries int
	// observed says that /metrics has what API servers measure.
	observed bool
	// names are those that a self-signed certificate is for.
	names []string
}

func (f *webFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.listen, "web.listen-address", []string{":8443"}, "addresses to serve the status page, /metrics, /healthz and /readyz on")
	flags.StringVar(&f.config, "web.config.file", "", "file with TLS and authentication for use outside a cluster, see https://github.com/prometheus/exporter-toolkit")
	flags.StringVar(&f.certFile, "web.tls-cert-file", "", "serving certificate, in a cluster; reloaded when it changes")
	flags.StringVar(&f.key, "web.tls-private-key-file", "", "key of the serving certificate")
	flags.BoolVar(&f.selfSigned, "web.self-signed", false, "serve with a self-signed certificate, generated in memory, while --web.tls-cert-file is unset or missing")
	flags.StringVar(&f.clientCA, "web.client-ca-file", "", "CA bundle that verifies client certificates; reloaded when it changes (default: the one the API server publishes)")
	flags.StringSliceVar(&f.trusted, "web.trusted-user", []string{"system:serviceaccount:openshift-monitoring:prometheus-k8s"}, "users who may scrape with a client certificate without a SubjectAccessReview")
	flags.BoolVar(&f.anonymous, "web.allow-anonymous", false, "serve metrics over TLS without authentication")
	flags.IntVar(&f.maxSeries, "web.max-series", exporter.DefaultMaxSeries, "maximum number of series per metric family; webhook_auditor_series_dropped counts the series dropped")
	flags.BoolVar(&f.observed, "web.observed-metrics", false, "export what the API servers count of webhooks and policies, with --observe=apiserver, for a Prometheus that scrapes no API server; see print rules --signals")
	flags.BoolVar(&f.plain, "web.allow-http", false, "serve plain HTTP on addresses other than loopback")
}

// check refuses to serve plain HTTP by accident.
func (f *webFlags) check() error {
	switch {
	case f.maxSeries < 1:
		return usageError{fmt.Errorf("--web.max-series: must be at least 1, not %d", f.maxSeries)}
	case (f.certFile == "") != (f.key == ""):
		return usageError{errors.New("--web.tls-cert-file: must be given together with --web.tls-private-key-file")}
	case f.ownTLS() && f.config != "":
		return usageError{errors.New("--web.config.file: must be given without --web.tls-cert-file and --web.self-signed")}
	case f.ownTLS() || f.config != "" || f.plain:
		return nil
	}
	for _, address := range f.listen {
		if !loopback(address) {
			return usageError{fmt.Errorf("--web.listen-address: must be a loopback address for plain HTTP, not %s: use TLS (--web.tls-cert-file, --web.self-signed or --web.config.file), listen on 127.0.0.1, or set --web.allow-http", address)}
		}
	}
	return nil
}

// ownTLS reports whether we serve HTTPS ourselves, as in a cluster.
func (f *webFlags) ownTLS() bool { return f.certFile != "" || f.selfSigned }

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// serve answers until the context ends.
func (f *webFlags) serve(ctx context.Context, config *rest.Config, d *daemon) error {
	server := newServer(f.handler(d))
	server.ErrorLog = slog.NewLogLogger(newLibraryLog(d.log.Handler(), "net/http", d.messages), slog.LevelWarn)
	serve := f.toolkit
	if f.ownTLS() {
		serve = f.inCluster
	}
	err := serveUntil(ctx, server, func() error { return serve(ctx, server, config, d) })
	if err != nil {
		return fmt.Errorf("serving on %v: %w", f.listen, err)
	}
	return ctx.Err()
}

// newServer bounds what a client can keep: the number of connections, and how long each
// lasts without a request, within one, or without reading the answer. A scrape takes
// milliseconds, and the reviews before it some seconds.
func newServer(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
	access.LimitConnections(server)
	return server
}

// handler serves the metrics, the probes and the pages.
func (f *webFlags) handler(d *daemon) http.Handler {
	own := []prometheus.Collector{d.evaluations, d.writeErrors, d.policy, d.messages, d.panics}
	if f.observed {
		own = append(own, exporter.NewObserved(f.maxSeries, d.exportObserved))
	}
	metrics := exporter.NewHandler(d.current, exporter.Bounded(f.maxSeries), own...)
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics)
	mux.Handle("/healthz", metrics)
	mux.Handle("/readyz", d.evaluations.guardReady(metrics))
	pages := pageOptions()
	pages.OnPanic, pages.Impact, pages.History = d.panicked, d.impact, d.history
	mux.Handle("/", page.NewHandler(d.observed, time.Now, pages))
	return mux
}

// scrapeGrace is how long requests in flight may take after SIGTERM: as long as
// a scrape takes by default, and less than a kubelet waits.
const scrapeGrace = 10 * time.Second

// serveUntil serves until the context ends, and then lets the requests in flight
// end.
func serveUntil(ctx context.Context, server *http.Server, serve func() error) error {
	ended := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(ended)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), scrapeGrace)
		defer cancel()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	})()
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-ended
	return nil
}

// toolkit serves as Prometheus' own programs do.
func (f *webFlags) toolkit(_ context.Context, server *http.Server, _ *rest.Config, d *daemon) error {
	systemd := false
	return web.ListenAndServe(server, &web.FlagConfig{
		WebListenAddresses: &f.listen,
		WebSystemdSocket:   &systemd,
		WebConfigFile:      &f.config,
	}, d.log)
}

// inCluster serves HTTPS, the pages too, to whom the API server lets get /metrics. The probes
// of the kubelet need no name.
func (f *webFlags) inCluster(ctx context.Context, server *http.Server, config *rest.Config, d *daemon) error {
	pair, ca := f.pair(d), &access.ClientCA{}
	if _, err := pair.Get(nil); err != nil {
		return err
	}
	if err := f.clientCAs(ctx, ca, config, d); err != nil {
		return err
	}
	if !f.anonymous {
		reviewer, err := f.reviewer(config, d)
		if err != nil {
			return err
		}
		server.Handler = guarded(reviewer, server.Handler)
	}
	server.TLSConfig = access.Config(pair, ca)
	return listenAll(f.listen, func(l net.Listener) error { return server.ServeTLS(l, "", "") })
}

// pair is what is served with.
func (f *webFlags) pair(d *daemon) *access.KeyPair {
	pair := &access.KeyPair{CertFile: f.certFile, KeyFile: f.key, OnChange: d.serving}
	if f.selfSigned {
		pair.SelfSigned = &access.SelfSigned{Names: f.names, Now: time.Now}
	}
	return pair
}

// reviewer has the API server review who may scrape.
func (f *webFlags) reviewer(config *rest.Config, d *daemon) (*access.Reviewer, error) {
	config = rest.CopyConfig(config)
	// The Reviewer limits what unknown users cause; a limit of the client would
	// have known ones wait for them.
	config.QPS = -1
	tokens, err := client.Group(config, nil, authenticationv1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("preparing to review who may scrape: %w", err)
	}
	subjects, err := client.Group(config, nil, authorizationv1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("preparing to review who may scrape: %w", err)
	}
	return &access.Reviewer{
		Tokens:   client.Of[authenticationv1.TokenReview](tokens, "tokenreviews", "").Create,
		Subjects: client.Of[authorizationv1.SubjectAccessReview](subjects, "subjectaccessreviews", "").Create,
		Keys: func(ctx context.Context) ([]byte, error) {
			return tokens.Get().AbsPath("/openid/v1/jwks").Do(ctx).Raw()
		},
		Path:     "/metrics",
		Trusted:  f.trusted,
		OnReview: d.reviewed,
		Now:      time.Now,
	}, nil
}

func (f *webFlags) clientCAs(ctx context.Context, ca *access.ClientCA, config *rest.Config, d *daemon) error {
	if f.clientCA == "" {
		core, err := client.Group(config, nil, corev1.SchemeGroupVersion)
		if err != nil {
			return fmt.Errorf("preparing to read the client CA: %w", err)
		}
		go ca.Follow(ctx, client.Of[corev1.ConfigMap](core, "configmaps", access.ClientCANamespace).Get, d.clientCA)
		return nil
	}
	ca.File, ca.OnRead = f.clientCA, d.clientCA
	return ca.Read()
}

// guarded asks for a name at everything but the probes.
func guarded(reviewer *access.Reviewer, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", reviewer.Guard(next))
	mux.Handle("GET /healthz", next)
	mux.Handle("GET /readyz", next)
	return mux
}

// listenAll serves on all addresses and returns with the first that ends.
func listenAll(addresses []string, serve func(net.Listener) error) error {
	ended := make(chan error, len(addresses))
	for _, address := range addresses {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		go func() { ended <- serve(listener) }()
	}
	return <-ended
}
