package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-de999ace/preloop/queue/trigger"
)

var ignored = cmpopts.IgnoreUnexported(Config{}, App{}, Hook{})

func TestDefaults(t *testing.T) {
	inDir(t, nil)
	got, err := Load(Options{LookupEnv: state().lookup})
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Listen:       "127.0.0.1:9090",
		Store:        StoreURL{Kind: SQLite, Path: "/home/me/.local/state/preloop/preloop.db"},
		StateDir:     "/home/me/.local/state/preloop",
		GitHubAPIURL: "https://api.github.com",
		SessionTTL:   72 * time.Hour,
		Queue: Queue{
			Workers: 8, Lease: 60 * time.Second, Renew: 20 * time.Second, MaxAttempts: 6,
			Backoff: []time.Duration{1e9, 5e9, 15e9, 30e9, 30e9},
			Poll:    5 * time.Second, NotifyCoalesce: 15 * time.Millisecond, MaxOutages: 20, KillAfter: 10 * time.Second,
		},
		Retention: Retention{Keep: 720 * time.Hour, Every: 300 * time.Second, Batch: 256},
		Watchdog: Watchdog{
			Enabled: true, Redeliver: true, Every: 300 * time.Second, Grace: 120 * time.Second, MaxAttempts: 5, MaxPages: 5,
			Backoff: []time.Duration{0, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour}, Pace: time.Second, Budget: 100,
		},
		Breaker: Breaker{
			Enabled: true, Threshold: 3, Open: 30 * time.Second, MaxOpen: 300 * time.Second, Probe: 60 * time.Second,
			RateLimitDefault: 60 * time.Second,
		},
		AppMonitor: AppMonitor{Every: 900 * time.Second},
		Ingress: Ingress{
			MaxBody: 25 * 1024 * 1024, Memory: 256 * 1024 * 1024, Budget: 8 * time.Second, Attempts: 2,
			AttemptTimeout: 4 * time.Second, RetryDelay: 50 * time.Millisecond, ReadTimeout: 30 * time.Second,
		},
		ShutdownGrace: 30 * time.Second,
		Components:    []string{"ingress", "worker", "watchdog", "app-monitor", "prune"},
		Warnings:      []string{"no webhook secret is configured: every delivery is refused; set PRELOOP_WEBHOOK_SECRET"},
	}
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Error(diff)
	}
}

func TestTriggerDefaults(t *testing.T) {
	c := mustLoad(t, `
triggers:
  - { name: a, on: push, run: { command: [make] }, follow_up: { http: { url: "http://x" } }, probe: { command: [ok] } }
`, Options{})
	want := trigger.Spec{
		Name: "a", On: []string{"push"}, Enabled: true, Concurrency: 1, Serialize: "none", Coalesce: "none",
		LoopLimit: trigger.Rate{Count: 20, Per: time.Hour}, QueueSize: 50, QueueWait: 24 * time.Hour, UncertainAfter: 24 * time.Hour,
		Run: trigger.Target{Command: []string{"make"}, Timeout: time.Hour},
		FollowUp: &trigger.FollowUp{
			Target: trigger.Target{HTTP: &trigger.HTTP{URL: "http://x", Envelope: true}, Timeout: 10 * time.Minute},
			Limit:  trigger.Rate{Count: 100, Per: time.Hour},
		},
		Probe: &trigger.Target{Command: []string{"ok"}, Timeout: time.Minute},
	}
	if diff := cmp.Diff(want, c.Triggers[0]); diff != "" {
		t.Error(diff)
	}
	if len(c.Compiled) != 1 || c.Compiled[0] == nil {
		t.Errorf("compiled: %v", c.Compiled)
	}
}

