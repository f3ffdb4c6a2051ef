package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/cli/go-gh/v2/pkg/jq"
	"github.com/cli/go-gh/v2/pkg/jsonpretty"
	"github.com/cli/go-gh/v2/pkg/template"
	"github.com/cli/go-gh/v2/pkg/term"
	"github.com/mattn/go-runewidth"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/seed-de999ace/preloop/queue/api"
)

// Output are the flags of commands that print records.
type Output struct {
	JSON     jsonFlag `placeholder:"FIELDS" help:"JSON, one record a line; --json=id,state for some fields."`
	JQ       string   `name:"jq" short:"q" placeholder:"EXPR" help:"Filter each JSON record with a jq expression."`
	Template string   `short:"t" placeholder:"TEMPLATE" help:"Format each JSON record with a Go template, as gh does."`
}

// jsonFlag is a switch that may name fields: --json or --json=a,b.
type jsonFlag struct {
	on     bool
	fields []string
}

// IsBool tells kong that no value follows in the next word.
func (*jsonFlag) IsBool() bool { return true }

// Decode implements kong.MapperValue.
func (f *jsonFlag) Decode(ctx *kong.DecodeContext) error {
	f.on = true
	if t := ctx.Scan.Peek(); t.Type == kong.FlagValueToken {
		for name := range strings.SplitSeq(fmt.Sprint(ctx.Scan.Pop().Value), ",") {
			if name = strings.TrimSpace(name); name != "" {
				f.fields = append(f.fields, name)
			}
		}
	}
	return nil
}

// asJSON reports whether records are wanted instead of a table.
func (o *Output) asJSON() bool { return o.JSON.on || o.JQ != "" || o.Template != "" }

// print writes one record.
func (o *Output) print(w io.Writer, record any) error {
	if o.JQ != "" && o.Template != "" {
		return usagef("--jq and --template exclude each other")
	}
	b, err := encode(record)
	if err != nil {
		return err
	}
	if len(o.JSON.fields) > 0 {
		if b, err = pick(b, o.JSON.fields); err != nil {
			return err
		}
	}
	t := terminal(w)
	switch {
	case o.JQ != "":
		if err := jq.EvaluateFormatted(bytes.NewReader(b), w, o.JQ, "", t.color); err != nil {
			return usagef("--jq: %w", err)
		}
		return nil
	case o.Template != "":
		tmpl := template.New(w, t.width, t.color)
		if err := tmpl.Parse(o.Template); err != nil {
			return usagef("--template: %w", err)
		}
		if err := tmpl.Execute(bytes.NewReader(b)); err != nil {
			return usagef("--template: %w", err)
		}
		return tmpl.Flush()
	case t.tty:
		return jsonpretty.Format(w, bytes.NewReader(b), "  ", t.color)
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

// encode is json.Marshal without the escapes that only HTML needs.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// pick keeps some fields of a record.
func pick(record []byte, fields []string) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(record, &all); err != nil {
		return nil, err
	}
	some := map[string]json.RawMessage{}
	for _, f := range fields {
		v, ok := all[f]
		if !ok {
			names := make([]string, 0, len(all))
			for name := range all {
				names = append(names, name)
			}
			slices.Sort(names)
			return nil, usagef("--json: there is no field %q; there are %s", f, strings.Join(names, ", "))
		}
		some[f] = v
	}
	return encode(some)
}

// screen is what a writer can show.
type screen struct {
	tty, color bool
	width      int
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(f)
}

func terminal(w io.Writer) screen {
	if f, ok := w.(*os.File); !ok || f != os.Stdout {
		return screen{tty: isTerminal(w), width: 120}
	}
	t := term.FromEnv()
	s := screen{tty: t.IsTerminalOutput(), color: t.IsColorEnabled(), width: 120}
	if width, _, err := t.Size(); err == nil && width > 0 {
		s.width = width
	}
	return s
}

// table is rows for people and, tab-separated and whole, for pipes.
type table struct {
	header []string
	rows   [][]string
	flex   []int // columns that give way when the terminal is narrow, the first one first
	wrap   bool  // the last column is prose: on a terminal it goes on below itself
	empty  string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table; what says that there is nothing goes to stderr.
func (t *table) print(a *app) error {
	s := terminal(a.out)
	if s.tty && len(t.rows) == 0 {
		_, err := fmt.Fprintln(a.err, t.empty)
		return err
	}
	return t.render(a.out, s)
}

func (t *table) render(out io.Writer, s screen) error {
	rows := make([][]string, len(t.rows))
	for i, row := range t.rows {
		rows[i] = make([]string, len(row))
		for j, c := range row {
			rows[i][j] = plain(c)
		}
	}
	if !s.tty {
		for _, row := range rows {
			if _, err := fmt.Fprintln(out, strings.Join(row, "\t")); err != nil {
				return err
			}
		}
		return nil
	}
	if t.wrap {
		rows = wrapLast(t.header, rows, s.width)
	}
	fit(t.header, rows, t.flex, s.width)
	var b strings.Builder
	w := tablewriter.NewTable(&b,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone, Symbols: tw.NewSymbols(tw.StyleNone),
			Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone},
		})),
		tablewriter.WithHeaderAlignment(tw.AlignLeft), tablewriter.WithRowAlignment(tw.AlignLeft), tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithPadding(tw.Padding{Left: "", Right: "  ", Overwrite: true}), tablewriter.WithRowAutoWrap(tw.WrapNone))
	w.Header(t.header)
	if err := w.Bulk(rows); err != nil {
		return err
	}
	if err := w.Render(); err != nil {
		return err
	}
	first := true
	for line := range strings.Lines(b.String()) {
		line = strings.TrimRight(line, " \n")
		if first && s.color {
			line = "\x1b[2m" + line + "\x1b[0m"
		}
		first = false
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// plain keeps a cell on one line and control characters off the terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, s)
}

