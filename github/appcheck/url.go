package appcheck

import (
	"net/url"
	"strconv"
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

// settingsPage is where the app's or the webhook's own settings are changed.
func settingsPage(f Facts, webHost string) string {
	host := "https://" + webHost
	if u, err := url.Parse(f.PageURL); err == nil && u.Host != "" {
		host = u.Scheme + "://" + u.Host
	}
	hook := "/settings/hooks/" + strconv.FormatInt(f.Webhook.ID, 10)
	app := "/settings/apps/" + url.PathEscape(f.Slug)
	switch {
	case f.Kind == RepoHook:
		return host + "/" + f.Webhook.Repo + hook
	case f.Kind == OrgHook:
		return host + "/organizations/" + url.PathEscape(f.Webhook.Org) + hook
	case f.Slug != "" && f.Org != "":
		return host + "/organizations/" + url.PathEscape(f.Org) + app
	case f.Slug != "" && f.User != "":
		return host + app
	case f.PageURL != "": // an enterprise's, perhaps: its public page leads its owners to the settings
		return f.PageURL
	}
	return host + "/settings/apps"
}

// permissionsPage is where an app's permissions and events are changed; page is its settings page.
func permissionsPage(f Facts, page string) string {
	if f.Slug == "" || f.Org == "" && f.User == "" {
		return page
	}
	return page + "/permissions"
}