func TestEveryTriggerKey(t *testing.T) {
	c := mustLoad(t, `
triggers:
  - name: a
    on: [issues.opened, push]
    repos: [acme/*, "!acme/secret"]
    if: >-
      event ==
      "push"
    paths: [src/**]
    enabled: off
    permission: none
    bots: true
    max_age: 3d
    concurrency: 2
    serialize: repo
    coalesce: none
    loop_limit: none
    queue: { size: 5, wait: 1h }
    idempotent: true
    uncertain_after: 2h
    github_token: { contents: write }
    prompt: |
      {{ .event }}
    run:
      http:
        url: https://x/y?z=1
        headers: { X-Team: api, Authorization: { env: AUTH } }
        secret: { env: S }
        timeout: 2m
        body: envelope
    follow_up:
      command: [x]
      timeout: 3m
      session: reported
      limit: 5/1m
    probe: { http: { url: https://x, timeout: 1s } }
`, Options{LookupEnv: state("AUTH", "Bearer abcdef", "S", "target-secret").lookup})
	want := trigger.Spec{
		Name: "a", On: []string{"issues.opened", "push"}, Repos: []string{"acme/*", "!acme/secret"}, If: `event == "push"`,
		Paths: []string{"src/**"}, Permission: "none", Bots: true, MaxAge: 72 * time.Hour, Concurrency: 2, Serialize: "repo",
		Coalesce: "none", QueueSize: 5, QueueWait: time.Hour, Idempotent: true, UncertainAfter: 2 * time.Hour,
		GitHubToken: map[string]string{"contents": "write"}, Prompt: "{{ .event }}\n",
		Run: trigger.Target{Timeout: 2 * time.Minute, HTTP: &trigger.HTTP{
			URL: "https://x/y?z=1", Headers: map[string]string{"X-Team": "api", "Authorization": "Bearer abcdef"},
			Secret: []byte("target-secret"), Envelope: true,
		}},
		FollowUp: &trigger.FollowUp{
			Target: trigger.Target{Command: []string{"x"}, Timeout: 3 * time.Minute}, Reported: true,
			Limit: trigger.Rate{Count: 5, Per: time.Minute},
		},
		Probe: &trigger.Target{HTTP: &trigger.HTTP{URL: "https://x"}, Timeout: time.Second},
	}
	if diff := cmp.Diff(want, c.Triggers[0]); diff != "" {
		t.Error(diff)
	}
}

func TestCeilingsLowerDefaults(t *testing.T) {
	c := mustLoad(t, "limits: { queue_size: 7, queue_wait: 1h }\ntriggers:\n  - name: a"+run, Options{})
	if got := c.Triggers[0]; got.QueueSize != 7 || got.QueueWait != time.Hour {
		t.Errorf("size %d, wait %s", got.QueueSize, got.QueueWait)
	}
	c = mustLoad(t, "limits: { concurrency: 3, queue_size: 99, queue_wait: 99h }\ntriggers:\n  - name: a\n    concurrency: 3"+run, Options{})
	if got := c.Triggers[0]; got.QueueSize != 50 || got.QueueWait != 24*time.Hour || got.Concurrency != 3 {
		t.Errorf("size %d, wait %s, concurrency %d", got.QueueSize, got.QueueWait, got.Concurrency)
	}
}

func TestDependentDefaults(t *testing.T) {
	if c := mustLoad(t, "queue: { lease: 3s }\n", Options{}); c.Queue.Renew != time.Second {
		t.Errorf("renew %s beside a lease of 3s", c.Queue.Renew)
	}
	if c := mustLoad(t, "breaker: { max_open: 1s }\n", Options{}); c.Breaker.Open != time.Second {
		t.Errorf("open %s below a ceiling of 1s", c.Breaker.Open)
	}
	if c := mustLoad(t, "breaker: { open: 1h }\n", Options{}); c.Breaker.MaxOpen != time.Hour {
		t.Errorf("ceiling %s above an open interval of 1h", c.Breaker.MaxOpen)
	}
}

