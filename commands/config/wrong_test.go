package config

import (
	"strings"
	"testing"
)

// run is a trigger that is right, to be spoilt.
const run = "\n    on: push\n    run: { command: [make] }\n"

func TestWrongFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		env  env
		want []string
	}{
		"unknown key at the top": {
			text: "listn: x\n",
			want: []string{`preloop.yaml:1:1: listn: unknown key; did you mean "listen"?`},
		},
		"unknown key far from all": {
			text: "colour: red\n",
			want: []string{`preloop.yaml:1:1: colour: unknown key`},
		},
		"unknown key in a trigger": {
			text: "triggers:\n  - name: a\n    no: push\n    fi: true\n    run: { comand: [x] }\n",
			want: []string{
				`preloop.yaml:3:5: triggers[0].no: unknown key; did you mean "on"?`,
				`preloop.yaml:4:5: triggers[0].fi: unknown key; did you mean "if"?`,
				`preloop.yaml:5:12: triggers[0].run.comand: unknown key; did you mean "command"?`,
			},
		},
		"everything at once": {
			text: "listen: nowhere\nqueue:\n  workers: 0\n  lease: soon\nwatchdog: { every: 5s }\nbogus: 1\n",
			env:  state("PRELOOP_PUBLIC_URL", "ftp://x", "PRELOOP_GITHUB_BREAKER_THRESHOLD", "none"),
			want: []string{
				`PRELOOP_PUBLIC_URL: want a URL like https://host/path`,
				`PRELOOP_GITHUB_BREAKER_THRESHOLD: "none" is not a whole number`,
				`preloop.yaml:1:9: listen: "nowhere" is not an address like 127.0.0.1:9090`,
				`preloop.yaml:3:12: queue.workers: 0 is below the least, 1`,
				`preloop.yaml:4:10: queue.lease: "soon" is not a duration like 500ms, 30s, 5m or 72h`,
				`preloop.yaml:5:20: watchdog.every: 5s is below the floor of 10s`,
				`preloop.yaml:6:1: bogus: unknown key`,
			},
		},
		"duplicate key": {
			text: "listen: :1\npublic_url: https://a\nlisten: :2\n",
			want: []string{"preloop.yaml:3:1: listen: given twice, first on line 1"},
		},
		"wrong shapes": {
			text: "queue: 5\napps: { id: 1 }\nlisten: [a]\nretention: []\nhooks: none\n",
			want: []string{
				"preloop.yaml:1:8: queue: want a mapping (key: value), not one value",
				"preloop.yaml:2:7: apps: want a list, not a mapping",
				"preloop.yaml:3:9: listen: want one value, not a list",
				"preloop.yaml:4:12: retention: want a mapping (key: value), not a list",
				"preloop.yaml:5:8: hooks: want a list, not one value",
			},
		},
		"missing value": {
			text: "listen:\nqueue:\n  lease: ~\n",
			want: []string{"preloop.yaml:1:1: listen: a value is missing", "preloop.yaml:3:3: queue.lease: a value is missing"},
		},
		"a list": {
			text: "- a\n",
			want: []string{"preloop.yaml:1:1: want a mapping (key: value), not a list"},
		},
		"no YAML": {
			text: "listen: 'x\n",
			want: []string{"preloop.yaml:1:9: could not find end character of single-quoted text"},
		},
		"two documents": {
			text: "listen: :1\n---\nlisten: :2\n",
			want: []string{"preloop.yaml:3:1: a second document: the configuration is one"},
		},
		"tag": {
			text: "listen: !!str :1\n",
			want: []string{"preloop.yaml:1:9: listen: want one value, not a tag"},
		},
		"merge key": {
			text: "queue: &q { lease: 30s }\nretention:\n  <<: *q\n",
			want: []string{"preloop.yaml:3:3: retention.<<: merge keys are not supported: write the keys out"},
		},
		"alias to nowhere": {
			text: "queue: *q\n",
			want: []string{"preloop.yaml:1:8: there is no such anchor"},
		},
		"alias to itself": {
			text: "queue: &q *q\n",
			want: []string{"preloop.yaml:1:11: unexpected scalar value type"},
		},
		"floors": {
			text: "app_monitor: { every: 59s }\nqueue: { lease: 999ms, backoff: [] }\nwatchdog:\n  every: 9999ms\n  backoff: [1s, -1s]\n",
			want: []string{
				"preloop.yaml:1:23: app_monitor.every: 59s is below the floor of 1m",
				"preloop.yaml:2:17: queue.lease: 999ms is below the floor of 1s",
				"preloop.yaml:2:33: queue.backoff: want at least one wait",
				"preloop.yaml:4:10: watchdog.every: 9.999s is below the floor of 10s",
				"preloop.yaml:5:17: watchdog.backoff[1]: -1s is below the floor of 0s",
			},
		},
		"renew not below lease": {
			text: "queue: { lease: 10s, renew: 10s }\n",
			want: []string{"preloop.yaml:1:29: queue.renew: 10s is not below the lease of 10s: it would be lost before it is renewed"},
		},
		"renew above the default lease": {
			text: "queue: { renew: 1m30s }\n",
			want: []string{"preloop.yaml:1:17: queue.renew: 1m30s is not below the lease of 1m: it would be lost before it is renewed"},
		},
		"breaker upside down": {
			text: "breaker: { open: 1h, max_open: 5m }\n",
			want: []string{"preloop.yaml:1:32: breaker.max_open: 5m is below breaker.open, 1h"},
		},
		"memory below a body": {
			text: "ingress: { max_body: 1GiB }\n",
			want: []string{"preloop.yaml:1:22: ingress.max_body: memory (268435456 bytes) is below max_body (1073741824 bytes): the largest body would never fit"},
		},
		"sizes": {
			text: "ingress: { max_body: 25mb, memory: -1 }\n",
			want: []string{
				`preloop.yaml:1:22: ingress.max_body: "25mb" is not a size like 64KiB, 25MiB or 1GiB`,
				`preloop.yaml:1:36: ingress.memory: "-1" is not a size like 64KiB, 25MiB or 1GiB`,
			},
		},
		"plain http to GitHub": {
			text: "github_api_url: http://github.example.com/api/v3\n",
			want: []string{"preloop.yaml:1:17: github_api_url: plain http is for a loopback address only: use https"},
		},
		"URLs": {
			text: "public_url: https://me:secret@host\nstore: mysql://x\nstore_listen: sqlite:///x\n",
			want: []string{
				"preloop.yaml:1:13: public_url: the URL holds credentials: they do not belong there",
				"preloop.yaml:2:8: store: want sqlite://PATH or postgres://HOST/DATABASE",
				"preloop.yaml:3:15: store_listen: only Postgres has listeners: want postgres://HOST/DATABASE",
			},
		},
		"listeners of SQLite": {
			text: "store_listen: postgres://db/x\n",
			want: []string{"preloop.yaml:1:15: store_listen: only a Postgres store has listeners"},
		},
		"short system token": {
			text: "system_token: { env: T }\n",
			env:  state("T", "only-23-characters-long"),
			want: []string{"preloop.yaml:1:22: system_token.env: a system token has at least 24 characters"},
		},
		"inline secrets": {
			text: "system_token: 0123456789abcdef01234567\napps:\n  - id: 1\n    private_key: abc\n    webhook_secrets: [ abc, { secret: abc } ]\n",
			want: []string{
				"preloop.yaml:1:15: system_token: a secret is never written here: use {env: NAME} or {file: PATH}",
				"preloop.yaml:4:18: apps[0].private_key: a secret is never written here: use {env: NAME} or {file: PATH}",
				"preloop.yaml:5:24: apps[0].webhook_secrets[0]: a secret is never written here: use {env: NAME} or {file: PATH}",
				"preloop.yaml:5:31: apps[0].webhook_secrets[1].secret: unknown key",
			},
		},
		"secrets that are not there": {
			text: "apps:\n  - id: 1\n    private_key: { file: gone.pem }\n    webhook_secrets:\n      - { env: GONE }\n      - { env: EMPTY }\n      - { file: empty }\n      - { name: x }\n      - { env: A, file: b }\n      - { env: 'a b' }\n",
			env:  state("EMPTY", "\n"),
			want: []string{
				"preloop.yaml:3:26: apps[0].private_key.file: reading the secret: open gone.pem: no such file or directory",
				"preloop.yaml:5:16: apps[0].webhook_secrets[0].env: the environment variable GONE is not set",
				"preloop.yaml:6:16: apps[0].webhook_secrets[1].env: the environment variable EMPTY is empty",
				"preloop.yaml:7:17: apps[0].webhook_secrets[2].file: reading the secret: open empty: no such file or directory",
				"preloop.yaml:8:9: apps[0].webhook_secrets[3]: where is the secret? use {env: NAME} or {file: PATH}",
				"preloop.yaml:9:9: apps[0].webhook_secrets[4]: both env and file: a secret is in one place",
				`preloop.yaml:10:16: apps[0].webhook_secrets[5].env: "a b" is not the name of an environment variable`,
			},
		},
		"no key": {
			text: "apps:\n  - id: 1\n    private_key: { file: preloop.yaml }\n",
			want: []string{"preloop.yaml:3:26: apps[0].private_key.file: this is no private key: want the .pem file that GitHub generated"},
		},
		"apps": {
			text: "apps:\n  - name: a/b\n  - id: zero\n  - id: 7\n    webhook_secrets: [ { name: x, env: S }, { name: x, env: S } ]\n  - id: 7\n    name: app-7\n",
			env:  state("S", "secret"),
			want: []string{
				"preloop.yaml:2:5: apps[0]: id is missing: the number on the app's settings page",
				`preloop.yaml:2:11: apps[0].name: "a/b" is not a name of letters, digits, dot, dash and underscore`,
				`preloop.yaml:3:9: apps[1].id: "zero" is not an id (a number from 1)`,
				`preloop.yaml:5:45: apps[2].webhook_secrets[1]: the name "x" is taken by apps[2].webhook_secrets[0]`,
				`preloop.yaml:6:9: apps[3].id: the app "app-7" is already apps[2]`,
				`preloop.yaml:7:11: apps[3].name: the name "app-7" is already apps[2]`,
			},
		},
		"hooks": {
			text: "hooks:\n  - id: 1\n  - { repo: a/b, org: a, webhook_secrets: [ { env: S } ] }\n  - { repo: acme, webhook_secrets: [ { env: S2 } ] }\n",
			env:  state("S", "one", "S2", "two"),
			want: []string{
				"preloop.yaml:2:5: hooks[0]: repo or org is missing",
				"preloop.yaml:2:5: hooks[0]: webhook_secrets is missing: nothing could be verified",
				"preloop.yaml:3:5: hooks[1]: both repo and org: a webhook belongs to one",
				`preloop.yaml:4:13: hooks[2].repo: "acme" is not a repository like acme/widgets`,
			},
		},
		"shared secret": {
			text: "apps:\n  - id: 1\n    webhook_secrets: [ { name: a, env: A } ]\nhooks:\n  - repo: o/r\n    webhook_secrets: [ { name: b, env: B } ]\n",
			env:  state("A", "same-secret", "B", "same-secret\n"),
			want: []string{`preloop.yaml:6:22: hooks[0].webhook_secrets: secret "b" of o-r is also a secret of apps[0]: each source needs its own`},
		},
		"shared with the environment": {
			text: "apps:\n  - id: 1\n    webhook_secrets: [ { env: A } ]\n",
			env:  state("A", "same-secret", "PRELOOP_WEBHOOK_SECRET", "same-secret"),
			want: []string{`PRELOOP_WEBHOOK_SECRET: secret "PRELOOP_WEBHOOK_SECRET" of default is also a secret of apps[0]: each source needs its own`},
		},
		"an empty trigger": {
			text: "triggers:\n  - {}\n",
			want: []string{
				"preloop.yaml:2:5: triggers[0]: name is missing",
				"preloop.yaml:2:5: triggers[0]: on is missing",
				"preloop.yaml:2:5: triggers[0]: run is missing",
			},
		},
		"trigger words": {
			text: "triggers:\n  - name: No Spaces\n    on: []\n    permission: writer\n    serialize: repos\n    concurrency: 0\n    loop_limit: 20\n    queue: { size: 0, wait: 0 }\n    bots: maybe\n    run: { command: [], timeout: 1 }\n",
			want: []string{
				`preloop.yaml:2:11: triggers[0].name: "No Spaces" is not a name of a-z, 0-9 and dash`,
				`preloop.yaml:3:9: triggers[0].on: want at least one event`,
				`preloop.yaml:4:17: triggers[0].permission: "writer" is not one of none, read, triage, write, maintain, admin; did you mean "write"?`,
				`preloop.yaml:5:16: triggers[0].serialize: "repos" is not one of none, subject, repo; did you mean "repo"?`,
				`preloop.yaml:6:18: triggers[0].concurrency: 0 is below the least, 1`,
				`preloop.yaml:7:17: triggers[0].loop_limit: "20" is not a rate like 20/1h (over at least 1s), or none`,
				`preloop.yaml:8:20: triggers[0].queue.size: 0 is below the least, 1`,
				`preloop.yaml:8:29: triggers[0].queue.wait: 0s is below the floor of 10ms`,
				`preloop.yaml:9:11: triggers[0].bots: "maybe" is neither true (on) nor false (off)`,
				`preloop.yaml:10:21: triggers[0].run.command: want a program and its arguments, like [make, deploy]`,
				`preloop.yaml:10:34: triggers[0].run.timeout: "1" is not a duration like 500ms, 30s, 5m or 72h`,
			},
		},
		"targets": {
			text: "triggers:\n  - name: a\n    on: push\n    run:\n      command: [x]\n      http: { url: https://x }\n    follow_up: { session: mine, http: { url: nowhere, body: envelope } }\n    probe:\n      timeout: 1s\n",
			want: []string{
				"preloop.yaml:6:13: triggers[0].run.http: both command and http: a target is one of them",
				`preloop.yaml:7:27: triggers[0].follow_up.session: "mine" is not one of reported`,
				"preloop.yaml:7:46: triggers[0].follow_up.http.url: want a URL like https://host/path",
				"preloop.yaml:7:55: triggers[0].follow_up.http.body: unknown key",
				"preloop.yaml:9:7: triggers[0].probe: command or http is missing",
			},
		},
		"headers": {
			text: "triggers:\n  - name: a\n    on: push\n    run:\n      timeout: 1m\n      http:\n        timeout: 1m\n        url: https://x\n        headers: { 'a b': x, X-A: \"a\\nb\", X-B: { env: GONE } }\n",
			want: []string{
				"preloop.yaml:5:16: triggers[0].run.timeout: given twice, here and in http",
				"preloop.yaml:9:20: triggers[0].run.http.headers.a b: this is not the name of a header",
				"preloop.yaml:9:35: triggers[0].run.http.headers.X-A: a header is one line",
				"preloop.yaml:9:55: triggers[0].run.http.headers.X-B.env: the environment variable GONE is not set",
			},
		},
		"same name twice": {
			text: "triggers:\n  - name: a" + run + "  - name: a" + run,
			want: []string{`preloop.yaml:5:11: triggers[1].name: "a" is already the name of triggers[0]`},
		},
		"unknown source": {
			text: "apps: [ { id: 1, name: acme-bot } ]\ntriggers:\n  - name: a\n    sources: [acme-bot, acme-bott]" + run,
			want: []string{`preloop.yaml:4:25: triggers[0].sources[1]: there is no source "acme-bott"; did you mean "acme-bot"?`},
		},
		"above the ceilings": {
			text: "triggers:\n  - name: a\n    concurrency: 11\n    queue:\n      size: 201\n      wait: 73h" + run + "limits: { concurrency: 10, queue_size: 200, queue_wait: 72h }\n",
			want: []string{
				"preloop.yaml:3:18: triggers[0].concurrency: 11 is above limits.concurrency, 10",
				"preloop.yaml:5:13: triggers[0].queue.size: 201 is above limits.queue_size, 200",
				"preloop.yaml:6:13: triggers[0].queue.wait: 73h is above limits.queue_wait, 72h",
			},
		},
		"coalesce with follow_up": {
			text: "triggers:\n  - name: a\n    coalesce: subject\n    follow_up: { command: [x] }" + run,
			want: []string{"preloop.yaml:3:15: triggers[0].coalesce: coalesce and follow_up contradict each other: the one drops the event that the other hands over"},
		},
		"a token that can write": {
			text: "triggers:\n  - name: a\n    github_token: { contents: read, issues: write }" + run,
			want: []string{"preloop.yaml:3:19: triggers[0].github_token: a token that can write needs permission: the sender's least role, or none if anyone may"},
		},
		"token levels": {
			text: "triggers:\n  - name: a\n    github_token: { pull-requests: read, issues: admin }" + run + "  - name: b\n    github_token: {}" + run,
			want: []string{
				"preloop.yaml:3:21: triggers[0].github_token.pull-requests: want a permission as GitHub's API spells it, like pull_requests",
				`preloop.yaml:3:50: triggers[0].github_token.issues: "admin" is not one of read, write`,
				"preloop.yaml:7:19: triggers[1].github_token: want at least one permission, like contents: read",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{LookupEnv: state().lookup}
			if tt.env != nil {
				o.LookupEnv = tt.env.lookup
			}
			_, err := load(t, tt.text, o)
			wantErrors(t, err, tt.want...)
		})
	}
}

// What CEL, globs and templates say is theirs; the place is the configuration's.
func TestCompileErrorsHavePlaces(t *testing.T) {
	_, err := load(t, `triggers:
  - name: a
    on:
      - push
      - issues.
    if: evnt == "push"
    repos: [acme]
    prompt: |
      {{ .x
    run:
      command:
        - make
        - '{{ end }}'
`, Options{})
	lines := strings.Split(err.Error(), "\n")
	want := []string{
		"preloop.yaml:5:9: triggers[0].on[1]: ",
		"preloop.yaml:6:9: triggers[0].if: 1:1: undeclared reference to 'evnt'",
		"preloop.yaml:7:13: triggers[0].repos[0]: ",
		"preloop.yaml:8:13: triggers[0].prompt: ",
		"preloop.yaml:13:11: triggers[0].run.command[1]: ",
	}
	if len(lines) != len(want) {
		t.Fatalf("%d errors, want %d:\n%v", len(lines), len(want), err)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("got  %s\nwant %s…", line, want[i])
		}
	}
}
