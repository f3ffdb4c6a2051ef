package main

import (
	"encoding/binary"
	"slices"
	"testing"
)

func TestFrontendCountsWhatIsExecuted(t *testing.T) {
	message := func(kind, body string) string {
		return kind + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))) + body
	}
	wire := message("", "\x00\x03\x00\x00user\x00preloop\x00\x00") +
		message("P", "\x00SELECT 1\n  FROM x\x00\x00\x00") + message("D", "S\x00") + message("B", "\x00\x00\x00\x00\x00\x00\x00\x00") + message("E", "\x00\x00\x00\x00\x00") + message("S", "") +
		message("P", "name\x00UPDATE y\x00\x00\x00") + message("S", "") + // prepared, not executed
		message("Q", "BEGIN\x00") + message("B", "p\x00name\x00") + message("E", "p\x00\x00\x00\x00\x00")
	var got []string
	f := frontend{count: func(text string) { got = append(got, text) }}
	for _, b := range []byte(wire) { // however it is cut
		if n, err := f.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := []string{"SELECT 1 FROM x", "BEGIN", "UPDATE y"}; !slices.Equal(got, want) {
		t.Errorf("counted %q, want %q", got, want)
	}
}
