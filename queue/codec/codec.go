// Package codec compresses payloads before they are stored. A codec's number stands beside each
// body, so that a store can hold bodies of several kinds.
package codec

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// The codecs. Numbers are kept in stores and never reused.
const (
	Raw  = 0
	Zstd = 1 // small, for a store behind a network
	S2   = 2 // quick, for a store that shares its processor with the receiver
)

// MaxBody bounds what a stored body may expand to: more than any payload that GitHub sends.
const MaxBody = 128 << 20

// Both are made with the program, not on first use: their channels then belong to no test's
// synctest bubble. Small windows and low memory: with the encoder's defaults its memory traffic
// halves the rate of a whole receiver.
var encoder, decoder = func() (*zstd.Encoder, *zstd.Decoder) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)),
		zstd.WithWindowSize(64<<10), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constants
	}
	e.EncodeAll([]byte{0}, nil)
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)), zstd.WithDecoderMaxMemory(MaxBody), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return e, d
}()

// Encode appends the body to dst, compressed as codec says, and names what it is: Raw where
// compression gains nothing. It is safe for concurrent use.
func Encode(dst, body []byte, codec int) ([]byte, int) {
	n := len(dst)
	var out []byte
	switch codec {
	case S2:
		dst = slices.Grow(dst, s2.MaxEncodedLen(len(body)))
		out = dst[:n+len(s2.Encode(dst[n:cap(dst)], body))]
	default:
		codec, out = Zstd, encoder.EncodeAll(body, dst)
	}
	if len(out)-n >= len(body) {
		return append(out[:n], body...), Raw
	}
	return out, codec
}

// Decode returns the body as it was given to Encode. It is safe for concurrent use.
func Decode(codec int, b []byte) ([]byte, error) {
	switch codec {
	case Raw:
		return b, nil
	case Zstd:
		body, err := decoder.DecodeAll(b, nil)
		if err != nil {
			return nil, fmt.Errorf("decompressing a stored body: %w", err)
		}
		return body, nil
	case S2:
		n, err := s2.DecodedLen(b)
		if err == nil && n > MaxBody {
			err = fmt.Errorf("the decompressed size exceeds %d bytes", MaxBody)
		}
		var body []byte
		if err == nil {
			body, err = s2.Decode(nil, b)
		}
		if err != nil {
			return nil, fmt.Errorf("decompressing a stored body: %w", err)
		}
		return body, nil
	}
	return nil, fmt.Errorf("a stored body has the unknown codec %d; was it written by a newer preloop?", codec)
}
