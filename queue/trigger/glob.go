package trigger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// globs is a list of patterns: something matches when any pattern without a leading ! does (or
// there is none) and no pattern with one does.
type globs struct {
	fold             bool // letter case does not count
	include, exclude []glob
}

func (g *globs) add(pattern string) error {
	if g.fold {
		pattern = strings.ToLower(pattern)
	}
	rest, negated := strings.CutPrefix(pattern, "!")
	compiled, err := compileGlob(rest)
	if err != nil {
		return err
	}
	if negated {
		g.exclude = append(g.exclude, compiled...)
	} else {
		g.include = append(g.include, compiled...)
	}
	return nil
}

func (g *globs) match(s string) bool {
	if g.fold {
		s = strings.ToLower(s)
	}
	matches := func(p glob) bool { return p.match(s) }
	return (len(g.include) == 0 || slices.ContainsFunc(g.include, matches)) && !slices.ContainsFunc(g.exclude, matches)
}

// literals returns the only strings that can match, when every pattern without ! is literal.
func (g *globs) literals() ([]string, bool) {
	var all []string
	for _, p := range g.include {
		if len(p.tokens) > 0 {
			return nil, false
		}
		all = append(all, p.prefix)
	}
	return all, len(all) > 0
}

// glob is one pattern without alternatives: a literal prefix, then the tokens of the rest. Without
// tokens it is literal.
//
//	?       one character other than /
//	*       any number of characters other than /
//	**      any number of characters; as a whole segment, any number of segments, none too
//	[a-z]   one character of a class, [!a-z] or [^a-z] one that is not in it, never /
//	{a,b}   one of the alternatives
//	\x      x itself
type glob struct {
	prefix string
	tokens []token
}

type token struct {
	op      op
	char    rune   // opChar
	ranges  []rune // opClass: pairs of first and last
	negated bool   // opClass
}

type op uint8

const (
	opChar     op = iota
	opOne         // ?
	opStar        // *
	opAny         // **
	opClass       // […]
	opSegments    // **/ at the start of a segment: nothing, or enter the opSegment that follows
	opSegment     // inside such segments: left behind a /
	opTail        // /** at the end: nothing, or a / and then the opAny that follows
)

// maxAlternatives bounds what braces expand to.
const maxAlternatives = 256

// compileGlob returns one glob for each alternative.
func compileGlob(pattern string) ([]glob, error) {
	if pattern == "" {
		return nil, errors.New("the pattern is empty")
	}
	expanded, err := expandBraces([]rune(pattern))
	if err != nil {
		return nil, err
	}
	all := make([]glob, 0, len(expanded))
	for _, e := range expanded {
		g, err := tokenize(e)
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

// expandBraces rewrites the first {a,b} and goes on with each result, so that nested and repeated
// braces come out as their product.
func expandBraces(p []rune) ([][]rune, error) {
	open, depth := -1, 0
	var cuts []int // the commas and the closing brace of the first group
	inClass := false
	for i := 0; i < len(p) && (len(cuts) == 0 || depth > 0); i++ {
		switch c := p[i]; {
		case c == '\\':
			i++
		case inClass:
			inClass = c != ']'
		case c == '[':
			inClass = true
		case c == '{':
			if depth++; depth == 1 {
				open = i
			}
		case c == '}' && depth == 0:
			return nil, errors.New("a } without {")
		case c == '}':
			if depth--; depth == 0 {
				cuts = append(cuts, i)
			}
		case c == ',' && depth == 1:
			cuts = append(cuts, i)
		}
	}
	if depth > 0 {
		return nil, errors.New("a { without }")
	}
	if open < 0 {
		return [][]rune{p}, nil
	}
	var all [][]rune
	from, end := open+1, cuts[len(cuts)-1]
	for _, cut := range cuts {
		expanded, err := expandBraces(slices.Concat(p[:open], p[from:cut], p[end+1:]))
		if err != nil {
			return nil, err
		}
		if all = append(all, expanded...); len(all) > maxAlternatives {
			return nil, fmt.Errorf("more than %d alternatives", maxAlternatives)
		}
		from = cut + 1
	}
	return all, nil
}

func tokenize(p []rune) (glob, error) {
	var tokens []token
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			if i++; i == len(p) {
				return glob{}, errors.New(`a \ at the end`)
			}
			tokens = append(tokens, token{op: opChar, char: p[i]})
		case '?':
			tokens = append(tokens, token{op: opOne})
		case '*':
			start := i
			for i+1 < len(p) && p[i+1] == '*' {
				i++
			}
			atStart := start == 0 || p[start-1] == '/'
			switch {
			case i == start:
				tokens = append(tokens, token{op: opStar})
			case atStart && i+1 < len(p) && p[i+1] == '/':
				i++
				if rest := string(p[i+1:]); rest == "**" || strings.HasPrefix(rest, "**/") {
					continue // **/** says no more than the second ** alone
				}
				tokens = append(tokens, token{op: opSegments}, token{op: opSegment})
			case len(tokens) > 1 && atStart && i+1 == len(p) && tokens[len(tokens)-1].op == opChar:
				tokens[len(tokens)-1] = token{op: opTail}
				tokens = append(tokens, token{op: opAny})
			default:
				tokens = append(tokens, token{op: opAny})
			}
		case '[':
			class, end, err := parseClass(p, i+1)
			if err != nil {
				return glob{}, err
			}
			i = end
			tokens = append(tokens, class)
		default:
			tokens = append(tokens, token{op: opChar, char: p[i]})
		}
	}
	var prefix strings.Builder
	n := 0
	for ; n < len(tokens) && tokens[n].op == opChar; n++ {
		prefix.WriteRune(tokens[n].char)
	}
	return glob{prefix: prefix.String(), tokens: tokens[n:]}, nil
}

