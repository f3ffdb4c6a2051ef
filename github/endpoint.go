package github

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"

	"github.com/seed-de999ace/preloop/breaker"
)

// DefaultAPIURL is the REST API of github.com.
const DefaultAPIURL = "https://api.github.com"

// Endpoint is the REST API of one GitHub host. Credentials are sent nowhere else.
type Endpoint struct {
	scheme, host string
	prefix       string // "" or "/api/v3", without a slash at its end
}

// ParseEndpoint reads an API URL such as https://HOST/api/v3; empty means github.com. Plain http
// is accepted on a loopback address only.
func ParseEndpoint(text string) (Endpoint, error) {
	if text == "" {
		text = DefaultAPIURL
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Endpoint{}, fmt.Errorf("GitHub's API URL: want https://HOST or https://HOST/api/v3")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return Endpoint{}, fmt.Errorf("GitHub's API URL: %s has to use https (http is for loopback addresses)", u.Host)
	}
	return Endpoint{scheme: u.Scheme, host: strings.ToLower(u.Host), prefix: strings.TrimRight(u.Path, "/")}, nil
}

func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// String is the URL without a slash at its end.
func (e Endpoint) String() string { return e.scheme + "://" + e.host + e.prefix }

// Host is the API's host, with its port where it has one: what the host's breaker is named after.
func (e Endpoint) Host() string { return e.host }

// BreakerKey is the key of the host's breaker.
func (e Endpoint) BreakerKey() string { return breaker.HostKey(e.host) }

// WebHost is the name under which people and gh know the host: github.com for api.github.com.
func (e Endpoint) WebHost() string {
	name := e.host
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	if name == "api.github.com" || strings.HasSuffix(name, ".ghe.com") {
		name = strings.TrimPrefix(name, "api.")
	}
	return name
}

// url resolves a path below the endpoint. The path is escaped already and may have a query.
func (e Endpoint) url(path string) string { return e.String() + path }

// relative turns a URL that GitHub sent into a path below the endpoint. It reports false for any
// other origin or prefix: following it would hand our credential to whoever answers there.
func (e Endpoint) relative(u *url.URL) (string, bool) {
	if u.Scheme != e.scheme || !strings.EqualFold(hostPort(u), hostPort(&url.URL{Scheme: e.scheme, Host: e.host})) || u.User != nil {
		return "", false
	}
	if u.Path == "" || path.Clean(u.Path) != u.Path || strings.Contains(u.Path, `\`) {
		return "", false
	}
	rest, ok := strings.CutPrefix(u.EscapedPath(), e.prefix)
	if !ok || !strings.HasPrefix(rest, "/") {
		return "", false
	}
	if u.RawQuery != "" {
		rest += "?" + u.RawQuery
	}
	return rest, true
}

// hostPort makes the default port explicit, so that https://h and https://h:443 are one origin.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
