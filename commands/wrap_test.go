package commands

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"pgregory.net/rapid"
)

func TestProseGoesOnBelow(t *testing.T) {
	table := &table{header: []string{"SOURCE", "FINDING"}, wrap: true}
	table.add("acme-bot", "the app is not subscribed to push; tick it at https://github.com/organizations/acme/settings/apps/acme-bot/permissions")
	table.add("b", "-")
	var out bytes.Buffer
	if err := table.render(&out, screen{tty: true, width: 60}); err != nil {
		t.Fatal(err)
	}
	want := `SOURCE    FINDING
acme-bot  the app is not subscribed to push; tick it at
          https://github.com/organizations/acme/settings/apps/acme-bot/permissions
b         -
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	out.Reset()
	if err := table.render(&out, screen{}); err != nil || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("into a pipe:\n%s%v", out.String(), err)
	}
}

func TestWrappedLosesNoWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[a-zü漢]{1,12}`)).Draw(t, "words")
		width := rapid.IntRange(1, 30).Draw(t, "width")
		lines := wrapped(strings.Join(words, " "), width)
		if got := strings.Fields(strings.Join(lines, " ")); strings.Join(got, " ") != strings.Join(words, " ") {
			t.Fatalf("%q became %q", words, lines)
		}
		for _, line := range lines {
			if runewidth.StringWidth(line) > width && strings.Contains(line, " ") {
				t.Fatalf("%q is wider than %d", line, width)
			}
		}
	})
}
