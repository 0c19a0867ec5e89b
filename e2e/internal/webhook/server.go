// Package webhook is a real webhook server for tests and the demo: admission
// and conversion over TLS, with behaviours that can be changed while it runs,
// a record of all calls, and the Services through which API servers reach it.
package webhook

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
)

// Server answers webhook calls on a loopback port.
type Server struct {
	authority *ca.Authority
	address   string
	// Put writes what older API servers route by, where one does; nil elsewhere.
	Put func(key string, value []byte) error

	mu         sync.Mutex
	http       *http.Server // nil while gone
	hangsUp    bool
	behaviours map[string]Behaviour // by path, where it differs from the path's own
	counts     map[string]int       // calls by path
	calls      []Call
}

// Start runs a webhook server; the caller must Close it.
func Start() (*Server, error) {
	signer, err := ca.New("webhooks")
	if err != nil {
		return nil, err
	}
	s := &Server{
		authority:  signer,
		address:    "127.0.0.1:0",
		behaviours: map[string]Behaviour{},
		counts:     map[string]int{},
	}
	return s, s.Open()
}

// Open listens again at the same port after Close.
func (s *Server) Open() error {
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return fmt.Errorf("opening the webhook server: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.address = listener.Addr().String()
	s.http = &http.Server{
		Handler:           s,
		TLSConfig:         &tls.Config{GetCertificate: s.certificate, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are part of the tests
	}
	s.http.SetKeepAlivesEnabled(!s.hangsUp)
	go func(server *http.Server) { _ = server.ServeTLS(listener, "", "") }(s.http) // ends with ErrServerClosed
	return nil
}

// HangUp ends each connection with its call from now on.
func (s *Server) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangsUp = true
	s.http.SetKeepAlivesEnabled(false)
}

// Close makes the server gone: connections are refused, open ones broken.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http == nil {
		return nil
	}
	err := s.http.Close()
	s.http = nil
	return err
}

// Port is the port the server listens on, also while it is closed.
func (s *Server) Port() int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int32(netip.MustParseAddrPort(s.address).Port())
}

// URL is how to reach a path of the server without a Service.
func (s *Server) URL(path string) string {
	return fmt.Sprintf("https://127.0.0.1:%d%s", s.Port(), path)
}

// CABundle is what the caBundle of a webhook must hold.
func (s *Server) CABundle() []byte { return slices.Clone(s.authority.Bundle) }

// Behave changes how calls of a path are answered, from the next call on.
func (s *Server) Behave(path string, b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behaviours[path] = b
	s.counts[path] = 0
}

// certificate signs a certificate for whatever name the client asks for:
// SERVICE.NAMESPACE.svc of any Service, or the address where it names none.
func (s *Server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := hello.ServerName
	if name == "" {
		name = "127.0.0.1"
	}
	pair, err := s.authority.Serving(name)
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	return &certificate, err
}

// ServeHTTP answers one call as the behaviour of its path says.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review, err := readReview(http.MaxBytesReader(w, r.Body, 8<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	call := review.call()
	call.Path, call.ByAdmission = r.URL.Path, r.UserAgent() == "kube-apiserver-admission"
	behaviour, nth, err := s.record(call)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	select {
	case <-r.Context().Done():
		return // the client has gone
	case <-time.After(behaviour.Delay):
	}
	if behaviour.fails(nth) {
		http.Error(w, "failing as configured", http.StatusInternalServerError)
		return
	}
	if behaviour.Redirect != "" {
		http.Redirect(w, r, behaviour.Redirect, http.StatusTemporaryRedirect) // with the review
		return
	}
	w.Header().Set("Content-Type", cmp.Or(behaviour.ContentType, "application/json"))
	if behaviour.Again && nth%2 == 1 { // each second call is answered
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not now", http.StatusTooManyRequests)
		return
	}
	answer := []byte(`{"no": "review"}`)
	switch {
	case behaviour.Answer != "":
		answer = []byte(strings.ReplaceAll(behaviour.Answer, "UID", string(call.UID)))
	case !behaviour.Garbage:
		answer = append(bytes.Repeat([]byte(" "), behaviour.Padding), review.answer(behaviour)...)
	}
	_, _ = w.Write(answer) // an error is the client's to see
}

// record writes the call down and says how to answer it, and the how manieth
// of its path it is.
func (s *Server) record(call Call) (Behaviour, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	s.counts[call.Path]++
	if b, set := s.behaviours[call.Path]; set {
		return b, s.counts[call.Path], nil
	}
	b, err := Parse(call.Path)
	return b, s.counts[call.Path], err
}
