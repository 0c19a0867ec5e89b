package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/version"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/access"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/page"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
)

type webFlags struct {
	listen           []string
	certFile, key    string
	trusted          []string
	plain, anonymous bool
	// hosts are the names under which the page on loopback answers.
	hosts      []string
	selfSigned bool
	maxSeries  int
	// observed says that /metrics has what API servers measure.
	observed bool
}

func (f *webFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.listen, "web.listen-address", []string{":8443"}, "addresses to serve the status page, /metrics, /healthz and /readyz on")
	flags.StringVar(&f.certFile, "web.tls-cert-file", "", "serving certificate, in a cluster; reloaded when it changes")
	flags.StringVar(&f.key, "web.tls-private-key-file", "", "key of the serving certificate")
	flags.BoolVar(&f.selfSigned, "web.self-signed", false, "serve with a self-signed certificate, generated in memory, while --web.tls-cert-file is unset or missing")
	flags.StringSliceVar(&f.trusted, "web.trusted-user", []string{"system:serviceaccount:openshift-monitoring:prometheus-k8s"}, "users who may scrape with a client certificate without a SubjectAccessReview")
	flags.BoolVar(&f.anonymous, "web.allow-anonymous", false, "serve metrics over TLS without authentication")
	flags.IntVar(&f.maxSeries, "web.max-series", exporter.DefaultMaxSeries, "maximum number of series per metric family; webhook_auditor_series_dropped counts the series dropped")
	flags.BoolVar(&f.observed, "web.observed-metrics", false, "export what the API servers count of webhooks and policies, with --observe=apiserver, for a Prometheus that scrapes no API server; see print rules --signals")
	flags.StringSliceVar(&f.hosts, "web.allowed-hosts", nil, "names, besides localhost and addresses, that a request over plain HTTP on loopback may have in its Host header")
	flags.BoolVar(&f.plain, "web.allow-http", false, "serve plain HTTP on addresses other than loopback")
}

// check refuses to serve plain HTTP by accident.
func (f *webFlags) check() error {
	switch {
	case f.maxSeries < 1:
		return usageError{fmt.Errorf("--web.max-series: must be at least 1, not %d", f.maxSeries)}
	case f.ownTLS() || f.plain:
		return nil
	}
	for _, address := range f.listen {
		if !loopback(address) {
			return usageError{fmt.Errorf("--web.listen-address: must be a loopback address for plain HTTP, not %s: use TLS (--web.tls-cert-file or --web.self-signed), listen on 127.0.0.1, or set --web.allow-http", address)}
		}
	}
	return nil
}

