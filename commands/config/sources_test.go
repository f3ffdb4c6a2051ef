package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSources(t *testing.T) {
	c := mustLoad(t, `
apps:
  - { id: 12345, name: acme-bot, webhook_secrets: [ { name: current, env: A }, { env: B } ] }
  - { id: 6, webhook_secrets: [ { env: C } ] }
hooks:
  - { repo: Acme/Widgets, webhook_secrets: [ { env: D } ] }
  - { org: Acme, id: 4711, name: all-of-acme, token: { env: T }, webhook_secrets: [ { env: E } ] }
`, Options{LookupEnv: state("A", "a1", "B", "b1", "C", "c1", "D", "d1", "E", "e1", "T", "token", "PRELOOP_WEBHOOK_SECRET", "f1").lookup})
	one := func(name, text string) []NamedSecret { return []NamedSecret{{name, NewSecret(text)}} }
	want := []Source{
		{Key: "app-12345", Name: "acme-bot", TargetType: "integration", TargetID: 12345, Secrets: []NamedSecret{{"current", NewSecret("a1")}, {"B", NewSecret("b1")}}},
		{Key: "app-6", Name: "app-6", TargetType: "integration", TargetID: 6, Secrets: one("C", "c1")},
		{Key: "default", Name: "default", Secrets: one("PRELOOP_WEBHOOK_SECRET", "f1")},
		{Key: "hook-acme/widgets", Name: "Acme-Widgets", TargetType: "repository", Repo: "Acme/Widgets", Secrets: one("D", "d1")},
		{Key: "hook-4711", Name: "all-of-acme", TargetType: "organization", HookID: 4711, Org: "Acme", Secrets: one("E", "e1")},
	}
	if diff := cmp.Diff(want, c.Sources()); diff != "" {
		t.Error(diff)
	}
	if len(c.Warnings) != 0 {
		t.Errorf("warnings %q", c.Warnings)
	}
}

func TestAppFromVariables(t *testing.T) {
	escaped := strings.ReplaceAll(strings.TrimSpace(keyPEM()), "\n", `\n`)
	for name, tt := range map[string]struct {
		env     env
		apps    string // key name secrets key?
		wrong   []string
		warning bool
	}{
		"nothing":         {env: state(), apps: "", warning: true},
		"secret alone":    {env: state("PRELOOP_WEBHOOK_SECRET", "s1\n"), apps: "default default [PRELOOP_WEBHOOK_SECRET=s1] false"},
		"id alone":        {env: state("PRELOOP_GITHUB_APP_ID", "9"), apps: "app-9 app-9 [] false", warning: true},
		"id and secret":   {env: state("PRELOOP_GITHUB_APP_ID", "9", "PRELOOP_WEBHOOK_SECRET", "s1"), apps: "app-9 app-9 [PRELOOP_WEBHOOK_SECRET=s1] false"},
		"key":             {env: state("PRELOOP_GITHUB_APP_ID", "9", "PRELOOP_WEBHOOK_SECRET", "s1", "PRELOOP_GITHUB_APP_PRIVATE_KEY", keyPEM()), apps: "app-9 app-9 [PRELOOP_WEBHOOK_SECRET=s1] true"},
		"key on one line": {env: state("PRELOOP_GITHUB_APP_ID", "9", "PRELOOP_WEBHOOK_SECRET", "s1", "PRELOOP_GITHUB_APP_PRIVATE_KEY", escaped), apps: "app-9 app-9 [PRELOOP_WEBHOOK_SECRET=s1] true"},
		"path":            {env: state("PRELOOP_GITHUB_APP_ID", "9", "PRELOOP_WEBHOOK_SECRET", "s1", "PRELOOP_GITHUB_APP_PRIVATE_KEY_PATH", "key.pem"), apps: "app-9 app-9 [PRELOOP_WEBHOOK_SECRET=s1] true"},
		"key and path": {
			env:   state("PRELOOP_GITHUB_APP_ID", "9", "PRELOOP_GITHUB_APP_PRIVATE_KEY", keyPEM(), "PRELOOP_GITHUB_APP_PRIVATE_KEY_PATH", "key.pem"),
			wrong: []string{"PRELOOP_GITHUB_APP_PRIVATE_KEY_PATH: PRELOOP_GITHUB_APP_PRIVATE_KEY is set too: the key is in one place"},
		},
		"key without id": {
			env:   state("PRELOOP_GITHUB_APP_PRIVATE_KEY_PATH", "key.pem"),
			wrong: []string{"PRELOOP_GITHUB_APP_ID: it is not set: whose is the private key?"},
		},
		"bad id and key": {
			env: state("PRELOOP_GITHUB_APP_ID", "acme", "PRELOOP_GITHUB_APP_PRIVATE_KEY", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"),
			wrong: []string{
				`PRELOOP_GITHUB_APP_ID: "acme" is not an id (a number from 1)`,
				"PRELOOP_GITHUB_APP_PRIVATE_KEY: the private key is damaged, or not the .pem file that GitHub generated",
			},
		},
		"unreadable path": {
			env:   state("PRELOOP_GITHUB_APP_ID", "9", "PRELOOP_GITHUB_APP_PRIVATE_KEY_PATH", "gone"),
			wrong: []string{"PRELOOP_GITHUB_APP_PRIVATE_KEY_PATH: reading the secret: open gone: no such file or directory"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, "", Options{LookupEnv: tt.env.lookup})
			wantErrors(t, err, tt.wrong...)
			if err != nil || tt.wrong != nil {
				return
			}
			if got := describe(c.Apps); got != tt.apps {
				t.Errorf("apps %s, want %s", got, tt.apps)
			}
			if (len(c.Warnings) > 0) != tt.warning {
				t.Errorf("warnings %q", c.Warnings)
			}
		})
	}
}

