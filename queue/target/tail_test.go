package target

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// However the output is cut into writes, and wherever its start is lost, no part of a secret shows.
func TestTailShowsNoSecret(t *testing.T) {
	t.Parallel()
	secrets := [][]byte{
		[]byte("correct horse battery"), []byte("horse-horse-horse"), []byte("ghs_" + strings.Repeat("Ab1", 12)),
		[]byte(strings.Repeat("0123456789abcdef", 400)), // longer than any token
	}
	mask := newMasker(secrets...)
	rapid.Check(t, func(t *rapid.T) {
		var text []byte
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"short", "long", "huge", "s0", "s1", "s2", "s3"}), 1, 12).Draw(t, "parts")
		for _, part := range parts {
			switch part {
			case "short":
				text = append(text, strings.Repeat("~", rapid.IntRange(1, 5).Draw(t, "n"))...)
			case "long":
				text = append(text, strings.Repeat("=~\n", rapid.IntRange(1, 5000).Draw(t, "n"))...)
			case "huge":
				text = append(text, strings.Repeat("~é", rapid.IntRange(1, 60_000).Draw(t, "n"))...)
			default:
				text = append(append(text, secrets[part[1]-'0']...), ' ')
			}
		}
		whole := &tail{mask: mask}
		_, _ = whole.Write(text)
		want := whole.Bytes()

		pieces := &tail{mask: mask}
		for rest := text; len(rest) > 0; {
			n := min(rapid.SampledFrom([]int{1, 7, 4096, 32 << 10, 200_000}).Draw(t, "write"), len(rest))
			if n < 1000 { // not byte by byte through all of it
				n = min(max(n, len(text)/200), len(rest))
			}
			if w, err := pieces.Write(rest[:n]); w != n || err != nil {
				t.Fatalf("Write: %d, %v", w, err)
			}
			rest = rest[n:]
		}
		got := pieces.Bytes()

		for _, out := range [][]byte{want, got} {
			if len(out) > OutputLimit || !utf8.Valid(out) {
				t.Fatalf("%d bytes, valid %v", len(out), utf8.Valid(out))
			}
			// The filler has no letter or digit; whatever has is a piece of a secret.
			if i := bytes.IndexFunc(out, func(r rune) bool { return r < 128 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z') }); i >= 0 {
				t.Fatalf("at %d of %d: %q", i, len(out), first(out[i:], 60))
			}
		}
		// Both end alike; how much of the start is kept depends on where it was cut.
		n := min(len(want), len(got))
		if !bytes.Equal(want[len(want)-n:], got[len(got)-n:]) {
			t.Fatal("the ends differ")
		}
		if len(text) <= OutputLimit && bytes.Count(got, []byte("~")) != bytes.Count(text, []byte("~")) {
			t.Fatal("something of a short output is lost")
		}
	})
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	out := &tail{mask: newMasker()}
	for i := range 300_000 {
		_, _ = out.Write([]byte{'a' + byte(i%26)})
	}
	got := out.Bytes()
	if len(got) != OutputLimit || got[len(got)-1] != 'a'+byte(299_999%26) || got[0] != 'a'+byte((300_000-OutputLimit)%26) {
		t.Errorf("%d bytes, from %q to %q", len(got), got[0], got[len(got)-1])
	}
	if c := cap(out.buf); c > 4*(OutputLimit+minMargin) {
		t.Errorf("a buffer of %d bytes", c)
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	key := "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEAsecretsecret\nAB==\n-----END RSA PRIVATE KEY-----\n"
	mask := newMasker([]byte("s3cret"), []byte("s3cret-and-more"), []byte("abab"), []byte("abc"), nil, []byte(" \n"), []byte(key))
	tests := map[string][2]string{
		"nothing":             {"all is well", "all is well"},
		"alone":               {"s3cret", "***"},
		"one within another":  {"x s3cret-and-more y", "x *** y"},
		"overlapping itself":  {"abababab!", "***!"},
		"too short to mask":   {"abc", "abc"},
		"a token":             {"https://x-access-token:ghs_16C7e42F292c6912E7710c838347Ae178B4a@github.com", "https://x-access-token:***@github.com"},
		"a fine-grained one":  {"github_pat_11ABCDEFG0123456789_abcdefghijklmnop,", "***,"},
		"a personal one":      {"ghp_16C7e42F292c6912E7710c838347Ae178B4a\n", "***\n"},
		"an OAuth one":        {"gho_16C7e42F292c6912E7710c838347Ae178B4a gho_", "*** gho_"},
		"a word, no token":    {"ghs_short", "ghs_short"},
		"a whole key":         {"key:\n" + key + "end", "key:\n***\nend"},
		"a key, indented":     {"  MIIEpAIBAAKCAQEAsecretsecret\n  AB==\n", "  ***\n  AB==\n"},
		"a key, escaped ends": {`\nMIIEpAIBAAKCAQEAsecretsecret\nAB==`, `\n***\nAB==`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := mask.text(tt[0]); got != tt[1] {
				t.Errorf("got %q, want %q", got, tt[1])
			}
		})
	}
}

func TestOutputIsPrintable(t *testing.T) {
	t.Parallel()
	out := &tail{mask: newMasker()}
	_, _ = out.Write([]byte("a\x00b\xff\xfec"))
	if got := string(out.Bytes()); got != "a\uFFFDb\uFFFDc" {
		t.Errorf("got %q", got)
	}
}