// Flags win over the environment, the environment over the file, the file over the default.
func TestPrecedence(t *testing.T) {
	const long = "0123456789abcdef01234567"
	for _, tt := range []struct {
		variable, inEnv string
		file            string
		flags           Flags
		get             func(*Config) any
		want            [4]any // default, file, environment, flag (nil: there is none)
	}{
		{
			"PRELOOP_LISTEN", "127.0.0.1:2", "listen: 127.0.0.1:1",
			Flags{Listen: "127.0.0.1:3"},
			func(c *Config) any { return c.Listen },
			[4]any{"127.0.0.1:9090", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"},
		},
		{
			"", "", "operator_listen: :1",
			Flags{OperatorListen: ":3"},
			func(c *Config) any { return c.OperatorListen },
			[4]any{"", ":1", nil, ":3"},
		},
		{
			"PRELOOP_STORE_URL", "postgres://db/x", "store: sqlite:///file",
			Flags{Store: "sqlite:///flag"},
			func(c *Config) any { return c.Store.String() },
			[4]any{"sqlite:///home/me/.local/state/preloop/preloop.db", "sqlite:///file", "postgres://db/x", "sqlite:///flag"},
		},
		{
			"PRELOOP_PUBLIC_URL", "https://env/", "public_url: https://file",
			Flags{PublicURL: "https://flag/x/"},
			func(c *Config) any { return c.PublicURL },
			[4]any{"", "https://file", "https://env", "https://flag/x"},
		},
		{
			"PRELOOP_SYSTEM_TOKEN", long + "e", "system_token: { env: LONG }",
			Flags{},
			func(c *Config) any { return c.SystemToken.Reveal() },
			[4]any{"", long, long + "e", nil},
		},
		{
			"PRELOOP_SERVER_URL", "http://env:1", "",
			Flags{Server: "http://flag:1"},
			func(c *Config) any { return c.ServerURL },
			[4]any{"", nil, "http://env:1", "http://flag:1"},
		},
		{
			"PRELOOP_GITHUB_API_URL", "http://127.0.0.1:1/api", "github_api_url: https://ghe/api/v3/",
			Flags{},
			func(c *Config) any { return c.GitHubAPIURL },
			[4]any{"https://api.github.com", "https://ghe/api/v3", "http://127.0.0.1:1/api", nil},
		},
		{
			"PRELOOP_WEBHOOK_WATCHDOG", "ON", "watchdog: { enabled: false }",
			Flags{},
			func(c *Config) any { return c.Watchdog.Enabled },
			[4]any{true, false, true, nil},
		},
		{
			"PRELOOP_WEBHOOK_WATCHDOG_INTERVAL_SECS", "10", "watchdog: { every: 1m }",
			Flags{},
			func(c *Config) any { return c.Watchdog.Every },
			[4]any{5 * time.Minute, time.Minute, 10 * time.Second, nil},
		},
		{
			"PRELOOP_WEBHOOK_WATCHDOG_GRACE_SECS", "0", "watchdog: { grace: 1m }",
			Flags{},
			func(c *Config) any { return c.Watchdog.Grace },
			[4]any{2 * time.Minute, time.Minute, time.Duration(0), nil},
		},
		{
			"PRELOOP_WEBHOOK_WATCHDOG_MAX_ATTEMPTS", "8", "watchdog: { max_attempts: 7 }",
			Flags{},
			func(c *Config) any { return c.Watchdog.MaxAttempts },
			[4]any{5, 7, 8, nil},
		},
		{
			"PRELOOP_WEBHOOK_WATCHDOG_MAX_PAGES", "8", "watchdog: { max_pages: 7 }",
			Flags{},
			func(c *Config) any { return c.Watchdog.MaxPages },
			[4]any{5, 7, 8, nil},
		},
		{
			"PRELOOP_GITHUB_BREAKER", "off", "breaker: { enabled: on }",
			Flags{},
			func(c *Config) any { return c.Breaker.Enabled },
			[4]any{true, true, false, nil},
		},
		{
			"PRELOOP_GITHUB_BREAKER_THRESHOLD", "9", "breaker: { threshold: 7 }",
			Flags{},
			func(c *Config) any { return c.Breaker.Threshold },
			[4]any{3, 7, 9, nil},
		},
		{
			"PRELOOP_WEBHOOK_HEALTH_INTERVAL_SECS", "60", "app_monitor: { every: 1h }",
			Flags{},
			func(c *Config) any { return c.AppMonitor.Every },
			[4]any{15 * time.Minute, time.Hour, time.Minute, nil},
		},
		{
			"", "", "",
			Flags{Components: "worker, prune,worker"},
			func(c *Config) any { return strings.Join(c.Components, " ") },
			[4]any{"ingress worker watchdog app-monitor prune", nil, nil, "worker prune"},
		},
	} {
		name := tt.variable
		if name == "" {
			name = tt.file + tt.flags.Components
		}
		t.Run(name, func(t *testing.T) {
			base := state("LONG", long)
			check := func(layer int, file string, e env, f Flags) {
				t.Helper()
				if tt.want[layer] == nil {
					return
				}
				c := mustLoad(t, file, Options{LookupEnv: e.lookup, Flags: f})
				if got := tt.get(c); !reflect.DeepEqual(got, tt.want[layer]) {
					t.Errorf("layer %d: got %v, want %v", layer, got, tt.want[layer])
				}
			}
			check(0, "", base, Flags{})
			check(1, tt.file, base, Flags{})
			check(2, tt.file, state("LONG", long, tt.variable, tt.inEnv), Flags{})
			check(3, tt.file, state("LONG", long, tt.variable, tt.inEnv), tt.flags)
			check(1, tt.file, state("LONG", long, tt.variable, ""), Flags{}) // an empty variable is unset
		})
	}
}

func TestWrongVariablesAndFlags(t *testing.T) {
	_, err := load(t, "", Options{
		LookupEnv: state(
			"PRELOOP_LISTEN", "9090", "PRELOOP_STORE_URL", "postgres://u:pass word@h/db", "PRELOOP_SYSTEM_TOKEN", "short-token",
			"PRELOOP_GITHUB_API_URL", "http://10.0.0.1", "PRELOOP_WEBHOOK_WATCHDOG", "maybe",
			"PRELOOP_WEBHOOK_WATCHDOG_INTERVAL_SECS", "9", "PRELOOP_WEBHOOK_WATCHDOG_GRACE_SECS", "2m",
			"PRELOOP_WEBHOOK_HEALTH_INTERVAL_SECS", "59").lookup,
		Flags: Flags{OperatorListen: "x:http", Components: "worker,wacthdog"},
	})
	wantErrors(t, err,
		`PRELOOP_LISTEN: "9090" is not an address like 127.0.0.1:9090`,
		`PRELOOP_STORE_URL: this is not a URL: in a password, write @ : / ? # % as %40 %3A %2F %3F %23 %25`,
		`PRELOOP_SYSTEM_TOKEN: a system token has at least 24 characters`,
		`PRELOOP_GITHUB_API_URL: plain http is for a loopback address only: use https`,
		`PRELOOP_WEBHOOK_WATCHDOG: "maybe" is neither true (on) nor false (off)`,
		`PRELOOP_WEBHOOK_WATCHDOG_INTERVAL_SECS: 9s is below the floor of 10s`,
		`PRELOOP_WEBHOOK_WATCHDOG_GRACE_SECS: "2m" is not a whole number of seconds`,
		`PRELOOP_WEBHOOK_HEALTH_INTERVAL_SECS: 59s is below the floor of 1m`,
		`--operator-listen: "x:http": the port is not a number from 0 to 65535`,
		`--components: "wacthdog" is not one of ingress, worker, watchdog, app-monitor, prune; did you mean "watchdog"?`,
	)
}

func TestWhereTheFileIs(t *testing.T) {
	dir := inDir(t, map[string]string{
		"flag.yaml":                         "listen: :1",
		"env.yaml":                          "listen: :2",
		"here/preloop.yaml":                 "listen: :3",
		"xdg/preloop/preloop.yaml":          "listen: :4",
		"home/.config/preloop/preloop.yaml": "listen: :5",
		"none/x":                            "",
	})
	full := env{"PRELOOP_CONFIG": dir + "/env.yaml", "XDG_CONFIG_HOME": dir + "/xdg", "HOME": dir + "/home"}
	for name, tt := range map[string]struct {
		cwd, flag string
		env       env
		listen    string
		path      string
	}{
		"flag":              {"here", "../flag.yaml", full, ":1", "../flag.yaml"},
		"PRELOOP_CONFIG":    {"here", "", full, ":2", dir + "/env.yaml"},
		"working folder":    {"here", "", env{"XDG_CONFIG_HOME": dir + "/xdg", "HOME": dir + "/home"}, ":3", "preloop.yaml"},
		"XDG_CONFIG_HOME":   {"none", "", env{"XDG_CONFIG_HOME": dir + "/xdg", "HOME": dir + "/home"}, ":4", dir + "/xdg/preloop/preloop.yaml"},
		"home":              {"none", "", env{"HOME": dir + "/home"}, ":5", dir + "/home/.config/preloop/preloop.yaml"},
		"a relative XDG":    {"none", "", env{"HOME": dir + "/home", "XDG_CONFIG_HOME": "xdg"}, ":5", dir + "/home/.config/preloop/preloop.yaml"},
		"nowhere, and fine": {"none", "", env{"HOME": dir + "/none"}, "127.0.0.1:9090", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(filepath.Join(dir, tt.cwd))
			c, err := Load(Options{Path: tt.flag, LookupEnv: tt.env.lookup})
			if err != nil {
				t.Fatal(err)
			}
			if c.Listen != tt.listen || c.Path != tt.path {
				t.Errorf("listen %s from %q, want %s from %q", c.Listen, c.Path, tt.listen, tt.path)
			}
		})
	}
	_, err := Load(Options{Path: "gone.yaml", LookupEnv: full.lookup})
	wantErrors(t, err, "--config: reading the configuration: open gone.yaml: no such file or directory")
	_, err = Load(Options{LookupEnv: env{"PRELOOP_CONFIG": "gone.yaml"}.lookup})
	wantErrors(t, err, "PRELOOP_CONFIG: reading the configuration: open gone.yaml: no such file or directory")
	_, err = Load(Options{Path: "home", LookupEnv: full.lookup})
	wantErrors(t, err, "--config: reading the configuration: home: is a directory")

	if err := os.Mkdir("preloop.yaml", 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = Load(Options{LookupEnv: state().lookup}) // there, and unreadable: never passed over in silence
	wantErrors(t, err, "reading the configuration: preloop.yaml: is a directory")
}

func TestEmptyFiles(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "a comment": "# c\n", "a marker": "---\n", "null": "~\n", "a mark of order": "\ufeff",
		"empty lists": "apps:\nhooks: []\ntriggers:\nqueue:\nlimits: {}\n", "directive": "%YAML 1.2\n---\n",
	} {
		t.Run(name, func(t *testing.T) {
			if c := mustLoad(t, text, Options{}); c.Listen != "127.0.0.1:9090" {
				t.Errorf("listen %s", c.Listen)
			}
		})
	}
}

