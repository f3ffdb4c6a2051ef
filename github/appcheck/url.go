package appcheck

import (
	"net/url"
	"strings"
)

// SameURL reports whether two URLs lead to one place. A slash at the end, the default port and a
// query make no difference; the scheme does, because GitHub follows no redirect.
func SameURL(a, b string) bool {
	x, okA := place(a)
	y, okB := place(b)
	return okA && okB && x == y
}

func place(text string) (string, bool) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Host == "" {
		return "", false
	}
	scheme := strings.ToLower(u.Scheme)
	port := u.Port()
	if port == map[string]string{"https": "443", "http": "80"}[scheme] {
		port = ""
	}
	return scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port + "/" + strings.Trim(u.Path, "/"), true
}

// shown is a URL without what may be a credential in it.
func shown(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(a URL that cannot be read)"
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.String()
}

// settingsPage is where the app's permissions and events are changed. GitHub shows an
// organization's app below the organization; the page of a user's says so.
func settingsPage(f Facts, webHost string) string {
	host := "https://" + webHost
	if u, err := url.Parse(f.PageURL); err == nil && u.Host != "" {
		host = u.Scheme + "://" + u.Host
	}
	if f.Slug == "" {
		return host + "/settings/apps"
	}
	return host + "/settings/apps/" + url.PathEscape(f.Slug) + "/permissions (an organization's app: " + host + "/organizations/ORG/settings/apps/" + url.PathEscape(f.Slug) + "/permissions)"
}
