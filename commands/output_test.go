package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mattn/go-runewidth"
	"pgregory.net/rapid"

	"github.com/seed-de999ace/preloop/queue"
)

// typed runs a command line as the program would, with its output in memory.
func typed(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, streams{strings.NewReader(""), &o, &e})
	return code, o.String(), e.String()
}

// The flags for JSON, as scripts type them.
func TestJSONFlags(t *testing.T) {
	for line, want := range map[string]struct {
		code      int
		out, errs string
	}{
		"--json=os,version":                     {exitDone, `{"os":"linux","version":"dev"}` + "\n", ""},
		"--json=version":                        {exitDone, `{"version":"dev"}` + "\n", ""},
		"--json= version,":                      {exitDone, `{"version":"dev"}` + "\n", ""},
		"--json=nope":                           {exitUsage, "", `there is no field "nope"; there are arch, go, os, version`},
		"--json=version,nope":                   {exitUsage, "", `there is no field "nope"`},
		"--jq .version":                         {exitDone, "dev\n", ""},
		"-q .version":                           {exitDone, "dev\n", ""},
		"--json=os --jq .os":                    {exitDone, "linux\n", ""},
		"--json=os --jq .version":               {exitDone, "\n", ""},
		"--json --jq keys|length":               {exitDone, "4\n", ""},
		"--jq .version|":                        {exitUsage, "", "--jq: "},
		"--jq error(\"no\")":                    {exitUsage, "", "--jq: "},
		"--template {{.version}}/{{.os}}":       {exitDone, "dev/linux", ""},
		"-t {{.version}}":                       {exitDone, "dev", ""},
		"--template {{.version":                 {exitUsage, "", "--template: "},
		"--template {{fail}}":                   {exitUsage, "", "--template: "},
		"--template {{.version}} --jq .version": {exitUsage, "", "exclude each other"},
		"--json os":                             {exitUsage, "", "unexpected argument os"}, // fields need the =
	} {
		args := []string{"version"}
		for _, a := range strings.Split(line, " --") { // an argument may hold spaces
			a = strings.TrimPrefix(a, "--")
			flag, value, spaced := strings.Cut(a, " ")
			if strings.HasPrefix(a, "json=") {
				flag, value, spaced = a, "", false
			}
			if !strings.HasPrefix(flag, "-") {
				flag = "--" + flag
			}
			args = append(args, flag)
			if spaced {
				args = append(args, value)
			}
		}
		code, out, errs := typed(t, args...)
		if runtime.GOOS != "linux" {
			out = strings.ReplaceAll(out, runtime.GOOS, "linux")
		}
		if code != want.code || out != want.out || !strings.Contains(errs, want.errs) || want.errs == "" && errs != "" {
			t.Errorf("%q: exit %d, %q, %q; want %d, %q, %q", args, code, out, errs, want.code, want.out, want.errs)
		}
	}
	code, out, _ := typed(t, "version", "--json")
	var all map[string]string
	if err := json.Unmarshal([]byte(out), &all); code != exitDone || err != nil || len(all) != 4 || strings.Count(out, "\n") != 1 {
		t.Errorf("exit %d, %q: %v", code, out, err)
	}
}

func TestPick(t *testing.T) {
	record := []byte(`{"b":{"x":[1,2.50,1e400]},"a":null,"c":"<&>\u0000"}`)
	for fields, want := range map[string]string{"a": `{"a":null}`, "b": `{"b":{"x":[1,2.50,1e400]}}`, "c,a": `{"a":null,"c":"<&>\u0000"}`, "a,a": `{"a":null}`} {
		if got, err := pick(record, strings.Split(fields, ",")); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", fields, got, err, want)
		}
	}
	var usage usageError
	if _, err := pick(record, []string{"a", "d"}); !errors.As(err, &usage) || !strings.Contains(err.Error(), `"d"; there are a, b, c`) {
		t.Errorf("a field that is not there: %v", err)
	}
	if _, err := pick([]byte(`[1]`), []string{"a"}); err == nil {
		t.Error("a list has fields")
	}
}

// What GitHub's users write cannot move the cursor, break a line or turn its direction.
func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "plain": "plain", "é 漢 🙂": "é 漢 🙂", "a\tb\nc\r\n": "a b c  ", "\x1b[31mred\x07": " [31mred ", "del\x7f": "del ", "c1\u009b31m": "c1 31m", "rtl\u202e gnp": "rtl  gnp", "iso\u2066x\u2069": "iso x ",
	} {
		if got := plain(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.String().Draw(t, "text")
		got := plain(in)
		if strings.ContainsAny(got, "\t\n\r\x1b\u009b\u202e") || plain(got) != got {
			t.Fatalf("%q becomes %q", in, got)
		}
	})
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999 * time.Millisecond: "0s", 59 * time.Second: "59s", time.Minute: "1m", 59*time.Minute + 59*time.Second: "59m", time.Hour: "1h", 47*time.Hour + 59*time.Minute: "47h",
		48 * time.Hour: "2d", 30 * 24 * time.Hour: "30d",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	now := time.Now()
	later, earlier := now.Add(90*time.Second), now.Add(-3*time.Hour)
	if ago(nil, now) != "-" || ago(&later, now) != "in 1m" || ago(&earlier, now) != "3h ago" || ago(&now, now) != "0s ago" {
		t.Errorf("%s, %s, %s, %s", ago(nil, now), ago(&later, now), ago(&earlier, now), ago(&now, now))
	}
}

func TestMoment(t *testing.T) {
	a := &app{streams: streams{out: &bytes.Buffer{}}}
	at := time.Date(2026, 8, 20, 12, 0, 0, 0, time.FixedZone("", 7200))
	if got := a.moment(&at); got != "2026-08-20T10:00:00Z" || a.moment(nil) != "-" {
		t.Errorf("into a pipe a time is %q, none is %q", got, a.moment(nil))
	}
}

