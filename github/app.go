package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// App is the app as GitHub knows it.
type App struct {
	ID          int64             `json:"id"`
	Slug        string            `json:"slug"`
	ClientID    string            `json:"client_id"`
	Name        string            `json:"name"`
	HTMLURL     string            `json:"html_url"`
	Permissions map[string]string `json:"permissions"` // name → read, write, admin
	Events      []string          `json:"events"`      // never those that are always sent, nor global ones
	Owner       struct {
		Login string `json:"login"` // empty: an enterprise
		Type  string `json:"type"`  // User or Organization
	} `json:"owner"`
}

// App reads the app itself.
func (c *Client) App(ctx context.Context) (App, error) {
	var a App
	_, err := c.get(ctx, "reading the app", "/app", &a)
	return a, err
}

// HookConfig says where and how a webhook is delivered.
type HookConfig struct {
	URL         string
	ContentType string // json or form
	InsecureTLS bool   // GitHub does not check our certificate
	HasSecret   bool   // GitHub masks the secret itself
}

// UnmarshalJSON reads GitHub's shape, in which insecure_ssl is text or a number and a secret that
// is not set may be absent, null or empty.
func (h *HookConfig) UnmarshalJSON(text []byte) error {
	var raw struct {
		URL         string          `json:"url"`
		ContentType string          `json:"content_type"`
		InsecureSSL json.RawMessage `json:"insecure_ssl"`
		Secret      *string         `json:"secret"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	insecure := string(raw.InsecureSSL)
	*h = HookConfig{
		URL:         raw.URL,
		ContentType: raw.ContentType,
		InsecureTLS: insecure == `"1"` || insecure == "1",
		HasSecret:   raw.Secret != nil && *raw.Secret != "",
	}
	return nil
}

// Webhook is a repository's or organization's webhook.
type Webhook struct {
	ID           int64      `json:"id"`
	Active       bool       `json:"active"`
	Events       []string   `json:"events"`
	Config       HookConfig `json:"config"`
	LastResponse struct {
		Code   *int   `json:"code"`
		Status string `json:"status"`
	} `json:"last_response"` // of a repository's webhook only
}

// Hook names a webhook: the app's own (the zero Hook), a repository's or an organization's.
type Hook struct {
	Repo string // owner/name
	Org  string
	ID   int64
}

// path is the webhook's place in the API.
func (h Hook) path() (string, error) {
	switch {
	case h == Hook{}:
		return "/app/hook", nil
	case h.ID <= 0:
		return "", fmt.Errorf("webhook of %s%s: it has no id", h.Repo, h.Org)
	case h.Repo != "":
		repo, err := repoPath(h.Repo)
		return fmt.Sprintf("%s/hooks/%d", repo, h.ID), err
	}
	org, err := nameSegment(h.Org)
	return fmt.Sprintf("/orgs/%s/hooks/%d", org, h.ID), err
}

func (h Hook) String() string {
	if h == (Hook{}) {
		return "the app's webhook"
	}
	return fmt.Sprintf("webhook %d of %s%s", h.ID, h.Repo, h.Org)
}

// HookConfig reads the configuration of a webhook.
func (c *Client) HookConfig(ctx context.Context, h Hook) (HookConfig, error) {
	var config HookConfig
	path, err := h.path()
	if err == nil {
		_, err = c.get(ctx, "reading the configuration of "+h.String(), path+"/config", &config)
	}
	return config, err
}

// Webhook reads a repository's or organization's webhook. An app's has no such object.
func (c *Client) Webhook(ctx context.Context, h Hook) (Webhook, error) {
	var w Webhook
	path, err := h.path()
	if err == nil && h == (Hook{}) {
		err = fmt.Errorf("reading %s: GitHub has only its configuration", h)
	}
	if err == nil {
		_, err = c.get(ctx, "reading "+h.String(), path, &w)
	}
	return w, err
}

// RateLimit is one of the limits of a credential.
type RateLimit struct {
	Limit     int   `json:"limit"`
	Used      int   `json:"used"`
	Remaining int   `json:"remaining"`
	Reset     int64 `json:"reset"` // seconds since 1970 by GitHub's clock
}

// ResetAt is when the limit is whole again.
func (r RateLimit) ResetAt() time.Time { return time.Unix(r.Reset, 0) }

type rateLimits struct {
	Resources map[string]RateLimit `json:"resources"`
}

// RateLimits reads the limits of a token by their resource. None are in force on a GitHub
// Enterprise Server that answers 404.
func (c *Client) RateLimits(ctx context.Context) (map[string]RateLimit, error) {
	var out rateLimits
	_, err := c.get(ctx, "reading the rate limits", "/rate_limit", &out)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return out.Resources, err
}