func describe(apps []App) string {
	var all []string
	for _, a := range apps {
		var secrets []string
		for _, s := range a.WebhookSecrets {
			secrets = append(secrets, s.Name+"="+s.Value.Reveal())
		}
		has := "false"
		if a.PrivateKey.IsSet() {
			has = "true"
		}
		all = append(all, strings.Join([]string{a.Key(), a.Name, "[" + strings.Join(secrets, " ") + "]", has}, " "))
	}
	return strings.Join(all, "; ")
}

func TestAppsJSON(t *testing.T) {
	pem, err := json.Marshal(keyPEM())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		json string
		file string
		apps string
		want []string
	}{
		"two": {
			json: `[{"id":1,"name":"one","private_key":` + string(pem) + `,"webhook_secret":"s1"},
			        {"id":"2","client_id":"Iv1","private_key_path":"key.pem","webhook_secrets":[{"name":"new","secret":"s2"},{"secret":"s3\n"}]}]`,
			apps: "app-1 one [webhook_secret=s1] true; app-2 app-2 [new=s2 webhook_secrets[1]=s3] true",
		},
		"none": {json: "[]", apps: ""},
		"over the file": {
			json: `[{"id":1,"webhook_secret":"env-secret"},{"id":3,"name":"three","webhook_secret":"s3"}]`,
			file: "apps: [ { id: 1, name: filed, private_key: { file: key.pem }, webhook_secrets: [ { env: A } ] }, { id: 2, webhook_secrets: [ { env: B } ] } ]\n",
			apps: "app-1 filed [webhook_secret=env-secret] true; app-2 app-2 [B=fb] false; app-3 three [webhook_secret=s3] false",
		},
		"no JSON":     {json: `[{"webhook_secret": hunter2}]`, want: []string{`PRELOOP_GITHUB_APPS_JSON: this is not JSON, from byte 21 on; want [{"id": 1, "private_key_path": "…", "webhook_secret": "…"}, …]`}},
		"unknown key": {json: `[{"id":1,"secret":"hunter2"}]`, want: []string{`PRELOOP_GITHUB_APPS_JSON: unknown field "secret"`}},
		"wrong kind":  {json: `[{"id":1,"webhook_secrets":"hunter2"}]`, want: []string{`PRELOOP_GITHUB_APPS_JSON: the value of "webhook_secrets" is of the wrong kind; want [{"id": 1, "private_key_path": "…", "webhook_secret": "…"}, …]`}},
		"an object":   {json: `{"id":1}`, want: []string{`PRELOOP_GITHUB_APPS_JSON: this is not an array of objects; want [{"id": 1, "private_key_path": "…", "webhook_secret": "…"}, …]`}},
		"a tail":      {json: `[] hunter2`, want: []string{`PRELOOP_GITHUB_APPS_JSON: something is wrong near byte 3; want [{"id": 1, "private_key_path": "…", "webhook_secret": "…"}, …]`}},
		"cut off":     {json: `[{"id":1,"webhook_secret":"hunter2`, want: []string{`PRELOOP_GITHUB_APPS_JSON: the JSON ends too early; want [{"id": 1, "private_key_path": "…", "webhook_secret": "…"}, …]`}},
		"wrong values": {
			json: `[{"name":"a b"},{"id":1,"private_key":"hunter2","webhook_secrets":[{"name":"x","secret":"\n"}]},{"id":1,"private_key":"x","private_key_path":"y","webhook_secret":"a1","webhook_secrets":[{"name":"webhook_secret","secret":"a2"}]}]`,
			want: []string{
				`PRELOOP_GITHUB_APPS_JSON[0].id: "" is not an id (a number from 1)`,
				`PRELOOP_GITHUB_APPS_JSON[0].name: "a b" is not a name of letters, digits, dot, dash and underscore`,
				`PRELOOP_GITHUB_APPS_JSON[1].private_key: this is no private key: want the .pem file that GitHub generated`,
				`PRELOOP_GITHUB_APPS_JSON[1].webhook_secrets[0]: the secret is empty`,
				`PRELOOP_GITHUB_APPS_JSON[2].private_key_path: private_key is given too: the key is in one place`,
				`PRELOOP_GITHUB_APPS_JSON[2].webhook_secrets[0]: the name "webhook_secret" is taken`,
				`PRELOOP_GITHUB_APPS_JSON[2]: the app "app-1" is already PRELOOP_GITHUB_APPS_JSON[1]`,
				`PRELOOP_GITHUB_APPS_JSON[2]: the name "app-1" is already PRELOOP_GITHUB_APPS_JSON[1]`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, tt.file, Options{LookupEnv: state("PRELOOP_GITHUB_APPS_JSON", tt.json, "A", "fa", "B", "fb").lookup})
			wantErrors(t, err, tt.want...)
			if err == nil && tt.want == nil {
				if got := describe(c.Apps); got != tt.apps {
					t.Errorf("apps %s, want %s", got, tt.apps)
				}
			}
		})
	}
}

