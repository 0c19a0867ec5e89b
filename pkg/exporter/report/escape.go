package report

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
)

// writeEscaped writes what encode encodes, with escapes for what a terminal would
// interpret or not show: the encoders leave the control characters beyond ASCII as they
// are, and those that turn the direction of text. JSON has none of these outside of texts.
func writeEscaped(w io.Writer, encode func(io.Writer) error) error {
	var encoded, out bytes.Buffer
	if err := encode(&encoded); err != nil {
		return err
	}
	for _, r := range encoded.String() {
		if r < 0x7f || unicode.IsPrint(r) {
			out.WriteRune(r)
		} else {
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		}
	}
	_, err := out.WriteTo(w)
	return err
}