func example() *table {
	t := &table{header: []string{"ID", "ABOUT", "ERROR"}, flex: []int{2, 1}, empty: "Nothing."}
	t.add("one", "acme/widgets#118", "a long line that says what went wrong, and where")
	t.add("漢字", "acme/\tw", "-")
	return t
}

func TestTable(t *testing.T) {
	for name, c := range map[string]struct {
		s    screen
		want string
	}{
		"pipe": {screen{width: 20}, "one\tacme/widgets#118\ta long line that says what went wrong, and where\n漢字\tacme/ w\t-\n"},
		"wide": {screen{tty: true, width: 120}, `
ID    ABOUT             ERROR
one   acme/widgets#118  a long line that says what went wrong, and where
漢字  acme/ w           -
`},
		"narrow": {screen{tty: true, width: 44}, `
ID    ABOUT             ERROR
one   acme/widgets#118  a long line that sa…
漢字  acme/ w           -
`},
		"narrower than it can be": {screen{tty: true, width: 10}, `
ID    ABOUT     ERROR
one   acme/wi…  a long …
漢字  acme/ w   -
`},
		"colour": {screen{tty: true, width: 120, color: true}, "\n\x1b[2mID    ABOUT             ERROR\x1b[0m" + `
one   acme/widgets#118  a long line that says what went wrong, and where
漢字  acme/ w           -
`},
	} {
		var out bytes.Buffer
		if err := example().render(&out, c.s); err != nil {
			t.Fatal(err)
		}
		if want := strings.TrimPrefix(c.want, "\n"); out.String() != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, out.String(), want)
		}
	}
	// Nothing into a pipe is nothing at all.
	var out, errs bytes.Buffer
	if err := (&table{header: []string{"ID"}, empty: "Nothing."}).print(&app{streams: streams{out: &out, err: &errs}}); err != nil || out.Len()+errs.Len() > 0 {
		t.Errorf("%q %q %v", out.String(), errs.String(), err)
	}
}

// A table becomes as narrow as the terminal where its flexible columns allow it, and nothing that
// fits is cut.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const columns = 3
		header := []string{"A", "BB", "CCC"}
		cell := rapid.StringOfN(rapid.RuneFrom([]rune("ab漢é ")), 0, 30, -1)
		rows := rapid.SliceOfN(rapid.SliceOfN(cell, columns, columns), 0, 6).Draw(t, "rows")
		before := make([][]string, len(rows))
		for i := range rows {
			before[i] = append([]string(nil), rows[i]...)
		}
		flex := rapid.SampledFrom([][]int{nil, {0}, {2, 1}, {0, 1, 2}}).Draw(t, "flex")
		width := rapid.IntRange(1, 100).Draw(t, "width")
		measure := func(rows [][]string) (widths [columns]int, total int) {
			for _, row := range append([][]string{header}, rows...) {
				for i, c := range row {
					widths[i] = max(widths[i], runewidth.StringWidth(c))
				}
			}
			return widths, widths[0] + 2 + widths[1] + 2 + widths[2]
		}
		_, had := measure(before)
		fit(header, rows, flex, width)
		widths, has := measure(rows)
		least := true // every flexible column is as narrow as it may become
		for _, f := range flex {
			least = least && widths[f] <= 8
		}
		if has > width && !least {
			t.Fatalf("%d wide, for a terminal of %d: %q", has, width, rows)
		}
		for i := range rows {
			for j := range rows[i] {
				if rows[i][j] != before[i][j] && had <= width {
					t.Fatalf("%q fits and became %q", before[i], rows[i])
				}
				if rows[i][j] != before[i][j] && (!strings.HasSuffix(rows[i][j], "…") || !strings.HasPrefix(before[i][j], strings.TrimSuffix(rows[i][j], "…"))) {
					t.Fatalf("%q became %q", before[i][j], rows[i][j])
				}
			}
		}
	})
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &progress{w: &out, what: "pruning", total: 4}
		p.at(1)
		p.at(2) // too soon to be seen
		time.Sleep(100 * time.Millisecond)
		p.at(4)
		p.done()
		want := "\rpruning " + strings.Repeat("█", 7) + strings.Repeat("░", 23) + " 1/4" + "\rpruning " + strings.Repeat("█", 30) + " 4/4" + "\r\x1b[K"
		if out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
		out.Reset()
		p = &progress{w: &out, what: "reading"}
		p.at(7)
		p.done()
		if out.String() != "\rreading 7\r\x1b[K" {
			t.Errorf("%q", out.String())
		}
		out.Reset()
		(&progress{w: &out}).done() // nothing was shown
		p = (&app{streams: streams{err: &out}}).progress("pruning", 4)
		p.at(1)
		p.done()
		if out.Len() != 0 {
			t.Errorf("what is no terminal got %q", out.String())
		}
	})
}

func TestStates(t *testing.T) {
	got, err := states([]string{"failed,done", "received"}, queue.DeliveryStates)
	if err != nil || len(got) != 3 || got[2] != queue.Received {
		t.Errorf("%v, %v", got, err)
	}
	var usage usageError
	if _, err := states([]string{"waiting"}, queue.DeliveryStates); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--state: ") || !strings.Contains(err.Error(), "received, processing, done, failed") {
		t.Errorf("a run's state: %v", err)
	}
	if _, err := since("tomorrow"); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--since: ") {
		t.Errorf("a wrong time: %v", err)
	}
	if at, err := since("1h"); err != nil || time.Since(at) < time.Hour {
		t.Errorf("%v, %v", at, err)
	}
}