// fit shortens the flexible columns until the table is as wide as the terminal.
func fit(header []string, rows [][]string, flex []int, width int) {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, c := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(c))
		}
	}
	total := 0
	for _, w := range widths {
		total += w + 2
	}
	for _, col := range flex {
		over := total - 2 - width
		if over <= 0 {
			return
		}
		to := max(widths[col]-over, 8)
		total -= widths[col] - to
		for _, row := range rows {
			row[col] = runewidth.Truncate(row[col], to, "…")
		}
	}
}

// ago is a moment for people; scripts use --json.
func ago(t *time.Time, now time.Time) string {
	if t == nil {
		return "-"
	}
	if d := now.Sub(*t); d >= 0 {
		return span(d) + " ago"
	}
	return "in " + span(t.Sub(now))
}

// span is a duration in one unit.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// moment is a time in a table: relative on a terminal, RFC 3339 in a pipe.
func (a *app) moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	if isTerminal(a.out) {
		return ago(t, time.Now())
	}
	return t.UTC().Format(time.RFC3339)
}

func orDash(s *string) string {
	if s == nil || *s == "" {
		return "-"
	}
	return *s
}

// progress writes a counter on a terminal's last line while a long job runs.
type progress struct {
	w     io.Writer
	what  string
	total int
	shown bool
	last  time.Time
}

func (a *app) progress(what string, total int) *progress {
	if !isTerminal(a.err) {
		return &progress{}
	}
	return &progress{w: a.err, what: what, total: total}
}

func (p *progress) at(n int) {
	if p.w == nil || time.Since(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.shown = time.Now(), true
	if p.total > 0 {
		const bar = 30
		full := min(bar, bar*n/max(p.total, 1))
		_, _ = fmt.Fprintf(p.w, "\r%s %s%s %d/%d", p.what, strings.Repeat("█", full), strings.Repeat("░", bar-full), n, p.total)
		return
	}
	_, _ = fmt.Fprintf(p.w, "\r%s %d", p.what, n)
}

func (p *progress) done() {
	if p.shown {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// states reads what a state flag holds, by the API's rules.
func states[S ~string](flags []string, known []S) ([]S, error) {
	list, err := api.ParseStates(strings.Join(flags, ","), known)
	if err != nil {
		return nil, usageError{fmt.Errorf("--state: %w", err)}
	}
	return list, nil
}

// since reads what a since flag holds.
func since(flag string) (time.Time, error) {
	t, err := api.ParseSince(flag, time.Now())
	if err != nil {
		return t, usageError{fmt.Errorf("--since: %w", err)}
	}
	return t, nil
}
