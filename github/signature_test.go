package github_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/seed-de999ace/preloop/github"
)

var secret = []byte("It's a Secret to Everybody")

// signed holds the vector that GitHub publishes and others of the same secret.
var signed = map[string]struct{ body, digest string }{
	"published vector": {"Hello, World!", "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
	"trailing newline": {"Hello, World!\n", "8fde2e970f9163923fb1cb61bb945626ff2b4091d87e622ee3ad600160592325"},
	"empty body":       {"", "66a0c074deaa0f489ead6537e0d32f9a344b90bbeda705b6ed45ecd3b413fb40"},
	"json":             {`{"zen":"Speak like a human.","n":1}`, "9a025a9eb7e37971e7ba00645649fa2883e802f47249929a1709b5e6db98dc74"},
	"form":             {"payload=%7B%22zen%22%3A%22Speak+like+a+human.%22%2C%22n%22%3A1%7D", "24d02efa306ab07d5622d083c60941bc1fdedd24279292644f85096113cc2afe"},
	"utf-8":            {`{"title":"Grüße 📦 – naïve"}`, "aebc0c975c57822245ae1054b77a242cb92b0c9bdf8034f667652af1ee7eb4a5"},
}

func TestSignature(t *testing.T) {
	key := github.NewSignatureKey(secret)
	for name, tt := range signed {
		t.Run(name, func(t *testing.T) {
			header := "sha256=" + tt.digest
			if got := github.Sign(secret, []byte(tt.body)); got != header {
				t.Errorf("Sign = %s, want %s", got, header)
			}
			sig, ok := github.ParseSignature(header)
			if !ok || !key.Verify(sig, []byte(tt.body)) {
				t.Error("the prepared key does not verify")
			}
			if key.Verify(sig, []byte(tt.body+" ")) {
				t.Error("a longer body verifies")
			}
			if github.NewSignatureKey([]byte("another")).Verify(sig, []byte(tt.body)) {
				t.Error("a foreign secret verifies")
			}
			sig[len(sig)-1] ^= 1
			if key.Verify(sig, []byte(tt.body)) {
				t.Error("a signature with one bit changed verifies")
			}
		})
	}
}

func TestMalformedSignatureIsNone(t *testing.T) {
	digest := signed["empty body"].digest
	for name, header := range map[string]string{
		"missing":        "",
		"only prefix":    "sha256=",
		"no prefix":      digest,
		"sha1":           "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59",
		"sha1 with 64":   "sha1=" + digest,
		"too short":      "sha256=" + digest[1:],
		"too long":       "sha256=" + digest + "0",
		"no hexadecimal": "sha256=" + "g" + digest[1:],
		"space before":   " sha256=" + digest,
		"two of them":    "sha256=" + digest + ",sha256=" + digest,
		"zero byte":      "sha256=" + digest[:63] + "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			if _, ok := github.ParseSignature(header); ok {
				t.Error("it parses")
			}
		})
	}
}

func TestEmptySecretVerifiesNothing(t *testing.T) {
	body := []byte("Hello, World!")
	sig, _ := github.ParseSignature(github.Sign(nil, body))
	for _, empty := range [][]byte{nil, {}} {
		if github.NewSignatureKey(empty).Verify(sig, body) {
			t.Error("a key made of an empty secret verifies")
		}
	}
}

func TestSignatureKeyIsSafeForConcurrentUse(t *testing.T) {
	own := []byte("a secret that the caller wipes")
	key := github.NewSignatureKey(own)
	bodies := [][]byte{[]byte("a"), bytes.Repeat([]byte("b"), 1<<10), []byte(strings.Repeat("c", 70_000))}
	headers := make([]string, len(bodies))
	for i, body := range bodies {
		headers[i] = github.Sign(own, body)
	}
	clear(own)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range 100 {
				sig, _ := github.ParseSignature(headers[n%len(bodies)])
				if !key.Verify(sig, bodies[n%len(bodies)]) || key.Verify(sig, bodies[(n+1)%len(bodies)]) {
					t.Error("wrong verdict")
					return
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkSignature(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 8<<10)
	key := github.NewSignatureKey(secret)
	sig, _ := github.ParseSignature(github.Sign(secret, body))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if !key.Verify(sig, body) {
			b.Fatal("does not verify")
		}
	}
}
