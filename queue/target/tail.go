package target

import "unicode/utf8"

// tail keeps the end of a stream of any length in bounded memory. It is not safe for concurrent
// use: the goroutine that copies the output owns it until it is done.
type tail struct {
	mask masker
	buf  []byte
}

// Write keeps what matters of p and never fails.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	keep := OutputLimit + t.mask.margin
	if n > keep {
		p, t.buf = p[n-keep:], t.buf[:0]
	}
	// Room for twice what is kept, so that a byte is moved once and not with every write.
	if len(t.buf)+len(p) > 2*keep {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)+len(p)-keep:]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// Bytes returns the last OutputLimit bytes that were written, masked and valid UTF-8. If
// anything before buf is gone then buf is at least margin bytes longer than that: a secret of
// which only the rest is there is not in the window.
func (t *tail) Bytes() []byte {
	from := max(0, len(t.buf)-OutputLimit)
	return last(printable(trimRune(t.mask.window(t.buf, from, len(t.buf)), from > 0)), OutputLimit)
}

// trimRune drops the rest of a rune that a cut has left at the start of text.
func trimRune(text []byte, cut bool) []byte {
	for i := 0; cut && i < 3 && len(text) > 0 && !utf8.RuneStart(text[0]); i++ {
		text = text[1:]
	}
	return text
}
