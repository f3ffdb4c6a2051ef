package dashboard_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/seed-de999ace/preloop/queue"
)

// host is a name that browsers do not trust as they trust localhost, so that what plain HTTP in a
// private network lacks is lacking here too.
const host = "preloop.test"

var browsers = []string{
	"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell",
	"/Applications/Chromium.app/Contents/MacOS/Chromium", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
}

func browser(t *testing.T) string {
	t.Helper()
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("there is no Chromium or Chrome: `scripts/ensure chromium` installs it")
	return ""
}

// tab is a page of a real browser.
type tab struct {
	*world
	ctx context.Context
}

func (w *world) openTab() *tab {
	w.Helper()
	profile, err := os.MkdirTemp("", "preloop-browser")
	w.must(err)
	w.Cleanup(func() { _ = os.RemoveAll(profile) }) // the browser may still be writing to it
	alloc, stop := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(browser(w.T)), chromedp.UserDataDir(profile), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("host-resolver-rules", "MAP "+host+" 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.WSURLReadTimeout(time.Minute),
	)
	w.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	w.Cleanup(cancel)
	w.must(chromedp.Do(ctx))
	w.must(chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			w.Errorf("the page threw %s", ev.ExceptionDetails.Text)
		case *log.EventEntryAdded: // what the policy blocks, above all
			if ev.Entry.Source == log.EntrySourceSecurity || ev.Entry.Source == log.EntrySourceJavascript {
				w.Errorf("the browser complains: %s", ev.Entry.Text)
			}
		}
	}))
	_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	w.must(err)
	ctx, late := context.WithTimeout(ctx, 2*time.Minute)
	w.Cleanup(late)
	return &tab{w, ctx}
}

func (b *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatalf("%s: %v", what, err)
	}
}

// awaits asks the page until an expression holds. The page's policy forbids the evaluation inside
// it that the library's own polling needs.
func (b *tab) awaits(what, expression string) {
	b.Helper()
	again := time.NewTicker(25 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-again.C {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && ok { // an error: the page is between two addresses
			return
		}
	}
	html, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.documentElement.outerHTML"))
	b.Fatalf("%s: %s does not come true\n%s", what, expression, html)
}

func (b *tab) shows(words string) {
	b.Helper()
	b.awaits("waiting for "+words, "document.body.innerText.includes("+strconv.Quote(words)+")")
}

func (b *tab) number(expression string) int {
	b.Helper()
	n, err := chromedp.Run(b.ctx, chromedp.Evaluate[int](expression))
	b.must(err)
	return n
}

func (b *tab) run(expression string) {
	b.Helper()
	b.do(expression, chromedp.Evaluate[chromedp.Void](expression))
}

// picture keeps what the page looks like where PRELOOP_SCREENSHOTS says, for people.
func (b *tab) picture(name string) {
	b.Helper()
	dir := os.Getenv("PRELOOP_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	b.must(err)
	b.must(os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
}

func TestInABrowser(t *testing.T) {
	w, paths := hostileWorld(t)
	w.publishTriggers("triage")
	w.must(w.store.Heartbeat(t.Context(), queue.Node{ID: "web-1-5f2c", Host: "web-1", PID: 4711, Version: "1.0.0", Components: []string{"ingress", "worker", "watchdog"}, StartedAt: time.Now(), TriggersLoadedAt: time.Now()}))
	sampling, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go w.sampler.Run(sampling) //nolint:errcheck // it has none
	w.enqueue()
	run := w.decide("triage")
	server := httptest.NewServer(w.pages)
	t.Cleanup(func() { w.pages.Close(); server.Close() })
	site := strings.Replace(server.URL, "127.0.0.1", host, 1)
	b := w.openTab()

	// Log in, by keyboard alone; from a page that needs it, back to that page.
	b.do("opening the runs", chromedp.Navigate(site+"/runs?trigger=triage"))
	b.shows("System token")
	b.picture("login")
	b.do("a wrong token", chromedp.KeyEvent("wrong"+kb.Enter))
	b.shows("That is not the system token.")
	b.do("the token", chromedp.KeyEvent(systemToken+kb.Enter))
	b.shows("acme/widgets#7")
	b.awaits("going live", `document.getElementById("live").textContent === "live"`)

	// What happens shows without a reload, and the filters keep what is being typed.
	b.do("typing", chromedp.SetValue(`input[name=subject]`, "half typed"))
	b.run(`window.stayed = true`)
	w.enqueue(func(d *queue.Delivery) { d.Subject, d.SubjectNum = "acme/widgets#8", 8 })
	w.decide("triage")
	b.shows("acme/widgets#8")
	b.awaits("what was typed", `window.stayed && document.querySelector("input[name=subject]").value === "half typed"`)

	// A button by keyboard, while its section is being replaced under the focus.
	b.do("one run", chromedp.Navigate(site+"/runs/"+run.ID), chromedp.Focus("#cancel"))
	b.run(`document.getElementById("cancel").old = true`)
	w.end("triage", queue.Outcome{State: queue.Uncertain, Reason: queue.ReasonTimeout, Error: "no answer within 30 s", Output: []byte("cloning\nworking\n")})
	b.shows("no answer within 30 s")
	b.awaits("the focus on the new button", `document.activeElement.id === "cancel" && !document.activeElement.old`)
	b.picture("run")
	b.do("pressing it", chromedp.KeyEvent(kb.Enter))
	b.shows("The run is being canceled.")
	if got := w.runState(run.ID); got != queue.Canceled {
		t.Errorf("the run is %s, want canceled", got)
	}
	b.do("the first tab stop", chromedp.Navigate(site+"/triggers"), chromedp.KeyEvent(kb.Tab))
	b.awaits("the skip link", `document.activeElement.className === "skip" && document.activeElement.getBoundingClientRect().left >= 0`)

	// Every page: no markup of strangers, no script of theirs, wide and narrow, light and dark.
	shapes := []struct {
		name   string
		width  int64
		scheme string
	}{{"dark", 1280, "dark"}, {"desktop", 1280, "light"}, {"phone", 360, "light"}}
	for i, path := range append(paths[:8:8], "/runs?trigger=triage") {
		b.do("GET "+path, chromedp.Navigate(site+path))
		if n := b.number(`document.querySelectorAll("main script, [onmouseover]").length`); n != 0 {
			t.Errorf("%s has %d elements of a stranger's", path, n)
		}
		for _, shape := range shapes {
			b.do("the shape", chromedp.EmulateViewport(shape.width, 800))
			_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: shape.scheme}}})
			w.must(err)
			if n := b.number(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); n > 0 {
				t.Errorf("%s, %s: %d px too wide", shape.name, path, n)
			}
			bright := b.number(`Number(getComputedStyle(document.body).backgroundColor.match(/\d+/)[0])`) > 128
			if bright != (shape.scheme == "light") {
				t.Errorf("%s, %s: a bright background: %v", shape.name, path, bright)
			}
			b.picture(shape.name + "-" + strconv.Itoa(i))
		}
	}
	// An alert would have stopped the page.
	b.do("leaving", chromedp.Navigate(site+"/"))
	b.do("logging out", chromedp.Click("header button"))
	b.shows("System token")
}