// parseClass reads the class whose [ stands before p[i] and returns the index of its ].
func parseClass(p []rune, i int) (token, int, error) {
	t := token{op: opClass}
	if i < len(p) && (p[i] == '!' || p[i] == '^') {
		t.negated = true
		i++
	}
	next := func() (rune, bool) {
		if i < len(p) && p[i] == '\\' {
			i++
		}
		if i >= len(p) {
			return 0, false
		}
		i++
		return p[i-1], true
	}
	for i < len(p) {
		if p[i] == ']' {
			if len(t.ranges) == 0 {
				return t, 0, errors.New("an empty [ ]")
			}
			return t, i, nil
		}
		first, ok := next()
		last := first
		if ok && i+1 < len(p) && p[i] == '-' && p[i+1] != ']' {
			i++
			last, ok = next()
		}
		if !ok {
			break
		}
		if last < first {
			return t, 0, fmt.Errorf("the range %c-%c is backwards", first, last)
		}
		t.ranges = append(t.ranges, first, last)
	}
	return t, 0, errors.New("a [ without ]")
}

func (t *token) inClass(c rune) bool {
	for i := 0; i < len(t.ranges); i += 2 {
		if t.ranges[i] <= c && c <= t.ranges[i+1] {
			return !t.negated
		}
	}
	return t.negated
}

// match follows all ways through the tokens at once, so that its time is bounded by the length
// of s times the number of tokens, whatever either contains.
func (g glob) match(s string) bool {
	rest, ok := strings.CutPrefix(s, g.prefix)
	if !ok || len(g.tokens) == 0 {
		return ok && rest == ""
	}
	n := len(g.tokens)
	var buffer [128]bool
	states := buffer[:]
	if 2*(n+1) > len(states) {
		states = make([]bool, 2*(n+1))
	}
	now, then := states[:n+1], states[n+1:2*(n+1)]
	g.enter(now, 0)
	for _, c := range rest {
		alive := false
		clear(then)
		for i, on := range now[:n] {
			if !on {
				continue
			}
			t := &g.tokens[i]
			stay, leave := false, false
			switch t.op {
			case opChar:
				leave = c == t.char
			case opOne:
				leave = c != '/'
			case opClass:
				leave = c != '/' && t.inClass(c)
			case opStar:
				stay = c != '/'
			case opAny:
				stay = true
			case opSegment:
				stay, leave = true, c == '/'
			case opTail:
				leave = c == '/'
			}
			if stay {
				g.enter(then, i)
			}
			if leave {
				g.enter(then, i+1)
			}
			alive = alive || stay || leave
		}
		if !alive {
			return false
		}
		now, then = then, now
	}
	return now[n]
}

// enter marks state i and all that can be reached from it without a character.
func (g glob) enter(states []bool, i int) {
	for !states[i] {
		states[i] = true
		if i == len(g.tokens) {
			return
		}
		switch g.tokens[i].op {
		case opStar, opAny:
			i++
		case opSegments:
			states[i+1] = true
			i += 2
		case opTail:
			i += 2
		default:
			return
		}
	}
}
