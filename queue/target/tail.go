package target

// tail keeps the end of a stream of any length in bounded memory. It is not safe for concurrent
// use: the goroutine that copies the output owns it until it is done.
type tail struct {
	mask masker
	buf  []byte
	cut  bool // something before buf is gone
}

// Write keeps what matters of p and never fails.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	keep := OutputLimit + t.mask.margin
	if len(p) > keep {
		p, t.buf, t.cut = p[len(p)-keep:], t.buf[:0], true
	}
	// Room for twice what is kept, so that a byte is moved once and not with every write.
	if len(t.buf)+len(p) > 2*keep {
		t.buf, t.cut = append(t.buf[:0], t.buf[len(t.buf)+len(p)-keep:]...), true
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// Bytes returns the last OutputLimit bytes that were written, masked and valid UTF-8.
func (t *tail) Bytes() []byte {
	from := 0
	if excess := len(t.buf) - OutputLimit; excess > 0 {
		from = excess
	}
	if t.cut {
		// The first margin bytes may begin inside a secret.
		from = max(from, t.mask.margin)
	}
	from = min(from, len(t.buf))
	return last(printable(trimRune(t.mask.window(t.buf, from, len(t.buf)), from > 0)), OutputLimit)
}

// trimRune drops the rest of a rune that a cut has left at the start of text.
func trimRune(text []byte, cut bool) []byte {
	for i := 0; cut && i < 3 && len(text) > 0 && text[0]&0xC0 == 0x80; i++ {
		text = text[1:]
	}
	return text
}
