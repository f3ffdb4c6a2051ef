// Package codec compresses payloads before they are stored. A codec's number stands beside each
// body, so that a store can hold bodies of several kinds.
package codec

import (
	_ "embed"
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"
)

// The codecs. Numbers are kept in stores and never reused.
const (
	Raw    = 0
	S2     = 2
	GitHub = 3 // S2 that begins with GitHub's own words
)

// MaxBody bounds what a stored body may expand to: more than any payload that GitHub sends.
const MaxBody = 128 << 20

// Most of what GitHub sends is the same names and URLs time and again. With a sample of them at
// hand a payload shrinks to a tenth or a fifth, in about the time that S2 alone takes to make it a
// third. The sample belongs to the codec's number: bodies in stores cannot be read without it, so it
// never changes. A better one gets a number of its own.
//
//go:embed github.jsonl
var sample []byte

var github = s2.MakeDict(sample, nil)

// sampled is how far into a body the sample helps. What is longer is mostly its own lists, and plain
// S2 is several times as quick.
const sampled = 64 << 10

// Encode appends the body to dst, compressed, and names the codec: Raw where compression gains
// nothing. It is safe for concurrent use.
func Encode(dst, body []byte) ([]byte, int) {
	n := len(dst)
	dst = slices.Grow(dst, s2.MaxEncodedLen(len(body)))
	free := dst[n:cap(dst)]
	var size, codec int
	if len(body) <= sampled {
		size, codec = len(github.Encode(free, body)), GitHub
	} else {
		size, codec = len(s2.Encode(free, body)), S2
	}
	if size >= len(body) {
		return append(dst, body...), Raw
	}
	return dst[:n+size], codec
}

// Decode returns the body as it was given to Encode. It is safe for concurrent use.
func Decode(codec int, b []byte) ([]byte, error) {
	if codec == Raw {
		return b, nil
	}
	if codec != S2 && codec != GitHub {
		return nil, fmt.Errorf("a stored body has the unknown codec %d; was it written by a newer preloop?", codec)
	}
	n, err := s2.DecodedLen(b)
	if err == nil && n > MaxBody {
		err = fmt.Errorf("the decompressed size exceeds %d bytes", MaxBody)
	}
	var body []byte
	switch {
	case err != nil:
	case codec == S2:
		body, err = s2.Decode(nil, b)
	default:
		body, err = github.Decode(nil, b)
	}
	if err != nil {
		return nil, fmt.Errorf("decompressing a stored body: %w", err)
	}
	return body, nil
}
