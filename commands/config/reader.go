package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// place says where a value came from: a position in the file, or the name of a variable or flag.
type place struct {
	line, column int
	name         string
}

// reader collects what was read, where it stood, and every mistake.
type reader struct {
	options Options
	file    string           // as it was named
	dir     string           // relative paths in the file start here
	lines   []string         // of the file
	at      map[string]place // path of a key → where its value stands
	anchors map[string]ast.Node
	cut     map[int]int     // line → first column that may not be shown
	unknown map[string]bool // paths of objects with a key that nobody knows
	errs    Errors

	secrets    []Secret
	secretEnv  []string
	namedInEnv map[string]bool // variables that the file names with {env: …}
}

// parse reads the file into its root. ok is false when it is no YAML at all; a file without
// content has a null root.
func (r *reader) parse(data []byte) (root value, ok bool) {
	text := strings.TrimPrefix(string(data), "\uFEFF")
	r.lines = strings.Split(text, "\n")
	file, err := safely(text)
	var syntax *yaml.SyntaxError
	switch {
	case errors.As(err, &syntax):
		p := place{line: 1, column: 1}
		if syntax.Token != nil && syntax.Token.Position != nil {
			p = r.within(place{line: syntax.Token.Position.Line, column: syntax.Token.Position.Column})
		}
		// Without a parse nobody knows what is a secret: show the line's key alone, if it has one.
		r.cut[p.line] = 1
		if before, _, found := strings.Cut(r.lines[p.line-1], ":"); found {
			r.cut[p.line] = len([]rune(before)) + len(": ") + 1
		}
		r.report(p, "", "%s", syntax.Message)
		return value{}, false
	case err != nil:
		r.errs = append(r.errs, &Error{File: r.file, Message: "this is not YAML"})
		return value{}, false
	}
	root = value{r: r, node: ast.Null(nil)}
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.DirectiveNode:
			continue
		}
		if _, empty := root.node.(*ast.NullNode); !empty {
			value{r: r, node: doc.Body}.fail("a second document: the configuration is one")
			return value{}, false
		}
		root.node = doc.Body
		ast.Walk(anchors(r.anchors), doc.Body)
		ast.Walk(aliases{r}, doc.Body)
	}
	return root, len(r.errs) == 0
}

// safely parses text and turns a panic of the parser into an error.
func safely(text string) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("parsing: %v", p)
		}
	}()
	// Duplicate keys are found by object, which goes on to find the next mistake.
	return parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
}

// anchors notes what each anchor names.
type anchors map[string]ast.Node

// Visit implements ast.Visitor.
func (a anchors) Visit(n ast.Node) ast.Visitor {
	if anchor, ok := n.(*ast.AnchorNode); ok && anchor.Name != nil {
		a[anchor.Name.GetToken().Value] = anchor.Value
	}
	return a
}

// aliases reports each alias that leads nowhere.
type aliases struct{ r *reader }

// Visit implements ast.Visitor.
func (a aliases) Visit(n ast.Node) ast.Visitor {
	if _, ok := n.(*ast.AliasNode); ok {
		if v := (value{r: a.r, node: n}); v.resolved() == nil {
			v.fail("there is no such anchor")
		}
	}
	return a
}

// failAt reports a mistake in what was read under path, or in the nearest thing around it.
func (r *reader) failAt(path, format string, args ...any) {
	for p := path; ; p = parent(p) {
		if at, ok := r.at[p]; ok {
			r.report(at, path, format, args...)
			return
		}
		if p == "" {
			r.errs = append(r.errs, &Error{Field: path, Message: fmt.Sprintf(format, args...)})
			return
		}
	}
}

func (r *reader) report(p place, path, format string, args ...any) {
	e := &Error{Field: path, Message: fmt.Sprintf(format, args...)}
	if p.name != "" {
		e.Field = p.name
	} else {
		p = r.within(p)
		e.File, e.Line, e.Column = r.file, p.line, p.column
	}
	r.errs = append(r.errs, e)
}

// within keeps a place inside the file: the parser puts what it misses at the end on a line after
// the last.
func (r *reader) within(p place) place {
	if last := len(r.lines); p.line > last {
		return place{line: last, column: len([]rune(r.lines[last-1])) + 1}
	}
	return place{line: max(p.line, 1), column: max(p.column, 1)}
}

// reported tells whether the value under path, something in it, or the place where it is missing
// already has a mistake to its name.
func (r *reader) reported(path string) bool {
	if _, there := r.at[path]; r.unknown[path] || !there && r.unknown[parent(path)] {
		return true
	}
	for p := path; p != ""; p = parent(p) {
		if at, ok := r.at[p]; ok {
			return slices.ContainsFunc(r.errs, func(e *Error) bool {
				rest, under := strings.CutPrefix(e.Field, path)
				return under && (rest == "" || rest[0] == '.' || rest[0] == '[') ||
					at.name == "" && e.Line == at.line && e.Column == at.column
			})
		}
	}
	return false
}

// hide keeps a value that may be a secret, and what stands right of it, out of every snippet.
func (r *reader) hide(n ast.Node) { ast.Walk(hider{r.cut}, n) }

type hider struct{ cut map[int]int }

// Visit implements ast.Visitor.
func (h hider) Visit(n ast.Node) ast.Visitor {
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return h
	}
	first := t.Position.Line
	if column, ok := h.cut[first]; !ok || t.Position.Column < column {
		h.cut[first] = t.Position.Column
	}
	for line := range strings.Count(strings.TrimSpace(t.Origin), "\n") {
		h.cut[first+line+1] = 1
	}
	return h
}

// finish sorts the mistakes and gives each the text of its line.
func (r *reader) finish() Errors {
	r.errs.sort()
	for _, e := range r.errs {
		if e.Line < 1 || e.Line > len(r.lines) {
			continue
		}
		text := []rune(strings.TrimRight(r.lines[e.Line-1], "\r"))
		if c, ok := r.cut[e.Line]; ok {
			text = append(text[:min(max(c-1, 0), len(text))], '…')
		}
		e.text = string(text)
	}
	return r.errs
}

// position is where a person would point: a mapping begins at its first key.
func position(n ast.Node) place {
	switch x := n.(type) {
	case nil:
		return place{line: 1, column: 1}
	case *ast.MappingNode:
		if !x.IsFlowStyle && len(x.Values) > 0 {
			n = x.Values[0].Key
		}
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return place{line: 1, column: 1}
	}
	return place{line: max(t.Position.Line, 1), column: max(t.Position.Column, 1)}
}
