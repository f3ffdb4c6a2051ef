package github

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
)

// probe makes the cheap call that tests a breaker: an app reads itself, a token its limits.
func (c *Client) probe(ctx context.Context) breaker.Result {
	r := request{op: "probing GitHub", method: http.MethodGet, path: "/app", auth: c.own}
	var limits *rateLimits
	var out any
	if c.app == nil {
		r.path, limits = "/rate_limit", &rateLimits{}
		out = limits
	}
	token, err := c.own.authorize(ctx)
	if err != nil {
		return breaker.Result{Kind: breaker.NoVerdict, Message: err.Error()}
	}
	a := c.exchange(ctx, r, token, out)
	if limits != nil && a.err == nil && a.result.Kind == breaker.Reachable {
		// This call is free and succeeds while every other one is still refused.
		if core, ok := limits.Resources["core"]; ok && core.Limit > 0 && core.Remaining == 0 {
			a.result = breaker.Result{
				Kind:    breaker.RateLimited,
				Wait:    max(time.Unix(core.Reset, 0).Sub(clock(time.Now(), a.header)), 1),
				Message: "GitHub limits the rate (nothing remains of the hour)",
			}
		}
	}
	if a.result.Kind == breaker.RateLimited {
		c.breakers.RateLimit(ctx, c.key, a.result) // for a probe of the host; changes nothing in one of its own
	}
	return a.result
}

// Prober finds the probe of a breaker among the clients of one host: the credential's own client,
// and any for the host, best one whose credential is not limited.
func Prober(clients func() []*Client) breaker.Prober {
	return func(key string) func(context.Context) breaker.Result {
		all := clients()
		if !strings.HasPrefix(key, breaker.HostPrefix) {
			if i := slices.IndexFunc(all, func(c *Client) bool { return c.key == key }); i >= 0 {
				return all[i].probe
			}
			return nil
		}
		all = slices.DeleteFunc(slices.Clone(all), func(c *Client) bool { return c.endpoint.BreakerKey() != key })
		if len(all) == 0 {
			return nil
		}
		now := time.Now()
		return slices.MinFunc(all, func(a, b *Client) int {
			return cmp.Compare(a.breakers.Wait(a.key, now), b.breakers.Wait(b.key, now))
		}).probe
	}
}
