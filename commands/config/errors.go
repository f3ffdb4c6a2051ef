package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one mistake in the configuration. It never holds a secret.
type Error struct {
	File         string // as it was named; empty when the value did not come from a file
	Line, Column int    // from 1, in characters; 0 when the file as a whole is meant
	Field        string // path of the key, as triggers[0].queue.size; else the variable or the flag
	Message      string

	text string // the line, as far as it may be shown
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
		}
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	return b.String() + e.Message
}

// Snippet shows the line of the file with a caret under the place, for terminals. What could be a
// secret is cut off. It is empty where there is no line.
func (e *Error) Snippet() string {
	if e.text == "" {
		return ""
	}
	// The caret's margin keeps tabs, so that it stands right whatever a tab's width.
	margin := strings.Map(func(c rune) rune {
		if c == '\t' {
			return c
		}
		return ' '
	}, string([]rune(e.text)[:min(e.Column-1, len([]rune(e.text)))]))
	return fmt.Sprintf("%5d | %s\n      | %s^\n", e.Line, e.text, margin)
}

// Errors are all mistakes that were found, in the order of the file, those from elsewhere first.
type Errors []*Error

// Error gives one line for each.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each mistake to errors.As.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// suggest says what was probably meant by word, as `; did you mean "when"?`, or nothing.
func suggest(word string, known []string) string {
	best, least := "", 1+max(1, len(word)/3)
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := distance(strings.ToLower(word), k); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance counts the letters to insert, remove, replace or swap with their neighbour to get from
// a to b (optimal string alignment).
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
