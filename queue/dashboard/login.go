package dashboard

import (
	"crypto/hmac"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// verdict is what the gate says of an attempt to log in.
type verdict int

const (
	refused verdict = iota
	admitted
	tooMany
)

// gate compares with the system token, and answers nobody for a while once too many were wrong:
// one that let the right token through would still answer guesses.
type gate struct {
	want     [sha256.Size]byte
	open     bool // there is a token
	mu       sync.Mutex
	failures *rate.Limiter // guarded by mu across the look and the take
}

// The failures that are allowed at once, and how soon another is.
const (
	failureBurst = 10
	failureEvery = 3 * time.Second
)

func newGate(token string) *gate {
	return &gate{want: sha256.Sum256([]byte(token)), open: token != "", failures: rate.NewLimiter(rate.Every(failureEvery), failureBurst)}
}

func (g *gate) try(token string, now time.Time) verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures.TokensAt(now) < 1 {
		return tooMany
	}
	got := sha256.Sum256([]byte(token))
	if hmac.Equal(got[:], g.want[:]) && g.open {
		return admitted
	}
	g.failures.AllowN(now, 1)
	return refused
}

type loginView struct {
	Next    string
	Problem string
}

func (d *Dashboard) loginForm(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.URL.Query().Get("next"))
	if d.session(r) != "" {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	d.showLogin(w, http.StatusOK, loginView{Next: next})
}

func (d *Dashboard) showLogin(w http.ResponseWriter, status int, v loginView) {
	d.render(w, status, layout{Title: "Log in", view: view{name: "login", data: v}})
}

func (d *Dashboard) login(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.PostFormValue("next"))
	switch d.gate.try(strings.TrimSpace(r.PostFormValue("token")), time.Now()) {
	case tooMany:
		w.Header().Set("Retry-After", "5")
		d.log.Warn("logins to the dashboard are refused for a moment: too many were wrong", "remote", r.RemoteAddr)
		d.showLogin(w, http.StatusTooManyRequests, loginView{Next: next, Problem: "Too many wrong tokens. Wait a few seconds and try again."})
	case refused:
		d.log.Warn("a login to the dashboard had a wrong token", "remote", r.RemoteAddr)
		d.showLogin(w, http.StatusForbidden, loginView{Next: next, Problem: "That is not the system token."})
	case admitted:
		d.sessions.end(d.session(r))
		cookie := newCookie(r, d.sessions.open(time.Now()))
		cookie.MaxAge = int(sessionAge / time.Second)
		http.SetCookie(w, cookie)
		d.log.Info("somebody logged in to the dashboard", "remote", r.RemoteAddr)
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

func (d *Dashboard) logout(w http.ResponseWriter, r *http.Request) {
	d.sessions.end(d.session(r))
	cookie := newCookie(r, "")
	cookie.MaxAge = -1
	http.SetCookie(w, cookie)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func newCookie(r *http.Request, value string) *http.Cookie {
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	return &http.Cookie{Name: sessionCookie, Value: value, Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode}
}

// session is the request's session, or empty.
func (d *Dashboard) session(r *http.Request) string {
	c, err := r.Cookie(sessionCookie)
	if err != nil || !d.sessions.valid(c.Value, time.Now()) {
		return ""
	}
	return c.Value
}

// loggedIn sends everybody else to the form, and back to the page from there.
func (d *Dashboard) loggedIn(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.session(r) != "" {
			next(w, r)
			return
		}
		target := "/login"
		if back := r.URL.RequestURI(); r.Method == http.MethodGet && back != "/" {
			target += "?next=" + url.QueryEscape(back)
		}
		http.Redirect(w, r, target, http.StatusSeeOther)
	})
}

// localPath keeps a redirect on this site: a path that a browser cannot take for a host.
func localPath(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") || strings.ContainsAny(s, "\\\r\n\t") {
		return "/"
	}
	return s
}
