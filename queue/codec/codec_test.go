package codec

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SliceOf(rapid.Byte()).Draw(t, "prefix")
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		if rapid.Bool().Draw(t, "repetitive") {
			body = bytes.Repeat(body, 50)
		}
		out, c := Encode(bytes.Clone(prefix), body, rapid.SampledFrom([]int{Zstd, S2}).Draw(t, "codec"))
		if !bytes.HasPrefix(out, prefix) {
			t.Fatal("the destination's content changed")
		}
		got, err := Decode(c, out[len(prefix):])
		if err != nil || !bytes.Equal(got, body) {
			t.Fatalf("got %d bytes, %v; want %d", len(got), err, len(body))
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	zstdBomb, _ := Encode(nil, make([]byte, MaxBody+1), Zstd)
	s2Bomb, _ := Encode(nil, make([]byte, MaxBody+1), S2)
	for name, tc := range map[string]struct {
		codec int
		body  []byte
		want  string
	}{
		"unknown codec": {9, nil, "unknown codec 9"},
		"zstd garbage":  {Zstd, []byte("garbage"), "decompressing"},
		"zstd bomb":     {Zstd, zstdBomb, "exceeds"},
		"s2 garbage":    {S2, []byte("garbage"), "decompressing"},
		"s2 bomb":       {S2, s2Bomb, "exceeds"},
	} {
		if _, err := Decode(tc.codec, tc.body); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}
