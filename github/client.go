package github

import (
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
)

// Options are the parts that clients of one GitHub host share.
type Options struct {
	Endpoint  Endpoint          // the zero Endpoint is github.com
	Breakers  *breaker.Set      // of the endpoint's host; required
	RootCAs   *x509.CertPool    // for a GitHub Enterprise Server with a private CA; nil: the system's
	Transport http.RoundTripper // nil: one with RootCAs and the environment's proxy
	Version   string            // goes into User-Agent
	Timeout   time.Duration     // of one call, its body included; 30 s unless given
	Log       *slog.Logger      // nil: silent
}

// NewTransport returns a transport that trusts roots (nil: the system's) and heeds the
// environment's proxy. Clients of one host should share one.
func NewTransport(roots *x509.CertPool) http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	t.MaxResponseHeaderBytes = 1 << 20
	t.MaxIdleConnsPerHost = 16
	return t
}

// AppCredential is what GitHub knows an app by.
type AppCredential struct {
	SourceKey string // names the credential's breaker; never changes with a rename
	AppID     int64
	ClientID  string // preferred as the issuer where given
	Key       *rsa.PrivateKey
}

// TokenCredential is a token of a user or bot.
type TokenCredential struct {
	SourceKey string
	Token     string
}

// Client calls GitHub with one credential. Every call goes through the breakers of the credential
// and of the host, has a timeout, and reads no more than it must. It is safe for concurrent use.
type Client struct {
	endpoint Endpoint
	breakers *breaker.Set
	key      string // of the credential's breaker
	http     http.RoundTripper
	agent    string
	timeout  time.Duration
	log      *slog.Logger

	own    authorizer // the credential itself
	app    *signer    // nil for a token
	tokens tokenCache
}

// authorizer authorizes requests.
type authorizer interface {
	// authorize returns the token for the Authorization header.
	authorize(ctx context.Context) (string, error)
	// refused is told of a 401 to a token, and reports whether to try once more.
	refused(ctx context.Context, token string, e *Error) bool
	// String names the credential in a sentence.
	String() string
}

// NewApp returns a client that calls as an app, and as its installations where that is needed.
func NewApp(c AppCredential, o Options) (*Client, error) {
	if c.Key == nil {
		return nil, fmt.Errorf("app %s: it has no private key", c.SourceKey)
	}
	if c.AppID <= 0 && c.ClientID == "" {
		return nil, fmt.Errorf("app %s: it has neither an id nor a client id", c.SourceKey)
	}
	app := &signer{key: c.Key, appID: c.AppID, clientID: c.ClientID}
	client, err := newClient(breaker.AppKey(c.SourceKey), app, o)
	if err == nil {
		client.app = app
	}
	return client, err
}

// NewToken returns a client that calls with a token.
func NewToken(c TokenCredential, o Options) (*Client, error) {
	if c.Token == "" {
		return nil, fmt.Errorf("source %s: its token is empty", c.SourceKey)
	}
	return newClient(breaker.TokenKey(c.SourceKey), fixedToken(c.Token), o)
}

func newClient(key string, own authorizer, o Options) (*Client, error) {
	if o.Endpoint == (Endpoint{}) {
		o.Endpoint, _ = ParseEndpoint("")
	}
	if o.Breakers == nil || o.Breakers.Host() != o.Endpoint.BreakerKey() {
		return nil, fmt.Errorf("calling %s: the breakers are another host's", o.Endpoint)
	}
	if o.Transport == nil {
		o.Transport = NewTransport(o.RootCAs)
	}
	return &Client{
		endpoint: o.Endpoint,
		breakers: o.Breakers,
		key:      key,
		http:     o.Transport,
		agent:    "preloop/" + cmp.Or(o.Version, "dev"),
		timeout:  cmp.Or(o.Timeout, 30*time.Second),
		log:      cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		own:      own,
	}, nil
}

// BreakerKey is the key of the credential's breaker.
func (c *Client) BreakerKey() string { return c.key }

// IsApp reports whether the client has an app's credential, and so may mint tokens.
func (c *Client) IsApp() bool { return c.app != nil }

// fixedToken is a token that nobody renews.
type fixedToken string

func (t fixedToken) authorize(context.Context) (string, error)    { return string(t), nil }
func (t fixedToken) refused(context.Context, string, *Error) bool { return false }
func (t fixedToken) String() string                               { return "the token" }
func (t fixedToken) GoString() string                             { return t.String() }
