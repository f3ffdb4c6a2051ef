package commands

import (
	"slices"
	"strings"
	"testing"
)

// complete asks what may come next; the last word is the one being typed.
func complete(t *testing.T, words ...string) []string {
	t.Helper()
	code, out, errs := typed(t, append([]string{"__complete"}, words...)...)
	if code != exitDone || errs != "" {
		t.Fatalf("completing %q: exit %d %s", words, code, errs)
	}
	var offered []string
	for line := range strings.Lines(out) {
		word, help, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok || strings.Contains(help, "\t") {
			t.Errorf("completing %q: the line %q", words, line)
		}
		offered = append(offered, word)
	}
	return offered
}

func TestComplete(t *testing.T) {
	for name, c := range map[string]struct {
		words      []string
		offers     []string
		not        []string
		everything bool // what is offered is offers and no more
	}{
		"nothing yet":            {[]string{""}, []string{"serve", "status", "deliveries", "copy", "--server", "--config"}, []string{"__complete", "list"}, false},
		"no words at all":        {nil, []string{"serve", "--store"}, nil, false},
		"a beginning":            {[]string{"sta"}, []string{"status"}, nil, true},
		"a group":                {[]string{"deliveries", ""}, []string{"list", "show", "payload"}, []string{"serve", "retry"}, false},
		"an alias":               {[]string{"run", "re"}, []string{"retry", "resolve"}, nil, true},
		"a flag":                 {[]string{"deliveries", "list", "--st"}, []string{"--state", "--store"}, nil, true},
		"a flag after JSON":      {[]string{"deliveries", "list", "--json", "--sin"}, []string{"--since"}, nil, true},
		"a flag after a value":   {[]string{"deliveries", "list", "--state", "failed", "--sin"}, []string{"--since"}, nil, true},
		"a flag after a short":   {[]string{"-c", "preloop.yaml", "deli"}, []string{"deliveries"}, nil, true},
		"a flag after an =":      {[]string{"--store=sqlite://x", "deli"}, []string{"deliveries"}, nil, true},
		"a flag's value":         {[]string{"runs", "resolve", "ID", "--as", ""}, []string{"succeeded", "failed"}, nil, true},
		"a flag's value, begun":  {[]string{"runs", "resolve", "ID", "--as", "f"}, []string{"failed"}, nil, true},
		"a free value":           {[]string{"--server", ""}, nil, nil, true},
		"a value like a command": {[]string{"--server", "status", "vers"}, []string{"version"}, nil, true},
		"an argument":            {[]string{"completion", ""}, []string{"bash", "zsh", "fish"}, nil, false},
		"a group's own flags":    {[]string{"repairs", "--sou"}, []string{"--source"}, nil, true},
		"nothing known":          {[]string{"zzz"}, nil, nil, true},
	} {
		got := complete(t, c.words...)
		for _, word := range c.offers {
			if !slices.Contains(got, word) {
				t.Errorf("%s: %q is not offered: %q", name, word, got)
			}
		}
		for _, word := range c.not {
			if slices.Contains(got, word) {
				t.Errorf("%s: %q is offered", name, word)
			}
		}
		if c.everything && len(got) != len(c.offers) {
			t.Errorf("%s: offered are %q, want %q", name, got, c.offers)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, out, errs := typed(t, "completion", shell)
		if code != exitDone || errs != "" || !strings.Contains(out, "preloop __complete") {
			t.Errorf("%s: exit %d %s%s", shell, code, out, errs)
		}
	}
	if len(completionScripts) != 3 {
		t.Errorf("%d scripts", len(completionScripts))
	}
}
