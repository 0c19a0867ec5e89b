package exporter

import (
	"crypto/x509"
	"encoding/pem"
	"time"
)

// lastExpiry returns when the last certificate of a CA bundle expires, the zero
// time if it holds none. Until then calls verify: bundles carry the old and the
// new CA during a rotation. Like the API server, it passes over what is not a
// certificate.
func lastExpiry(bundle []byte) time.Time {
	var last time.Time
	for len(bundle) > 0 {
		var block *pem.Block
		block, bundle = pem.Decode(bundle)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err == nil && cert.NotAfter.After(last) {
			last = cert.NotAfter
		}
	}
	return last
}
