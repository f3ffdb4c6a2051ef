package target

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"unicode/utf8"
)

const (
	masked = "***"

	// minSecret keeps a secret of a few letters from blotting out the words it is part of.
	minSecret = 4

	// minMargin is longer than any token GitHub issues; see masker.margin.
	minMargin = 4 << 10
)

// tokens is what GitHub's tokens look like, whoever issued them.
var tokens = regexp.MustCompile(`(?:gh[opsur]_|github_pat_)[A-Za-z0-9_.-]{16,}`)

// masker knows the secrets of one run.
type masker struct {
	secrets [][]byte

	// margin is at least the length of the longest secret: text that is cut can hold a piece of
	// a secret only within this distance of the cut.
	margin int
}

// newMasker masks the secrets given and everything that looks like a GitHub token. A secret of
// several lines (a private key) is masked by line as well, because it is often printed indented
// or with its line ends escaped.
func newMasker(secrets ...[]byte) masker {
	m := masker{margin: minMargin}
	add := func(s []byte) {
		if len(s) >= minSecret {
			m.secrets = append(m.secrets, s)
			m.margin = max(m.margin, len(s))
		}
	}
	for _, s := range secrets {
		s = bytes.TrimSpace(s)
		add(s)
		if lines := bytes.Split(s, []byte("\n")); len(lines) > 1 {
			for _, line := range lines {
				// Short lines and armour ("-----BEGIN …") are no secret.
				if line = bytes.TrimSpace(line); len(line) >= 16 && !bytes.HasPrefix(line, []byte("-----")) {
					add(line)
				}
			}
		}
	}
	return m
}

// window returns text[from:to] with every secret masked, also one that reaches over an edge of
// the window. Where the text itself was cut, the caller keeps the window m.margin away from it.
func (m masker) window(text []byte, from, to int) []byte {
	var out bytes.Buffer
	at := from
	for _, s := range m.spans(text) {
		if s[1] <= at {
			continue
		}
		if s[0] >= to {
			break
		}
		if s[0] > at {
			out.Write(text[at:s[0]])
		}
		out.WriteString(masked)
		at = s[1]
	}
	if at < to {
		out.Write(text[at:to])
	}
	return out.Bytes()
}

// spans finds the secrets in text, in order, overlapping ones joined.
func (m masker) spans(text []byte) [][]int {
	spans := tokens.FindAllIndex(text, -1)
	for _, secret := range m.secrets {
		for at := 0; ; {
			i := bytes.Index(text[at:], secret)
			if i < 0 {
				break
			}
			spans = append(spans, []int{at + i, at + i + len(secret)})
			// The next match may overlap this one; both have to go.
			at += i + 1
		}
	}
	slices.SortFunc(spans, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	joined := spans[:0]
	for _, s := range spans {
		if n := len(joined); n > 0 && s[0] < joined[n-1][1] {
			joined[n-1][1] = max(joined[n-1][1], s[1])
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// text masks the whole of a short text, such as an error.
func (m masker) text(s string) string { return string(m.window([]byte(s), 0, len(s))) }

// printable makes text valid UTF-8 without NUL, which not every store can keep.
func printable(text []byte) []byte {
	replacement := []byte(string(utf8.RuneError))
	return bytes.ReplaceAll(bytes.ToValidUTF8(text, replacement), []byte{0}, replacement)
}

// first returns at most n bytes from the start of valid UTF-8, cut between runes.
func first[T ~string | ~[]byte](text T, n int) T {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// last returns at most n bytes from the end of valid UTF-8, cut between runes.
func last(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}

// head returns the first OutputLimit bytes of text, masked and valid UTF-8. Of a longer text it
// is given margin bytes more, so that a secret that the end cuts is seen whole.
func (m masker) head(text []byte) []byte {
	return first(printable(m.window(text, 0, min(len(text), OutputLimit))), OutputLimit)
}