func TestAnchors(t *testing.T) {
	c := mustLoad(t, "triggers:\n  - name: a\n    on: &events [push, create]\n    run: &make { command: [make] }\n  - name: b\n    on: *events\n    run: *make\n", Options{})
	if diff := cmp.Diff(c.Triggers[0].Run, c.Triggers[1].Run); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"push", "create"}, c.Triggers[1].On); diff != "" {
		t.Error(diff)
	}
}

func TestPostgresNeedsASystemToken(t *testing.T) {
	o := Options{Serve: true, LookupEnv: state().lookup}
	_, err := load(t, "listen: :1\nstore: postgres://db/preloop\n", o)
	wantErrors(t, err, "preloop.yaml:2:8: store: on Postgres a system token must be configured, the same for every node: set system_token or PRELOOP_SYSTEM_TOKEN")

	o.LookupEnv = state("PRELOOP_SYSTEM_TOKEN", "0123456789abcdef01234567").lookup
	mustLoad(t, "store: postgres://db/preloop\n", o)
	mustLoad(t, "store: postgres://db/preloop\n", Options{}) // a command that serves nobody
	mustLoad(t, "", Options{Serve: true})
}

func TestNoHome(t *testing.T) {
	_, err := load(t, "", Options{LookupEnv: env{}.lookup})
	wantErrors(t, err, "preloop.yaml:1:1: store: there is no state directory: set STATE_DIRECTORY, XDG_STATE_HOME or HOME; or name a store")
	if c := mustLoad(t, "store: sqlite:///x/y.db\n", Options{LookupEnv: env{}.lookup}); c.StateDir != "" {
		t.Errorf("state directory %q from nothing", c.StateDir)
	}
}

func TestURLsForPeers(t *testing.T) {
	for api, host := range map[string]string{
		"https://api.github.com": "github.com", "https://api.acme.ghe.com": "acme.ghe.com",
		"https://git.acme.example/api/v3": "git.acme.example", "http://127.0.0.1:8080": "127.0.0.1:8080",
		"http://[::1]:1": "[::1]:1", "http://localhost": "localhost",
	} {
		c := mustLoad(t, "github_api_url: '"+api+"'\npublic_url: https://h/p/\n", Options{})
		if got := c.GitHubHost(); got != host {
			t.Errorf("%s: host %q, want %q", api, got, host)
		}
		if got := c.HookURL(); got != "https://h/p/api/v1/github/webhooks" {
			t.Errorf("hook URL %s", got)
		}
	}
	if got := (&Config{}).HookURL(); got != "" {
		t.Errorf("hook URL %q without a public one", got)
	}
}
