package main

import (
	"fmt"
	"slices"
	"strings"
)

// pkg is what `go list` says of a package, our own paths without the module's.
type pkg struct {
	path        string
	imports     []string // production code
	testImports []string // both kinds of test file
}

// check returns a line for every import that the table does not allow.
func check(module string, pkgs []pkg, table []rule) []string {
	var wrong []string
	for _, p := range pkgs {
		i := slices.IndexFunc(table, func(r rule) bool { return covers(r.path, p.path) })
		if i < 0 {
			wrong = append(wrong, p.path+": has no row in the table of imports")
			continue
		}
		for _, imported := range p.imports {
			if reason := table[i].forbids(module, imported, isTestHelper(p.path)); reason != "" {
				wrong = append(wrong, fmt.Sprintf("%s: must not import %s: %s", p.path, imported, reason))
			}
		}
		for _, imported := range p.testImports {
			if own, ok := ours(module, imported); ok && own != p.path && outside(own, p.path) {
				wrong = append(wrong, fmt.Sprintf("%s: its tests must not import %s", p.path, imported))
			}
		}
	}
	return wrong
}

// forbids says why a package under r must not import a path, or nothing.
func (r rule) forbids(module, imported string, testHelper bool) string {
	if own, ok := ours(module, imported); ok {
		switch {
		case !testHelper && coversAny(testOnlyOurs, own):
			return "it is for tests"
		case !coversAny(r.ours, own):
			return "the arrow does not exist"
		}
		return ""
	}
	switch {
	case standard(imported):
		return ""
	case !testHelper && inModules(testOnlyModules, imported):
		return "it is for tests"
	case slices.Contains(r.external, anyModule) || inModules(r.external, imported):
		return ""
	}
	return "the module is not among those that this package may use"
}

// isTestHelper reports whether a package is itself compiled into tests and tools alone.
func isTestHelper(path string) bool {
	return coversAny(testOnlyOurs, path) || covers("scripts/...", path)
}

// outside reports whether a package is beside or above the one whose tests want it.
func outside(own, importer string) bool {
	if covers("commands/...", own) {
		return !covers("commands/...", importer) && !covers("cmd/...", importer)
	}
	return covers("cmd/...", own) || covers("scripts/...", own) && !covers("scripts/...", importer)
}

func ours(module, imported string) (path string, ok bool) {
	if imported == module {
		return "", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// standard goes by what the go command goes by: the first element of any other path has a dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

func covers(pattern, path string) bool {
	base, tree := strings.CutSuffix(pattern, "/...")
	return path == base || tree && strings.HasPrefix(path, base+"/")
}

func coversAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, path) })
}

func inModules(modules []string, imported string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return covers(m+"/...", imported) })
}
