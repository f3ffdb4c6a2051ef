package config

import (
	"cmp"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/seed-de999ace/preloop/queue/trigger"
)

// SecretEnvNames lists the variables of preloop's own environment that hold, or may hold, a
// secret of preloop's: what a command must not inherit.
func (c *Config) SecretEnvNames() []string {
	names := append([]string{
		"PRELOOP_SYSTEM_TOKEN", "PRELOOP_WEBHOOK_SECRET", "PRELOOP_GITHUB_APP_PRIVATE_KEY", appsVar, "PRELOOP_STORE_URL",
	}, c.secretEnv...)
	if c.Store.Kind == Postgres {
		names = append(names, "PGPASSWORD")
	}
	// A hook without a token of its own takes gh's, which then is one of preloop's secrets.
	if slices.ContainsFunc(c.Hooks, func(h Hook) bool { return h.ID != 0 && !h.Token.IsSet() }) {
		names = append(names, "GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// SecretValues lists every secret for masking output, the longest first, so that one that
// contains another is masked whole. Values below four characters are left out: masking them would
// only destroy the output.
func (c *Config) SecretValues() []string {
	values := slices.Concat(c.Store.passwords(), c.StoreListen.passwords(), []string{
		c.SystemToken.Reveal(), c.Store.URL.Reveal(), c.StoreListen.URL.Reveal(),
	})
	for _, s := range c.secrets {
		values = append(values, s.Reveal())
	}
	values = slices.DeleteFunc(values, func(v string) bool { return len(v) < 4 })
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(values)
}

// TriggersHash names this set of triggers: equal on every node whose triggers are equal once
// defaults and ceilings are applied, in whatever order they are written. It may be published:
// targets' secrets are in it, behind a digest that is slow to guess against (some milliseconds).
func (c *Config) TriggersHash() string {
	specs := slices.Clone(c.Triggers)
	slices.SortFunc(specs, func(a, b trigger.Spec) int { return cmp.Compare(a.Name, b.Name) })
	data, err := json.Marshal(specs)
	if err != nil {
		panic(fmt.Sprintf("encoding triggers: %v", err)) // strings, numbers and maps of strings always encode
	}
	sum, err := pbkdf2.Key(sha256.New, string(data), []byte("preloop triggers v1"), 10_000, 16)
	if err != nil {
		panic(fmt.Sprintf("hashing triggers: %v", err)) // only for shorter keys and salts in FIPS mode
	}
	return hex.EncodeToString(sum)
}
