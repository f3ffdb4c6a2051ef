package trigger

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"
)

// templateWork bounds one rendering, to about a second: bytes that functions produce, with what
// each call, each element of a range and each byte of JSON cost in comparison. Without it two
// nested ranges over a long list would hold a worker for hours while they print nothing.
const (
	templateWork = 64 << 20
	callWork     = 64
	rangeWork    = 64
	jsonWork     = 32
)

var errTooMuchWork = errors.New("the template does too much work for this payload")

// meter counts the work of one rendering. It belongs to one goroutine.
type meter struct{ left int }

func (m *meter) spend(n int) error {
	if m.left -= n; m.left < 0 {
		return errTooMuchWork
	}
	return nil
}

// made charges for s, which a function produced.
func (m *meter) made(s string) (string, error) {
	if len(s) > maxRendered {
		return "", errTooLarge
	}
	return s, m.spend(len(s) + callWork)
}

// The functions that rewriting puts into a template.
const (
	fieldFunc = "field"    // value, names: the element that the names lead to
	rangeFunc = "elements" // what a range goes over
	textFunc  = "text"     // how a value is printed
)

// functions are the template functions. Those of text/template that would fail over a missing
// key, or that could be made to work without end, are replaced by ones of the same meaning.
// m may be nil where templates are only parsed.
func functions(m *meter) template.FuncMap {
	made := func(f func(...any) string) func(...any) (string, error) {
		return func(args ...any) (string, error) { return m.made(f(args...)) }
	}
	return template.FuncMap{
		"print":    made(fmt.Sprint),
		"println":  made(fmt.Sprintln),
		"html":     made(template.HTMLEscaper),
		"js":       made(template.JSEscaper),
		"urlquery": made(template.URLQueryEscaper),
		"printf": func(format string, args ...any) (string, error) {
			return m.made(fmt.Sprintf(format, args...))
		},
		"json": func(v any) (string, error) {
			s, err := jsonText(v)
			if err != nil {
				return "", err
			}
			if err := m.spend(len(s) * jsonWork); err != nil {
				return "", err
			}
			return m.made(s)
		},
		"join": func(sep string, list any) (string, error) {
			elements, _ := list.([]any)
			parts := make([]string, len(elements))
			for i, e := range elements {
				var err error
				if parts[i], err = text(e); err == nil {
					err = m.spend(callWork + len(parts[i]))
				}
				if err != nil {
					return "", err
				}
			}
			return m.made(strings.Join(parts, sep))
		},
		"default": func(fallback, v any) any {
			if truth, ok := template.IsTrue(v); ok && !truth {
				return fallback
			}
			return v
		},
		"truncate": func(n int, v any) (string, error) {
			s, err := text(v)
			if _, cheap := v.(string); err == nil && !cheap {
				err = m.spend(len(s) * jsonWork)
			}
			return truncate(s, n), err
		},

		"index": func(v any, path ...any) any {
			for _, key := range path {
				v = element(v, key)
			}
			return v
		},
		"len": func(v any) (int, error) { return length(v) },
		"eq": func(v any, others ...any) (bool, error) {
			if len(others) == 0 {
				return false, errors.New("nothing to compare with")
			}
			for _, o := range others {
				if c, ok := compare(v, o); ok && c == 0 {
					return true, nil
				}
			}
			return false, nil
		},
		"ne": func(a, b any) bool { c, ok := compare(a, b); return !ok || c != 0 },
		"lt": func(a, b any) bool { c, ok := compare(a, b); return ok && c < 0 },
		"le": func(a, b any) bool { c, ok := compare(a, b); return ok && c <= 0 },
		"gt": func(a, b any) bool { c, ok := compare(a, b); return ok && c > 0 },
		"ge": func(a, b any) bool { c, ok := compare(a, b); return ok && c >= 0 },

		fieldFunc: func(v any, names ...string) any {
			for _, name := range names {
				v = element(v, name)
			}
			return v
		},
		rangeFunc: func(v any) (any, error) {
			switch v := v.(type) {
			case map[string]any, map[string]string, []any:
				n, _ := length(v)
				return v, m.spend(n * rangeWork)
			case nil:
				return []any(nil), nil
			case string:
				if v == "" { // a missing key
					return []any(nil), nil
				}
			}
			return nil, fmt.Errorf("range needs a list or an object, not %s", kind(v))
		},
		textFunc: text,
	}
}

// element is v.key or v[key]; the empty string where there is no such thing, or it is null.
func element(v, key any) any {
	var found any
	switch v := v.(type) {
	case map[string]any:
		name, _ := key.(string)
		found = v[name]
	case map[string]string:
		name, _ := key.(string)
		found = v[name]
	case []any:
		if i, ok := integer(key); ok && 0 <= i && i < int64(len(v)) {
			found = v[i]
		}
	}
	if found == nil {
		return ""
	}
	return found
}

func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

func length(v any) (int, error) {
	switch v := v.(type) {
	case nil:
		return 0, nil
	case string:
		return len(v), nil
	case []any:
		return len(v), nil
	case map[string]any:
		return len(v), nil
	case map[string]string:
		return len(v), nil
	}
	return 0, fmt.Errorf("%s has no length", kind(v))
}

// compare orders two numbers, strings or booleans; values of different kinds have no order. Null
// is the empty string.
func compare(a, b any) (int, bool) {
	if a == nil {
		a = "" // as element gives it
	}
	if b == nil {
		b = ""
	}
	if x, ok := integer(a); ok {
		if y, ok := integer(b); ok {
			return cmp.Compare(x, y), true
		}
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return cmp.Compare(x, y), ok
	}
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return strings.Compare(x, y), ok
	case bool:
		y, ok := b.(bool)
		if x == y {
			return 0, ok
		}
		return 1, ok
	}
	return 0, false
}

func number(v any) (float64, bool) {
	if i, ok := integer(v); ok {
		return float64(i), true
	}
	f, ok := v.(float64)
	return f, ok
}

func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any, map[string]string:
		return "an object"
	}
	return "a number"
}

// truncate keeps the first n characters of s, with … behind them if there were more.
func truncate(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// text is how a value is printed: nothing for null, a number as JSON writes it, a list or an
// object as JSON.
func text(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64, []any, map[string]any, map[string]string:
		return jsonText(v)
	}
	return fmt.Sprint(v), nil
}

// jsonText leaves <, > and & alone, as prompts are no HTML.
func jsonText(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", errors.New("the value has no JSON form")
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
