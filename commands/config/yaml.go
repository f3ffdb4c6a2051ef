package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"
)

// value is a node of the file under its path.
type value struct {
	r    *reader
	node ast.Node
	key  ast.Node // nil in a list
	path string
}

// fields gives each known key of an object the function that reads its value.
type fields map[string]func(value)

// object reads a mapping; null counts as an empty one.
func (v value) object(f fields) {
	m, ok := v.resolved().(*ast.MappingNode)
	if !ok {
		if !v.null() {
			v.wrongKind("a mapping (key: value)")
		}
		return
	}
	first := map[string]int{}
	for _, entry := range m.Values {
		key := entry.Key.GetToken()
		name := key.Value
		child := value{r: v.r, node: entry.Value, key: entry.Key, path: join(v.path, label(name))}
		read, known := f[name]
		switch line, twice := first[name]; {
		case entry.Key.IsMergeKey():
			child.failKey("merge keys are not supported: write the keys out")
		case !known:
			v.r.hide(entry.Value)
			v.r.unknown[v.path] = true
			child.failKey("unknown key%s", suggest(name, slices.Collect(maps.Keys(f))))
		case twice:
			child.failKey("given twice, first on line %d", line)
		default:
			first[name] = key.Position.Line
			v.r.at[child.path] = child.place()
			read(child)
		}
	}
}

// list reads a sequence, each element with item; null counts as an empty one.
func (v value) list(item func(int, value)) {
	s, ok := v.resolved().(*ast.SequenceNode)
	if !ok {
		if !v.null() {
			v.wrongKind("a list")
		}
		return
	}
	for i, n := range s.Values {
		child := value{r: v.r, node: n, path: fmt.Sprintf("%s[%d]", v.path, i)}
		v.r.at[child.path] = child.place()
		item(i, child)
	}
}

// text gives a scalar as it is written; what is no scalar is a mistake.
func (v value) text() (string, bool) {
	switch n := v.resolved().(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	case *ast.NullNode:
		v.fail("a value is missing")
	default:
		v.wrongKind("one value")
	}
	return "", false
}

// scalar reads one value with set.
func scalar(set setter) func(value) {
	return func(v value) {
		text, ok := v.text()
		if !ok {
			return
		}
		if strings.Contains(text, "://") && strings.Contains(text, "@") {
			v.r.hide(v.node) // a URL with credentials
		}
		if err := set(text); err != nil {
			v.fail("%v", err)
		}
	}
}

// words reads a list of scalars; a single one may stand without a list.
func words(dst *[]string) func(value) {
	return func(v value) {
		if _, isList := v.resolved().(*ast.SequenceNode); !isList && !v.null() {
			if text, ok := v.text(); ok {
				*dst = []string{text}
			}
			return
		}
		v.list(func(_ int, item value) {
			text, _ := item.text()
			*dst = append(*dst, text)
		})
	}
}

// given reports whether the object under v has a key.
func (v value) given(key string) bool {
	_, ok := v.r.at[join(v.path, key)]
	return ok
}

// wrongKind reports a value of another shape. Nobody knows what it was meant to be: it may be secret.
func (v value) wrongKind(want string) {
	v.r.hide(v.node)
	v.fail("want %s, not %s", want, kind(v.resolved()))
}

// missing reports that a key is not there, unless it may be the one that is misspelt.
func (v value) missing(message string) {
	if !v.r.unknown[v.path] {
		v.fail("%s", message)
	}
}

func (v value) require(key string) {
	if !v.given(key) {
		v.missing(key + " is missing")
	}
}

func (v value) null() bool {
	n := v.resolved()
	_, ok := n.(*ast.NullNode)
	return ok || n == nil
}

// resolved looks through anchors and aliases. The layout is of a fixed depth, so an alias inside
// its own anchor ends too.
func (v value) resolved() ast.Node {
	n := v.node
	for range 16 {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			n = v.r.anchors[x.Value.GetToken().Value]
		default:
			return n
		}
	}
	return nil
}

func (v value) place() place {
	if v.key != nil && (v.node == nil || v.null()) {
		return position(v.key)
	}
	return position(v.node)
}

func (v value) fail(format string, args ...any) { v.r.report(v.place(), v.path, format, args...) }

func (v value) failKey(format string, args ...any) {
	v.r.report(position(v.key), v.path, format, args...)
}

func kind(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.TagNode:
		return "a tag"
	case *ast.NullNode, nil:
		return "nothing"
	}
	return "one value"
}

// label keeps a key that nobody knows from spoiling a line.
func label(key string) string {
	const longest = 60
	if len(key) > longest {
		key = strings.ToValidUTF8(key[:longest], "") + "…"
	}
	if strings.ContainsFunc(key, unicode.IsControl) {
		return strconv.Quote(key)
	}
	return key
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// parent cuts the last step of a path: a.b[2].c → a.b[2] → a.b → a.
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return ""
}
