package commands

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// leastProse is the least width of a column of prose: a narrower one is harder to read than a
// table that is too wide.
const leastProse = 40

// wrapLast breaks the last column at its spaces, so that the table is as wide as the terminal and
// no word is lost. What goes on in a further line has nothing before it.
func wrapLast(header []string, rows [][]string, width int) [][]string {
	last := len(header) - 1
	for i := range last {
		column := runewidth.StringWidth(header[i])
		for _, row := range rows {
			column = max(column, runewidth.StringWidth(row[i]))
		}
		width -= column + 2
	}
	width = max(width, leastProse)
	var out [][]string
	for _, row := range rows {
		lines := wrapped(row[last], width)
		first := append(append([]string(nil), row[:last]...), lines[0])
		out = append(out, first)
		for _, line := range lines[1:] {
			more := make([]string, len(header))
			more[last] = line
			out = append(out, more)
		}
	}
	return out
}

// wrapped breaks text into lines no wider than width. A word that is wider, such as a URL, has a
// line of its own.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case runewidth.StringWidth(line)+1+runewidth.StringWidth(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}
