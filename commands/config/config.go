package config

import (
	"net/url"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue/trigger"
)

// WebhookPath is where GitHub delivers, below the public URL.
const WebhookPath = "/api/v1/github/webhooks"

// Config is everything an operator can choose, complete and valid. It is not changed after Load,
// but for SystemToken, which a command may generate.
type Config struct {
	Path           string // the file that was read; empty without one
	Listen         string // HOST:PORT, or systemd[:NAME] for a socket that systemd opened
	OperatorListen string // likewise; empty: the operator surface is on Listen too
	PublicURL      string // without a last slash; empty when unknown
	ServerURL      string // where a command finds a running server; empty: it opens the store
	Store          StoreURL
	StoreListen    StoreURL // a direct address for LISTEN; unset: Store
	SystemToken    Secret   // unset: see EnsureSystemToken
	StateDir       string   // absolute; empty when the environment has no home for it
	GitHubAPIURL   string   // without a last slash
	Apps           []App
	Hooks          []Hook
	Limits         Limits
	SessionTTL     time.Duration
	Queue          Queue
	Retention      Retention
	Watchdog       Watchdog
	Breaker        Breaker
	AppMonitor     AppMonitor
	Ingress        Ingress
	ShutdownGrace  time.Duration
	Components     []string           // what serve runs: some of Components
	Triggers       []trigger.Spec     `json:"-"` // holds targets' secrets
	Compiled       []*trigger.Trigger `json:"-"` // Triggers[i], compiled
	Warnings       []string           // what is allowed and probably not meant

	secrets   []Secret // every secret that was read, wherever it belongs
	secretEnv []string // the variables that hold one
}

// App is a GitHub App, or the nameless source of a lone webhook secret.
type App struct {
	ID             int64 // 0: no app, only a secret
	Name           string
	ClientID       string
	PrivateKey     Secret // PEM of an RSA key; unset: nothing can be asked of GitHub in its name
	WebhookSecrets []NamedSecret

	path string // where it was configured
}

// Hook is a repository's or an organization's webhook.
type Hook struct {
	Name           string
	Repo, Org      string // one of them, as it was written
	ID             int64  // 0: its deliveries cannot be watched
	Token          Secret // unset: the token that gh uses for GitHubHost
	WebhookSecrets []NamedSecret

	path string
}

// NamedSecret is one of a source's webhook secrets; the name tells old from new.
type NamedSecret struct {
	Name  string
	Value Secret
}

// Limits are ceilings over what a trigger may ask for; 0 is none.
type Limits struct {
	Concurrency int
	QueueSize   int
	QueueWait   time.Duration
}

// Queue rules deliveries and runs.
type Queue struct {
	Workers        int
	Lease          time.Duration
	Renew          time.Duration // below Lease
	MaxAttempts    int
	Backoff        []time.Duration // never empty; the last is repeated
	Poll           time.Duration
	NotifyCoalesce time.Duration
	MaxOutages     int           // transport failures of one delivery, breaker closed, that are not charged
	KillAfter      time.Duration // between TERM and KILL of a command
}

// Retention rules pruning.
type Retention struct {
	Keep  time.Duration
	Every time.Duration
	Batch int
}

// Watchdog rules the watch over GitHub's delivery history.
type Watchdog struct {
	Enabled     bool
	Redeliver   bool // false: missing deliveries are reported, not asked for
	Every       time.Duration
	Grace       time.Duration
	MaxAttempts int
	MaxPages    int
	Backoff     []time.Duration // never empty; the last is repeated
	Pace        time.Duration
	Budget      int
}

// Breaker rules the circuit breakers.
type Breaker struct {
	Enabled          bool // false: observes and never opens
	Threshold        int
	Open             time.Duration
	MaxOpen          time.Duration // at least Open
	Probe            time.Duration
	RateLimitDefault time.Duration
}

// AppMonitor rules the health monitor.
type AppMonitor struct{ Every time.Duration }

// Ingress bounds the receiver.
type Ingress struct {
	MaxBody        int64 // bytes
	Memory         int64 // bytes, at least MaxBody
	Budget         time.Duration
	Attempts       int
	AttemptTimeout time.Duration
	RetryDelay     time.Duration
	ReadTimeout    time.Duration
}

// Components lists what serve is made of.
var Components = []string{"ingress", "worker", "watchdog", "app-monitor", "prune"}

const day = 24 * time.Hour

func defaults() *Config {
	return &Config{
		Listen:       "127.0.0.1:9090",
		GitHubAPIURL: "https://api.github.com",
		SessionTTL:   72 * time.Hour,
		Queue: Queue{
			Workers: 8, Lease: time.Minute, Renew: 20 * time.Second, MaxAttempts: 6,
			Backoff: []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, 30 * time.Second},
			Poll:    5 * time.Second, NotifyCoalesce: 15 * time.Millisecond,
			MaxOutages: 20, KillAfter: 10 * time.Second,
		},
		Retention: Retention{Keep: 30 * day, Every: 5 * time.Minute, Batch: 256},
		Watchdog: Watchdog{
			Enabled: true, Redeliver: true, Every: 5 * time.Minute, Grace: 2 * time.Minute, MaxAttempts: 5, MaxPages: 5,
			Backoff: []time.Duration{0, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour},
			Pace:    time.Second, Budget: 100,
		},
		Breaker: Breaker{
			Enabled: true, Threshold: 3, Open: 30 * time.Second, MaxOpen: 5 * time.Minute, Probe: time.Minute,
			RateLimitDefault: time.Minute,
		},
		AppMonitor: AppMonitor{Every: 15 * time.Minute},
		Ingress: Ingress{
			MaxBody: 25 << 20, Memory: 256 << 20, Budget: 8 * time.Second, Attempts: 2, AttemptTimeout: 4 * time.Second,
			RetryDelay: 50 * time.Millisecond, ReadTimeout: 30 * time.Second,
		},
		ShutdownGrace: 30 * time.Second,
		Components:    Components,
	}
}

// HookURL is the URL that GitHub should deliver to; empty without a public URL.
func (c *Config) HookURL() string {
	if c.PublicURL == "" {
		return ""
	}
	return c.PublicURL + WebhookPath
}

// GitHubHost is the host that gh knows GitHub by: github.com for api.github.com, else the host of
// GitHubAPIURL, without the api. of a tenant's.
func (c *Config) GitHubHost() string {
	u, err := url.Parse(c.GitHubAPIURL)
	if err != nil {
		return ""
	}
	host := strings.ToLower(u.Host)
	if tenant, ok := strings.CutPrefix(host, "api."); ok && (tenant == "github.com" || strings.HasSuffix(tenant, ".ghe.com")) {
		return tenant
	}
	return host
}
