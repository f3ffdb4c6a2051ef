package main

import (
	"slices"
	"testing"
)

func TestCheck(t *testing.T) {
	const m = "example.com/m"
	tests := map[string]struct {
		pkg  pkg
		want []string
	}{
		"the standard library is allowed everywhere":     {pkg: pkg{"queue", []string{"net/http", "C"}, nil}},
		"an arrow of the table":                          {pkg: pkg{"queue/sqlite", []string{m + "/queue", m + "/queue/codec", "modernc.org/sqlite"}, nil}},
		"a module's package":                             {pkg: pkg{"queue/postgres", []string{"github.com/jackc/pgx/v5/pgxpool"}, nil}},
		"a tree":                                         {pkg: pkg{"commands", []string{m + "/commands/config", m + "/queue/sqlite", "github.com/alecthomas/kong"}, nil}},
		"tests import anything of ours and of others":    {pkg: pkg{"queue", nil, []string{m + "/queue/sqlite", m + "/fixtures/githubfake", "pgregory.net/rapid"}}},
		"tests of commands import commands":              {pkg: pkg{"commands/config", nil, []string{m + "/commands"}}},
		"a test helper may use test modules":             {pkg: pkg{"queue/queuetest", []string{m + "/queue", "github.com/google/go-cmp/cmp"}, nil}},
		"the domain imports a store":                     {pkg{"queue", []string{m + "/queue/sqlite"}, nil}, []string{"queue: must not import example.com/m/queue/sqlite: the arrow does not exist"}},
		"the domain imports a module":                    {pkg{"queue", []string{"github.com/google/uuid"}, nil}, []string{"queue: must not import github.com/google/uuid: the module is not among those that this package may use"}},
		"a module whose name begins with an allowed one": {pkg{"queue/sqlite", []string{"modernc.org/sqlitex"}, nil}, []string{"queue/sqlite: must not import modernc.org/sqlitex: the module is not among those that this package may use"}},
		"GitHub's facts know no queue":                   {pkg{"github", []string{m + "/queue"}, nil}, []string{"github: must not import example.com/m/queue: the arrow does not exist"}},
		"production code imports fixtures":               {pkg{"commands", []string{m + "/fixtures"}, nil}, []string{"commands: must not import example.com/m/fixtures: it is for tests"}},
		"production code imports the suite":              {pkg{"queue/sqlite", []string{m + "/queue/queuetest"}, nil}, []string{"queue/sqlite: must not import example.com/m/queue/queuetest: it is for tests"}},
		"production code imports a test module":          {pkg{"commands", []string{"pgregory.net/rapid"}, nil}, []string{"commands: must not import pgregory.net/rapid: it is for tests"}},
		"the doorbell does more":                         {pkg{"cmd/preloop", []string{m + "/commands", m + "/queue"}, nil}, []string{"cmd/preloop: must not import example.com/m/queue: the arrow does not exist"}},
		"tests below commands import it":                 {pkg{"queue", nil, []string{m + "/commands"}}, []string{"queue: its tests must not import example.com/m/commands"}},
		"tests import a script's helper":                 {pkg{"queue", nil, []string{m + "/scripts/internal/harness"}}, []string{"queue: its tests must not import example.com/m/scripts/internal/harness"}},
		"a package that nobody placed":                   {pkg{"util", nil, nil}, []string{"util: has no row in the table of imports"}},
		"the module's root":                              {pkg{"", nil, nil}, []string{": has no row in the table of imports"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := check(m, []pkg{tt.pkg}, rules); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
