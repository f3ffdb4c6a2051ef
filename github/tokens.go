package github

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// TokenRequest says what an installation token is for; it never gets more than it asks for.
type TokenRequest struct {
	Installation int64
	Repositories []string          // names without their owner; empty: all of the installation's
	Permissions  map[string]string // name → read, write, admin; empty: all that were granted
}

// InstallationToken lets its holder act as the app within one installation. It prints as nothing.
type InstallationToken struct {
	Token       string
	ExpiresAt   time.Time // by GitHub's clock
	Permissions map[string]string

	usable time.Time // by our clock, with a margin
	minted time.Time
}

// String keeps the token out of logs and errors; so do GoString and LogValue.
func (t InstallationToken) String() string       { return "[installation token]" }
func (t InstallationToken) GoString() string     { return t.String() }
func (t InstallationToken) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MintToken asks GitHub for a new token. Who asked revokes it when the work is done.
func (c *Client) MintToken(ctx context.Context, r TokenRequest) (InstallationToken, error) {
	op := fmt.Sprintf("minting a token for installation %d", r.Installation)
	if c.app == nil {
		return InstallationToken{}, fmt.Errorf("%s: only an app can", op)
	}
	body := map[string]any{}
	if len(r.Repositories) > 0 {
		body["repositories"] = r.Repositories
	}
	if len(r.Permissions) > 0 {
		body["permissions"] = r.Permissions
	}
	var out struct {
		Token       string            `json:"token"`
		ExpiresAt   time.Time         `json:"expires_at"`
		Permissions map[string]string `json:"permissions"`
	}
	header, err := c.do(ctx, request{
		op: op, method: http.MethodPost, minting: true, body: body,
		path: fmt.Sprintf("/app/installations/%d/access_tokens", r.Installation),
	}, &out)
	if err != nil {
		return InstallationToken{}, err
	}
	if out.Token == "" {
		return InstallationToken{}, fmt.Errorf("%s: GitHub's answer has none", op)
	}
	now := time.Now()
	return InstallationToken{
		Token: out.Token, ExpiresAt: out.ExpiresAt, Permissions: out.Permissions, minted: now,
		usable: now.Add(out.ExpiresAt.Sub(clock(now, header)) - tokenMargin),
	}, nil
}

// RevokeToken ends an installation token. One that GitHub no longer knows is as good as revoked.
func (c *Client) RevokeToken(ctx context.Context, t InstallationToken) error {
	_, err := c.do(ctx, request{
		op: "revoking a token", method: http.MethodDelete, path: "/installation/token", auth: fixedToken(t.Token),
	}, nil)
	if errors.Is(err, ErrUnauthorized) {
		return nil
	}
	return err
}

const (
	tokenMargin = 5 * time.Minute // a cached token is good for at least this long
	tokenLag    = 5 * time.Second // how long GitHub's replicas may not know a new token
)

// tokenCache keeps the tokens that the client itself reads with, one per request.
type tokenCache struct {
	mu   sync.Mutex
	held map[string]*heldToken
}

type heldToken struct {
	mu    sync.Mutex // held while minting, so that many callers mint once
	token InstallationToken
}

// hold returns the place of a request's token, and forgets tokens that have expired.
func (t *tokenCache) hold(key string) *heldToken {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.held[key]; h != nil {
		return h
	}
	now := time.Now()
	maps.DeleteFunc(t.held, func(_ string, h *heldToken) bool {
		if !h.mu.TryLock() {
			return false
		}
		defer h.mu.Unlock()
		return h.token.Token != "" && now.After(h.token.usable)
	})
	if t.held == nil {
		t.held = map[string]*heldToken{}
	}
	h := &heldToken{}
	t.held[key] = h
	return h
}

// installation authorizes requests within one installation with a cached token.
type installation struct {
	client  *Client
	request TokenRequest
}

func (i installation) key() string {
	parts := []string{fmt.Sprint(i.request.Installation), strings.Join(i.request.Repositories, ",")}
	for _, name := range slices.Sorted(maps.Keys(i.request.Permissions)) {
		parts = append(parts, name+"="+i.request.Permissions[name])
	}
	return strings.Join(parts, " ")
}

func (i installation) authorize(ctx context.Context) (string, error) {
	h := i.client.tokens.hold(i.key())
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.token.Token == "" || time.Now().After(h.token.usable) {
		var err error
		if h.token, err = i.client.MintToken(ctx, i.request); err != nil {
			return "", err
		}
	}
	return h.token.Token, nil
}

// refused waits for GitHub's replicas when the token is new, and drops it otherwise.
func (i installation) refused(ctx context.Context, token string, _ *Error) bool {
	h := i.client.tokens.hold(i.key())
	h.mu.Lock()
	fresh := h.token.Token == token && time.Since(h.token.minted) < tokenLag
	if h.token.Token == token && !fresh {
		h.token = InstallationToken{}
	}
	h.mu.Unlock()
	if !fresh {
		return true
	}
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (i installation) String() string { return "the installation's token" }
