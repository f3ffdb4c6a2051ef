package codec

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"pgregory.net/rapid"

	"github.com/seed-de999ace/preloop/fixtures"
)

func TestRoundTrip(t *testing.T) {
	payloads := fixtures.All()
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SliceOf(rapid.Byte()).Draw(t, "prefix")
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 1:
			body = bytes.Repeat(body, rapid.SampledFrom([]int{2, 50, 5000}).Draw(t, "times"))
		case 2:
			body = append(body, rapid.SampledFrom(payloads).Draw(t, "payload").Body...)
		}
		out, c := Encode(bytes.Clone(prefix), body)
		if !bytes.HasPrefix(out, prefix) {
			t.Fatal("the destination's content changed")
		}
		if got, err := Decode(c, out[len(prefix):]); err != nil || !bytes.Equal(got, body) {
			t.Fatalf("got %d bytes, %v; want %d", len(got), err, len(body))
		}
	})
}

// What a store holds must be readable by every later version.
func TestTheSampleNeverChanges(t *testing.T) {
	const want = "26a8188c72c15984ad2f865d19d5839bd845db5b5c6fea2b95cbb5294b4ee9ca"
	if got := fmt.Sprintf("%x", sha256.Sum256(sample)); got != want {
		t.Errorf("github.jsonl has changed (%s): bodies that are stored could not be read. Give a new sample a new codec", got)
	}
}

// Names that the sample does not have, as everybody's but its author's.
func TestTheSampleHelpsStrangers(t *testing.T) {
	names := strings.NewReplacer("acme", "octo-org", "widgets", "hello-world", "mira-holt", "someone", "jun-okafor", "hubot")
	var plain, small int
	for _, p := range fixtures.All() {
		body := []byte(names.Replace(string(p.Body)))
		out, _ := Encode(nil, body)
		plain, small = plain+len(s2.Encode(nil, body)), small+len(out)
	}
	if small*2 > plain {
		t.Errorf("with the sample all payloads take %d bytes, without %d", small, plain)
	}
}

func TestDecodeRefuses(t *testing.T) {
	bomb := binary.AppendUvarint(nil, MaxBody+1)
	for name, tc := range map[string]struct {
		codec int
		body  []byte
		want  string
	}{
		"unknown codec":       {9, nil, "unknown codec 9"},
		"garbage":             {S2, []byte("garbage"), "decompressing"},
		"garbage as GitHub's": {GitHub, []byte("garbage"), "decompressing"},
		"bomb":                {S2, bomb, "exceeds"},
		"bomb as GitHub's":    {GitHub, bomb, "exceeds"},
	} {
		if _, err := Decode(tc.codec, tc.body); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

// A damaged page must give an error, or other bytes, and no more.
func FuzzDecode(f *testing.F) {
	for _, p := range fixtures.All()[:10] {
		out, c := Encode(nil, p.Body)
		f.Add(c, out)
	}
	f.Fuzz(func(t *testing.T, codec int, b []byte) {
		if body, err := Decode(codec, b); err == nil && len(body) > MaxBody {
			t.Errorf("%d bytes", len(body))
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	body := fixtures.Get("issue_comment.created").Body
	buf := make([]byte, 0, s2.MaxEncodedLen(len(body)))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		out, _ := Encode(buf, body)
		b.ReportMetric(float64(len(body))/float64(len(out)), "times-smaller")
	}
}