func (f *webFlags) ownTLS() bool { return f.certFile != "" || f.selfSigned }

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func (f *webFlags) serve(ctx context.Context, config *rest.Config, d *daemon) error {
	server := newServer(f.ownHosts(f.handler(d)))
	server.ErrorLog = slog.NewLogLogger(newLibraryLog(d.log.Handler(), "net/http", d.own.LibraryMessages), slog.LevelWarn)
	serve := server.Serve
	if f.ownTLS() {
		if err := f.secure(ctx, server, config, d); err != nil {
			return err
		}
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	listeners, err := listen(f.listen)
	if err != nil {
		return err
	}
	err = serveUntil(ctx, server, f.linger(), func() error {
		ended := make(chan error, len(listeners))
		for _, l := range listeners {
			d.log.Info("serving", "address", l.Addr())
			go func() { ended <- serve(l) }()
		}
		return <-ended
	})
	if err != nil {
		return fmt.Errorf("serving on %v: %w", f.listen, err)
	}
	return ctx.Err()
}

// newServer bounds how long a connection lasts without a request, within one, or without
// reading the answer. A scrape takes milliseconds, and the reviews before it some seconds.
func newServer(handler http.Handler) *http.Server {
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
	(&connections{requests: map[net.Conn]int{}}).bound(server, handler)
	return server
}

func (f *webFlags) handler(d *daemon) http.Handler {
	var observed prometheus.Gatherer
	if f.observed {
		observed = exporter.NewObserved(f.maxSeries, d.exportObserved)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", exporter.NewHandler(d.current, exporter.Bounded(f.maxSeries), observed, d.own.Collectors()...))
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /readyz", d.ready)
	mux.Handle("/", page.NewHandler(d.observed, time.Now, page.Options{
		Version: version.Version, Explain: explainRequest, OnPanic: d.panicked, History: d.history,
	}))
	return mux
}

// ownHosts refuses requests over plain HTTP on loopback whose Host is a foreign
// name: a web page in a browser could point its own name at 127.0.0.1 and read ours.
func (f *webFlags) ownHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if r.TLS == nil && local != nil && loopback(local.String()) && !f.ownHost(r.Host) {
			http.Error(w, fmt.Sprintf("%q is no name of this server: use localhost or an address, or add the name to --web.allowed-hosts", r.Host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (f *webFlags) ownHost(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	same := func(own string) bool { return strings.EqualFold(own, name) }
	return net.ParseIP(name) != nil || same("localhost") || slices.ContainsFunc(f.hosts, same)
}

// scrapeGrace is how long requests in flight may take after SIGTERM: as long as
// a scrape takes by default, and less than a kubelet waits.
const scrapeGrace = 10 * time.Second

// linger is how long connections are still taken after SIGTERM: in a cluster as long as
// it takes until no Prometheus and no kube-proxy sends any.
func (f *webFlags) linger() time.Duration {
	if f.ownTLS() {
		return 5 * time.Second
	}
	return 0
}

// serveUntil serves until the context ends and so much longer, and then lets the requests
// in flight end.
func serveUntil(ctx context.Context, server *http.Server, linger time.Duration, serve func() error) error {
	ended := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(ended)
		time.Sleep(linger)
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

// secure makes the server one of HTTPS, the pages too, for whom the API server lets get
// /metrics. The probes of the kubelet need no name.
func (f *webFlags) secure(ctx context.Context, server *http.Server, config *rest.Config, d *daemon) error {
	pair, err := f.pair(d)
	if err != nil {
		return err
	}
	ca := &access.ClientCA{}
	if err := followClientCA(ctx, ca, config, d); err != nil {
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
	return nil
}

func (f *webFlags) pair(d *daemon) (_ *access.KeyPair, err error) {
	pair := &access.KeyPair{CertFile: f.certFile, KeyFile: f.key, OnRead: d.serving}
	if f.selfSigned {
		if pair.StandIn, err = access.SelfSigned(); err != nil {
			return nil, err
		}
	}
	_, err = pair.Get(nil)
	return pair, err
}

func (f *webFlags) reviewer(config *rest.Config, d *daemon) (*access.Reviewer, error) {
	config = rest.CopyConfig(config)
	// The Reviewer limits what unknown users cause; a limit of the client would have
	// users with a grant wait for them.
	config.QPS = -1
	tokens, err1 := client.Group(config, nil, authenticationv1.SchemeGroupVersion)
	subjects, err2 := client.Group(config, nil, authorizationv1.SchemeGroupVersion)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("preparing to review who may scrape: %w", err)
	}
	return access.NewReviewer(&access.Reviewer{
		Tokens:   client.Of[authenticationv1.TokenReview](tokens, "tokenreviews", "").Create,
		Subjects: client.Of[authorizationv1.SubjectAccessReview](subjects, "subjectaccessreviews", "").Create,
		Path:     "/metrics",
		Trusted:  f.trusted,
		OnReview: d.reviewed,
		Clock:    clock.RealClock{},
	}), nil
}

// followClientCA verifies client certificates by the CA that the API server publishes.
func followClientCA(ctx context.Context, ca *access.ClientCA, config *rest.Config, d *daemon) error {
	core, err := client.Group(config, nil, corev1.SchemeGroupVersion)
	if err != nil {
		return fmt.Errorf("preparing to read the client CA: %w", err)
	}
	go ca.Follow(ctx, client.Of[corev1.ConfigMap](core, "configmaps", access.ClientCANamespace).Get, d.clientCA)
	return nil
}

// guarded asks for a name at everything but the probes.
func guarded(reviewer *access.Reviewer, next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", reviewer.Guard(next))
	mux.Handle("GET /healthz", next)
	mux.Handle("GET /readyz", next)
	return mux
}

// explainRequest answers a request that a user puts into the box of the status page, as
// the command line would. It reads no file: those here are not the user's.
func explainRequest(m *admission.Matcher, q page.Request) (admission.Chain, error) {
	flags := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	request := registerRequest(flags)
	if err := errors.Join(givenOnce(flags, q.Words), flags.Parse(q.Words)); err != nil {
		return admission.Chain{}, err
	}
	if request.file != "" {
		return admission.Chain{}, errors.New("-f: the status page reads no files: paste the object")
	}
	if q.Object != "" {
		request.file = "-"
	}
	arguments, err := request.read(flags.Args(), streams{reader: strings.NewReader(q.Object), readerName: "in the box"})
	if err != nil {
		return admission.Chain{}, err
	}
	return arguments.chain(knowledge{Matcher: m})
}
