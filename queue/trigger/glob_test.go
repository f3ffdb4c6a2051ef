package trigger

import (
	"path"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no string // space-separated
	}{
		{"acme/api", "acme/api", "acme/api2 acme acme/ap xacme/api"},
		{"acme/*", "acme/api acme/a.b", "acme acme/a/b other/api"},
		{"*/api", "acme/api", "acme/x/api api"},
		{"a*c", "ac abc abbc", "a/c abcd"},
		{"a**c", "ac abc a/b/c", "a/b/d"},
		{"**", "a a/b a/b/c", ""},
		{"docs/**", "docs docs/a docs/a/b.md", "docsx/a xdocs/a"},
		{"**/x.go", "x.go a/x.go a/b/x.go", "ax.go a/x.gox x.go/a"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "ab a/xb a/x/yb a/b/c"},
		{"a/**/*.go", "a/x.go a/b/x.go", "x.go a/x.c"},
		{"**/test/**", "test test/a a/test a/test/b a/b/test/c/d", "tests/a atest/b"},
		{"a/**/**/b", "a/b a/x/b", "ab"},
		{"*.go", "a.go .go", "a/b.go a.gox"},
		{"*.*.*", "a.b.c ...", "a.b"},
		{"a?c", "abc aéc", "ac a/c abbc"},
		{"[a-c]x", "ax cx", "dx x /x"},
		{"[!a-c]x", "dx zx", "ax /x"},
		{"[^a-c]x", "dx", "bx"},
		{"[a-cx-z]", "b y", "d w -"},
		{"[a-]", "a -", "b"},
		{`[\]a]`, "] a", `\`},
		{"{a,b}/c", "a/c b/c", "c/c ab/c"},
		{"x{,.y}", "x x.y", "x."},
		{"{a,{b,c}d}*", "a1 bd cdx", "b d"},
		{"{a,b}{c,d}", "ac ad bc bd", "ab cd"},
		{`\{a,b\}`, "{a,b}", "a b"},
		{`a\*b`, "a*b", "axb ab"},
		{"[{]a", "{a", "a"},
		{"a,b", "a,b", "a b"},
		{`\!a`, "!a", "a"},
		{"日本*", "日本 日本語", "日"},
		{"**/a*/**/b", "a/b x/a1/b a/c/d/b x/a/a/b", "a/bc b"},
	} {
		t.Run(c.pattern, func(t *testing.T) {
			var g globs
			if err := g.add(c.pattern); err != nil {
				t.Fatal(err)
			}
			for _, s := range strings.Fields(c.yes) {
				if !g.match(s) {
					t.Errorf("does not match %q", s)
				}
			}
			for _, s := range strings.Fields(c.no) {
				if g.match(s) {
					t.Errorf("matches %q", s)
				}
			}
		})
	}
}

func TestGlobErrors(t *testing.T) {
	for _, pattern := range []string{"", "!", "[a", "[", "[]", "[!]", "[z-a]", "{a", "{a,{b}", "a}", `a\`, `[a\`, strings.Repeat("{a,b}", 12)} {
		if err := new(globs).add(pattern); err == nil {
			t.Errorf("%q compiles", pattern)
		}
	}
}

func TestGlobLists(t *testing.T) {
	for name, c := range map[string]struct {
		patterns []string
		fold     bool
		yes, no  string
	}{
		"none matches all":      {nil, false, "a b/c", ""},
		"any of several":        {[]string{"a", "b"}, false, "a b", "c"},
		"exclusion wins":        {[]string{"!acme/secret", "acme/*"}, false, "acme/api", "acme/secret x/y"},
		"only exclusions":       {[]string{"!acme/secret"}, false, "acme/api x/y", "acme/secret"},
		"letter case counts":    {[]string{"Docs/**"}, false, "Docs/a", "docs/a"},
		"folded":                {[]string{"Acme/*", "!ACME/Secret"}, true, "acme/API aCme/x", "acme/secret Acme/SECRET"},
		"folded class":          {[]string{"acme/[A-C]*"}, true, "acme/bx ACME/BX", "acme/dx"},
		"a literal with braces": {[]string{"acme/{a,b}"}, true, "acme/a acme/B", "acme/c"},
	} {
		t.Run(name, func(t *testing.T) {
			g := globs{fold: c.fold}
			for _, p := range c.patterns {
				if err := g.add(p); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range strings.Fields(c.yes) {
				if !g.match(s) {
					t.Errorf("does not match %q", s)
				}
			}
			for _, s := range strings.Fields(c.no) {
				if g.match(s) {
					t.Errorf("matches %q", s)
				}
			}
		})
	}
}

// Without ** and braces the language is that of path.Match.
func TestGlobAgreesWithPathMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`([ab/?]|\*[ab/?]|\[ab\]|\[^a\]){1,10}\*?`).Draw(t, "pattern")
		s := rapid.StringMatching(`[abc/]{0,10}`).Draw(t, "s")
		want, err := path.Match(pattern, s)
		if err != nil {
			return
		}
		compiled, err := compileGlob(pattern)
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		if got := compiled[0].match(s); got != want {
			t.Fatalf("%q matches %q: %v, path.Match says %v", pattern, s, got, want)
		}
	})
}

// The segments of a pattern with ** are judged by trying every way to divide the path.
func TestGlobSegmentsAgreeWithDefinition(t *testing.T) {
	var matches func(pattern, segments []string) bool
	matches = func(pattern, segments []string) bool {
		if len(pattern) == 0 {
			return len(segments) == 0
		}
		if pattern[0] == "**" {
			return matches(pattern[1:], segments) || len(segments) > 0 && matches(pattern, segments[1:])
		}
		if len(segments) == 0 {
			return false
		}
		ok, _ := path.Match(pattern[0], segments[0])
		return ok && matches(pattern[1:], segments[1:])
	}
	part := rapid.SampledFrom([]string{"**", "*", "a", "b", "a*", "*b"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.SliceOfN(part, 1, 6).Draw(t, "pattern")
		segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "c"}), 1, 6).Draw(t, "path")
		compiled, err := compileGlob(strings.Join(pattern, "/"))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := compiled[0].match(strings.Join(segments, "/")), matches(pattern, segments); got != want {
			t.Fatalf("%v matches %v: %v, want %v", pattern, segments, got, want)
		}
	})
}

func TestGlobTimeIsBounded(t *testing.T) {
	compiled, err := compileGlob(strings.Repeat("*a", 30) + "b/" + strings.Repeat("**/a", 30) + "x")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if compiled[0].match(strings.Repeat("a", 5000) + "b/" + strings.Repeat("a/", 5000)) {
		t.Fatal("matches")
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{{"a/**/b*", "a/x/bc"}, {"{a,[b-d]}?", "cx"}, {`\*[!a]`, "*b"}, {"!x/**", "x"}, {"[\xff-\xff]", "\xff"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		var g globs
		if err := g.add(pattern); err != nil {
			return
		}
		g.match(s)
		if !strings.ContainsAny(pattern, `\*?[]{}!`) && strings.ToValidUTF8(pattern, "") == pattern && g.match(s) != (pattern == s) {
			t.Errorf("literal %q matches %q: %v", pattern, s, g.match(s))
		}
	})
}