func TestTheEnvironmentsAppOverTheFiles(t *testing.T) {
	const file = "apps: [ { id: 1, name: filed, webhook_secrets: [ { name: old, env: A } ] } ]\n"
	e := state("A", "fa", "PRELOOP_GITHUB_APP_ID", "1", "PRELOOP_WEBHOOK_SECRET", "s1", "PRELOOP_GITHUB_APP_PRIVATE_KEY_PATH", "key.pem")
	if got, want := describe(mustLoad(t, file, Options{LookupEnv: e.lookup}).Apps), "app-1 filed [PRELOOP_WEBHOOK_SECRET=s1] true"; got != want {
		t.Errorf("apps %s, want %s", got, want)
	}
	e["PRELOOP_GITHUB_APP_ID"] = "2"
	if got, want := describe(mustLoad(t, file, Options{LookupEnv: e.lookup}).Apps), "app-1 filed [old=fa] false; app-2 app-2 [PRELOOP_WEBHOOK_SECRET=s1] true"; got != want {
		t.Errorf("apps %s, want %s", got, want)
	}
}

// A file that names a variable has the use of it.
func TestAVariableThatTheFileNames(t *testing.T) {
	c := mustLoad(t, "apps: [ { id: 1, webhook_secrets: [ { env: PRELOOP_WEBHOOK_SECRET } ] } ]\n",
		Options{LookupEnv: state("PRELOOP_WEBHOOK_SECRET", "s1").lookup})
	if got, want := describe(c.Apps), "app-1 app-1 [PRELOOP_WEBHOOK_SECRET=s1] false"; got != want {
		t.Errorf("apps %s, want %s", got, want)
	}
}
