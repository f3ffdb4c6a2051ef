package trigger

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"text/template/parse"
	"time"

	"pgregory.net/rapid"

	"github.com/seed-de999ace/preloop/queue"
)

func TestPrompt(t *testing.T) {
	for name, c := range map[string]struct{ template, want string }{
		"literal":                       {"Fix it.", "Fix it."},
		"empty":                         {"", ""},
		"names":                         {"{{.event}} {{.action}} {{.repo}} {{.sender}} {{.subject}}", "issues opened acme/api octocat acme/api#7"},
		"run":                           {"{{.delivery_id}} {{.run_id}} {{.trigger}} {{.session}} {{.attempt}}", "guid-1 run-1 t s-1 2"},
		"prompt sees no prompt":         {"[{{.prompt}}]", "[]"},
		"header":                        {`{{ index .headers "x-github-event" }}`, "issues"},
		"missing header":                {`[{{ index .headers "x-nope" }}]`, "[]"},
		"integer":                       {"#{{ .body.issue.number }}", "#7"},
		"id beyond 2^53":                {"{{ .body.repository.id }}", "3804004623172239366"},
		"float":                         {"{{ .body.issue.score }}", "7.5"},
		"missing":                       {"[{{ .body.comment.body }}]", "[]"},
		"missing at the top":            {"[{{ .body.comment }}]", "[]"},
		"null":                          {"[{{ .body.issue.body }}]", "[]"},
		"below null":                    {"[{{ .body.issue.body.x.y }}]", "[]"},
		"below a string":                {"[{{ .body.issue.title.x }}]", "[]"},
		"missing through a pipe":        {`[{{ .body.nope | printf "%s" }}]`, "[]"},
		"missing in if":                 {"{{ if .body.pull_request.draft }}draft{{ else }}ready{{ end }}", "ready"},
		"missing in with":               {"{{ with .body.pull_request }}{{ .title }}{{ else }}none {{ .repo }}{{ end }}", "none acme/api"},
		"missing in range":              {"{{ range .body.nope.list }}x{{ else }}none{{ end }}", "none"},
		"null in range":                 {"{{ range .body.issue.body }}x{{ else }}none{{ end }}", "none"},
		"missing in eq":                 {`{{ if eq .body.nope "x" }}x{{ else }}no{{ end }}`, "no"},
		"missing in gt":                 {`{{ if gt .body.nope 5 }}x{{ else }}no{{ end }}`, "no"},
		"missing in len":                {`{{ len .body.nope }}`, "0"},
		"missing in index":              {`[{{ (index .body.nope 0).name }}]`, "[]"},
		"index out of range":            {`[{{ (index .body.issue.labels 9).name }}]`, "[]"},
		"index":                         {`{{ (index .body.issue.labels 1).name }} {{ index .body.issue.labels 0 "name" }}`, "p1 bug"},
		"with":                          {"{{ with .body.issue }}{{ .title }} {{ $.repo }}{{ end }}", "Crash acme/api"},
		"range":                         {"{{ range .body.issue.labels }}-{{ .name }}{{ end }}", "-bug-p1"},
		"range with variables":          {"{{ range $i, $l := .body.issue.labels }}{{ $i }}{{ $l.name }}{{ end }}", "0bug1p1"},
		"range over an object":          {"{{ range $k, $v := .body.sender }}{{ $k }}={{ $v }}{{ end }}", "login=octocat"},
		"range over headers":            {"{{ range $k, $v := .headers }}{{ $k }} {{ end }}", "user-agent x-github-event "},
		"break":                         {"{{ range .body.issue.labels }}{{ .name }}{{ break }}{{ end }}", "bug"},
		"variable":                      {"{{ $t := .body.issue.title }}{{ $t }}{{ $t = 5 }}{{ $t }}", "Crash5"},
		"variable field":                {"{{ $i := .body.issue }}{{ $i.user.login }}{{ $i.nope.login }}", "octocat"},
		"chain":                         {"{{ (.body.issue).user.login }}", "octocat"},
		"comparison":                    {"{{ if and (eq .body.issue.number 7) (lt .body.issue.number 7.5) (ne .action \"x\") (ge 2 2) (le 1 2) }}yes{{ end }}", "yes"},
		"several in eq":                 {`{{ if eq .action "x" "opened" }}yes{{ end }}`, "yes"},
		"list as JSON":                  {"{{ .body.issue.labels }}", `[{"name":"bug"},{"name":"p1"}]`},
		"json":                          {`{{ json .body.sender }} {{ json "<&>" }}`, `{"login":"octocat"} "<&>"`},
		"join":                          {`{{ join ", " .body.issue.labels }}`, `{"name":"bug"}, {"name":"p1"}`},
		"default":                       {`{{ .body.nope | default "none" }} {{ default "x" .action }}`, "none opened"},
		"truncate":                      {`{{ .body.issue.title | truncate 2 }} {{ truncate 9 .body.issue.title }} {{ truncate 1 "éé" }}`, "Cr… Crash é…"},
		"printf":                        {`{{ printf "%05d|%s" .body.issue.number .repo }}`, "00007|acme/api"},
		"html":                          {`{{ html "<a>" }}`, "&lt;a&gt;"},
		"not, or":                       {`{{ not .body.nope }} {{ or .body.nope .action }}`, "true opened"},
		"bool":                          {`{{ eq 1 1 }}`, "true"},
		"comment and trim":              {"a {{- /* note */ -}} b", "ab"},
		"payload is not a template":     {"{{ .body.hostile }}", "{{ .body.issue.title }}"},
		"null element":                  {"{{ range .body.nulls }}[{{ . }}{{ .x }}]{{ end }}", "[][]"},
		"methods are out of reach":      {"[{{ .body.Len }}{{ .event.Len }}]", "[]"},
		"text is not escaped":           {"{{ .body.angle }}", "<b>&"},
		"nil literal":                   {`{{ if eq .body.nope nil }}x{{ else }}y{{ end }}`, "x"},
		"number of missing is no error": {`{{ printf "%v" .body.nope }}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			payload := strings.TrimSuffix(strings.TrimSpace(issuePayload), "}") +
				`,"hostile":"{{ .body.issue.title }}","nulls":[null,null],"angle":"<b>&"}`
			trigger := compile(t, func(s *Spec) { s.Prompt = c.template })
			got, err := trigger.Prompt(Vars{Event: event(payload, nil), Prompt: "P", Session: "s-1", RunID: "run-1", Attempt: 2})
			if err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestTemplateCompileErrors(t *testing.T) {
	for template, want := range map[string]string{
		"{{ .bdoy.x }}": "no variable .bdoy",
		"{{ $.nope }}":  "no variable .nope",
		"{{ range .body.x }}{{ $.repos }}{{ end }}":         "no variable .repos",
		"{{ if .body.x }}{{ .sendr }}{{ end }}":             "no variable .sendr",
		"{{ with .body.x }}{{ else }}{{ .sendr }}{{ end }}": "no variable .sendr",
		"{{ .body":         "unclosed action",
		"{{ nope .body }}": `"nope" not defined`,
		`{{ define "x" }}{{ template "x" }}{{ end }}`:         "not supported",
		`{{ block "x" . }}{{ end }}`:                          "not supported",
		`{{ template "prompt" . }}`:                           "not supported",
		`{{ if true }}{{ template "prompt" . }}{{ end }}`:     "not supported",
		"{{ range .body.x }}{{ .anything }}{{ end }}{{ .x }}": "no variable .x",
	} {
		_, err := Compile(spec(func(s *Spec) { s.Prompt = template }))
		var field *FieldError
		if !errors.As(err, &field) || field.Field != "prompt" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", template, err, want)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	long := `{"x":[` + strings.Repeat("1,", 50_000) + `1],"texts":["` + strings.Repeat("a", 7000) + `"],"s":"` + strings.Repeat("SECRET ", 1000) + `","n":9000000000000000000,"big":"` +
		strings.Repeat("a", 2<<20) + `"}`
	ev := event(long, nil)
	for name, c := range map[string]struct{ template, want string }{
		"too large":                {"{{ .body.big }}", errTooLarge.Error()},
		"too large by a loop":      {"{{ range .body.x }}{{ $.body.s }}{{ end }}", errTooLarge.Error()},
		"nested ranges in silence": {"{{ range .body.x }}{{ range $.body.x }}{{ end }}{{ end }}", errTooMuchWork.Error()},
		"functions in a loop":      {"{{ range .body.x }}{{ $y := json $.body.s }}{{ end }}", errTooMuchWork.Error()},
		"escapers in a loop":       {"{{ range .body.x }}{{ $y := html $.body.s }}{{ end }}", errTooMuchWork.Error()},
		"truncating in a loop":     {"{{ range .body.x }}{{ $y := truncate 1 $.body.texts }}{{ end }}", errTooMuchWork.Error()},
		"doubling":                 {`{{ $s := "xx" }}{{ range .body.x }}{{ $s = print $s $s }}{{ end }}`, errTooLarge.Error()},
		"range over a number":      {"{{ range .body.n }}{{ end }}", "range needs a list or an object, not a number"},
		"range over a literal":     {"{{ range 9000000000000 }}{{ end }}", "range needs a list or an object, not a number"},
		"range over a string":      {"{{ range .body.s }}{{ end }}", "not a string"},
		"len of a number":          {"{{ len .body.n }}", "a number has no length"},
		"calling a value":          {"{{ .body.s 1 }}", "can't give argument to non-function"},
		"slice out of range":       {"{{ slice .event 0 500 }}", "out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := compile(t, func(s *Spec) { s.Prompt = c.template })
			start := time.Now()
			got, err := trigger.Prompt(Vars{Event: ev})
			if got != "" || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.40q, %v, want %s", got, err, c.want)
			} else if strings.Contains(err.Error(), "SECRET") {
				t.Errorf("the error quotes the payload: %v", err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("just small enough", func(t *testing.T) {
		trigger := compile(t, func(s *Spec) { s.Prompt = "{{ .body.s }}" })
		payload := `{"s":"` + strings.Repeat("a", maxRendered) + `"}`
		if got, err := trigger.Prompt(Vars{Event: event(payload, nil)}); err != nil || len(got) != maxRendered {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	})
	t.Run("payload that is no object", func(t *testing.T) {
		trigger := compile(t, func(s *Spec) { s.Prompt = "{{ .body.s }}" })
		if _, err := trigger.Prompt(Vars{Event: event("[]", nil)}); !errors.Is(err, errNotObject) {
			t.Errorf("got %v", err)
		}
		trigger = compile(t, func(s *Spec) { s.Prompt = "{{ .event }}" })
		if got, err := trigger.Prompt(Vars{Event: event("[]", nil)}); err != nil || got != "issues" {
			t.Errorf("where it is not needed: got %q, %v", got, err)
		}
	})
}

func TestArgv(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		prompt  string
		want    []string
		refused int // index, or -1
	}{
		"literal":                    {[]string{"make", "-B", "deploy"}, "", []string{"make", "-B", "deploy"}, -1},
		"prompt":                     {[]string{"claude", "-p", "{{ .prompt }}"}, "do it", []string{"claude", "-p", "do it"}, -1},
		"no word splitting":          {[]string{"x", "{{ .prompt }}"}, "a b; $(c) 'd'\n", []string{"x", "a b; $(c) 'd'\n"}, -1},
		"empty":                      {[]string{"x", "{{ .body.nope }}"}, "", []string{"x", ""}, -1},
		"leading dash":               {[]string{"x", "-p", "{{ .prompt }}"}, "-rf", nil, 2},
		"a dash alone":               {[]string{"x", "{{ .prompt }}"}, "-", nil, 1},
		"leading dash after --":      {[]string{"x", "--", "{{ .prompt }}"}, "-rf", []string{"x", "--", "-rf"}, -1},
		"-- comes too late":          {[]string{"x", "{{ .prompt }}", "--"}, "-rf", nil, 1},
		"-- from the payload":        {[]string{"x", "-{{ .prompt }}", "{{ .prompt }}"}, "-", nil, 2},
		"literal before the action":  {[]string{"x", "--p={{ .prompt }}", "-{{ .prompt }}"}, "-r", []string{"x", "--p=-r", "--r"}, -1},
		"dash from a conditional":    {[]string{"x", "{{ if .prompt }}-v{{ end }}"}, "y", nil, 1},
		"dash behind an empty value": {[]string{"x", "{{ .body.nope }}-v"}, "", nil, 1},
		"the program itself":         {[]string{"{{ .prompt }}"}, "-x", nil, 0},
		"trimmed":                    {[]string{"x", "  {{- .prompt }}"}, "-x", nil, 1},
		"behind a comment":           {[]string{"x", "{{/* c */}}{{ .prompt }}"}, "-x", nil, 1},
		"dash inside":                {[]string{"x", "{{ .prompt }}"}, "a-b", []string{"x", "a-b"}, -1},
		"zero byte":                  {[]string{"x", "a", "b{{ .prompt }}"}, "a\x00b", nil, 2},
		"failing template":           {[]string{"x", "{{ range .prompt }}{{ end }}"}, "text", nil, 1},
		"body":                       {[]string{"x", "{{ .body.issue.number }}"}, "", []string{"x", "7"}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := compile(t, func(s *Spec) { s.Run.Command = c.command })
			got, err := trigger.Argv(Vars{Event: event(issuePayload, nil), Prompt: c.prompt}, PartRun)
			if c.refused < 0 {
				if err != nil || strings.Join(got, "\x01") != strings.Join(c.want, "\x01") {
					t.Errorf("got %q, %v, want %q", got, err, c.want)
				}
				return
			}
			var argument *ArgumentError
			if !errors.As(err, &argument) || argument.Index != c.refused || argument.Part != PartRun || got != nil {
				t.Fatalf("got %q, %v, want element %d refused", got, err, c.refused)
			}
			if c.prompt != "-" && len(c.prompt) > 1 && strings.Contains(err.Error(), c.prompt) {
				t.Errorf("the error holds the value: %v", err)
			}
		})
	}
}

func TestArgvParts(t *testing.T) {
	trigger := compile(t, func(s *Spec) {
		s.Run.Command = []string{"start", "{{ .run_id }}"}
		s.FollowUp = &FollowUp{Target: Target{Command: []string{"resume", "{{ .session }}", "{{ .prompt }}"}}, Limit: Rate{100, time.Hour}}
		s.Probe = &Target{Command: []string{"probe", "{{ .run_id }}", "{{ .attempt }}"}}
	})
	v := Vars{Event: event("", nil), Prompt: "P", Session: "S", RunID: "R", Attempt: 3}
	for part, want := range map[Part]string{PartRun: "start R", PartFollowUp: "resume S P", PartProbe: "probe R 3"} {
		if got, err := trigger.Argv(v, part); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, %v, want %s", part, got, err, want)
		}
	}
	http := compile(t, func(s *Spec) { s.Run = Target{HTTP: &HTTP{URL: "http://x"}} })
	for _, part := range []Part{PartRun, PartFollowUp, PartProbe} {
		if got, err := http.Argv(v, part); got != nil || err != nil {
			t.Errorf("http %s: got %q, %v", part, got, err)
		}
	}
}

// Whatever a payload says, an element that is one action never passes an option.
func TestArgvNeverPassesAnOption(t *testing.T) {
	trigger := compile(t, func(s *Spec) { s.Run.Command = []string{"x", "{{ .prompt }}", "{{ .sender }}"} })
	rapid.Check(t, func(rt *rapid.T) {
		sender := rapid.StringMatching(`[-a \n]{0,4}`).Draw(rt, "sender")
		v := Vars{Prompt: rapid.StringMatching(`[-a \n]{0,4}`).Draw(rt, "prompt"), Event: event("", func(d *queue.Delivery) { d.Sender = sender })}
		argv, err := trigger.Argv(v, PartRun)
		dashed := strings.HasPrefix(v.Prompt, "-") || strings.HasPrefix(sender, "-")
		if dashed != (err != nil) {
			rt.Fatalf("%q, %q: got %q, %v", v.Prompt, sender, argv, err)
		}
	})
}

func TestRenderRecovers(t *testing.T) {
	broken := compile(t, func(s *Spec) { s.Prompt = "{{ .body.x }}" })
	broken.prompt.template.Root.Nodes[0].(*parse.ActionNode).Pipe.Cmds[0] = nil // evaluating it panics
	if got, err := broken.Prompt(Vars{Event: event("{}", nil)}); got != "" || err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("got %q, %v", got, err)
	}
}

// Renderings that run at once keep their own account of work.
func TestRenderConcurrently(t *testing.T) {
	trigger := compile(t, func(s *Spec) { s.Prompt = "{{ range .body.x }}{{ json . }}{{ end }}" })
	ev := event(`{"x":[`+strings.Repeat("1,", 2000)+`1]}`, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got, err := trigger.Prompt(Vars{Event: ev}); err != nil || len(got) != 2001 {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
	wg.Wait()
}
