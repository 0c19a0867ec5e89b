package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
)

// writeEscaped writes what encode encodes, with escapes for what a terminal would
// interpret or not show: the encoders leave the control characters beyond ASCII as they
// are, and those that turn the direction of text. JSON and XML have none of these
// outside of texts.
func writeEscaped(w io.Writer, escape func(rune) string, encode func(io.Writer) error) error {
	var encoded, out bytes.Buffer
	if err := encode(&encoded); err != nil {
		return err
	}
	for _, r := range encoded.String() {
		if r < 0x7f || unicode.IsPrint(r) {
			out.WriteRune(r)
		} else {
			out.WriteString(escape(r))
		}
	}
	_, err := out.WriteTo(w)
	return err
}

func jsonEscape(r rune) string {
	var out strings.Builder
	for _, unit := range utf16.AppendRune(nil, r) {
		out.WriteString(fmt.Sprintf(`\u%04x`, unit))
	}
	return out.String()
}

func xmlEscape(r rune) string { return fmt.Sprintf("&#x%X;", r) }
