package client

import (
	"bytes"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// codecs decode less than the API server sends: the schemas of CRDs are most of all
// bytes, and decoding them was a third of what a start allocated.
type codecs struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (c codecs) SupportedMediaTypes() []runtime.SerializerInfo {
	out := slices.Clone(c.NegotiatedSerializer.SupportedMediaTypes())
	for i, info := range out {
		if info.MediaType == runtime.ContentTypeProtobuf {
			out[i].Serializer = partialDecoder{info.Serializer}
		}
	}
	return out
}

// partialDecoder decodes protobuf without the unread fields.
type partialDecoder struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (d partialDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return d.Serializer.Decode(withoutUnread(data), defaults, into)
}

// fields are fields of a message: those without fields of their own are dropped, of
// the others those that they have.
type fields map[protowire.Number]fields

// unread are the fields that nothing reads, by the kinds that the program only reads
// and by their numbers in generated.proto. It would cost more to leave out little.
var unread = map[string]fields{
	"CustomResourceDefinition": {
		1: {17: {7: nil}},                // metadata.managedFields.fieldsV1
		2: {7: {4: nil, 6: nil, 9: nil}}, // spec.versions: schema, additionalPrinterColumns, selectableFields
	},
}

// magic begins each object in protobuf; a runtime.Unknown follows.
var magic = []byte("k8s\x00")

// withoutUnread returns the object, or the list, without the unread fields; as it is
// where it has none, or is not understood: the decoder says why.
func withoutUnread(data []byte) []byte {
	body, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return data
	}
	kind, isList := strings.CutSuffix(kindOf(body), "List")
	drop, ok := unread[kind]
	if !ok {
		return data
	}
	if isList {
		drop = fields{2: drop} // items
	}
	out, ok := without(slices.Clone(magic), body, fields{2: drop}) // raw
	if !ok {
		return data
	}
	return out
}

// kindOf returns typeMeta.kind of a runtime.Unknown, empty where there is none.
func kindOf(unknown []byte) string {
	return string(field(field(unknown, 1), 2))
}

// field returns the first bytes of the field of a message, nil where there are none.
func field(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		n, wire, size := protowire.ConsumeField(message)
		if size < 0 {
			return nil
		}
		if n == number && wire == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[protowire.SizeTag(n):])
			return value
		}
		message = message[size:]
	}
	return nil
}

// without appends the message without the fields to out. It is not ok where the
// message is not valid.
func without(out, message []byte, drop fields) (_ []byte, ok bool) {
	for len(message) > 0 {
		n, wire, size := protowire.ConsumeField(message)
		if size < 0 {
			return nil, false
		}
		inner, named := drop[n]
		switch {
		case !named || wire != protowire.BytesType:
			out = append(out, message[:size]...)
		case inner != nil:
			value, length := protowire.ConsumeBytes(message[protowire.SizeTag(n):])
			if length < 0 {
				return nil, false
			}
			kept, ok := without(nil, value, inner)
			if !ok {
				return nil, false
			}
			out = protowire.AppendBytes(protowire.AppendTag(out, n, wire), kept)
		}
		message = message[size:]
	}
	return out, true
}
