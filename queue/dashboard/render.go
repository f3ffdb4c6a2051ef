package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/seed-de999ace/preloop/queue/api"
)

//go:embed templates/*.html
var templates embed.FS

// layout is what surrounds a view.
type layout struct {
	Title    string
	Section  string
	LoggedIn bool
	Flash    string
	Refresh  bool // without JavaScript the page loads itself again
	view
}

// Data is the view's.
func (l layout) Data() any { return l.data }

// pages holds each page's template with the layout around it, by the page's name.
var pages = parsePages("login", "problem", "overview", "deliveries", "delivery", "payload", "runs", "run", "triggers", "repairs")

func parsePages(names ...string) map[string]*template.Template {
	base := template.Must(template.New("").Funcs(functions).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	out := map[string]*template.Template{}
	for _, name := range names {
		out[name] = template.Must(template.Must(base.Clone()).ParseFS(templates, "templates/"+name+".html"))
	}
	return out
}

func (d *Dashboard) render(w http.ResponseWriter, status int, l layout) {
	var b bytes.Buffer
	if err := pages[l.name].ExecuteTemplate(&b, "layout", l); err != nil {
		d.log.Error("a page of the dashboard could not be written", "page", l.name, "error", err)
		http.Error(w, "this page could not be written; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser has gone; there is nobody to tell
}

var functions = template.FuncMap{
	"text": text, "lines": lines, "path": url.PathEscape, "ref": ref, "when": when, "ago": ago, "span": span, "count": count, "size": size,
	"yes":   func(b *bool) bool { return b != nil && *b },
	"words": words, "advice": advice, "list": func(s []string) string { return strings.Join(s, ", ") },
	"secs": func(n int64) string { return span(time.Duration(n) * time.Second) },
}

// text is a value of somebody else's on one line: what could hide or reorder it is written out.
func text(v any) string { return visible(str(v), false) }

// lines is text of several lines.
func lines(v any) string { return visible(strings.ReplaceAll(str(v), "\r\n", "\n"), true) }

func str(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case *string:
		if v == nil {
			return ""
		}
		return *v
	case string:
		return v
	}
	return fmt.Sprint(v)
}

func visible(s string, several bool) string {
	odd := func(r rune) bool {
		if several && (r == '\n' || r == '\t') {
			return false
		}
		return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
	}
	if strings.IndexFunc(s, odd) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case several && r == '\r':
			b.WriteByte('\n')
		case odd(r):
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// ref names a delivery in an address, whichever sources share its id.
func ref(source, id string) string { return url.PathEscape(source + "/" + id) }

func when(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

func ago(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "never"
	}
	d := time.Since(*t)
	if d < time.Second {
		return "now"
	}
	return span(d) + " ago"
}

// span is a duration in its two largest units.
func span(d time.Duration) string {
	d = d.Round(time.Second)
	s := int64(d / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d h %d min", s/3600, s%3600/60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s%86400/3600)
}

// count reads a number of the status document, which is a float where it came through JSON.
func count(v any) string {
	if f, ok := v.(float64); ok {
		return fmt.Sprintf("%.0f", f)
	}
	if v == nil {
		return "0"
	}
	return fmt.Sprint(v)
}

func size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// piece is a part of a message: plain words, a command in backticks, or an address.
type piece struct{ Text, Code, Link string }

// words takes a message apart, so that commands look like commands and addresses can be clicked.
func words(message string) (out []piece) {
	for i, part := range strings.Split(message, "`") {
		if i%2 == 1 {
			out = append(out, piece{Code: part})
			continue
		}
		for part != "" {
			at := strings.Index(part, "https://")
			if at < 0 {
				out = append(out, piece{Text: part})
				break
			}
			end := at + strings.IndexFunc(part[at:]+" ", unicode.IsSpace)
			link := strings.TrimRight(part[at:end], ".,;:)")
			out = append(out, piece{Text: part[:at]}, piece{Link: link})
			part = part[at+len(link):]
		}
	}
	return out
}

// step is what to do about a condition.
type step struct{ Label, Href string }

// advice leads from a condition to the page where it can be dealt with.
func advice(c api.Condition) *step {
	s, ok := map[string]step{
		"webhook_dead_letter":         {"Look at failed deliveries and replay them", "/deliveries?state=failed"},
		"webhook_queue_stalled":       {"See which nodes run a worker", "#nodes"},
		"github_unavailable":          {"See the breakers", "#breakers"},
		"webhook_watchdog_stale":      {"See the watchdog's last error", "#watchdog"},
		"webhook_repairs_pending":     {"See the open repairs", "/repairs?state=open"},
		"webhook_config_drift":        {"See what to click at GitHub", "#sources"},
		"webhook_delivery_failing":    {"Compare the URL that GitHub calls", "#sources"},
		"webhook_double_subscription": {"See the triggers", "/triggers"},
		"config_mismatch":             {"See which nodes to reload", "#nodes"},
		"run_uncertain":               {"Look at each and resolve or retry it", "/runs?state=uncertain"},
		"run_dropped":                 {"Look at what was dropped and retry it", "/runs?state=dropped&since=1h"},
		"trigger_failing":             {"Look at the failed runs", "/runs?state=failed"},
	}[c.Type]
	if !ok {
		return nil
	}
	return &s
}
