package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed-de999ace/preloop/fixtures"
	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// delivery is one of GitHub's as it is sent to preloop.
type delivery struct {
	name, guid, event string
	body              []byte // JSON, as a target must get it
	form              bool   // sent in a form
	title             string // of the issue, where it is to be compared; in hexadecimal UTF-16
}

// stranger is the event whose triggers sign with a secret that is not their targets'.
const stranger = "gollum"

// deliveries are GitHub's in all their kinds, and those that would show a byte that was changed.
func deliveries() []delivery {
	var all []delivery
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	add := func(name, event string, body []byte) *delivery {
		all = append(all, delivery{name: name, guid: harness.GUID(r), event: event, body: body})
		return &all[len(all)-1]
	}
	for _, p := range fixtures.All() {
		if !utf8.Valid(p.Body) {
			continue // both receivers verify a body as text, and GitHub sends nothing else
		}
		add(p.Name, p.Event, p.Body)
	}
	for i, title := range []string{
		`"Grüße, 世界 👩‍👩‍👧 \ud83d\ude00"`,                 // composed, beyond the BMP, escaped and not
		`"\u0000 \u2028\u2029 \/ \u007f\u0080 &<>'"`,     // what encoders escape each in their own way
		`"\ud800 alone, and \udc00"`,                     // surrogates that no UTF-8 has
		"\"e\u0301 \u00e9 \ufeff \u202e\"", `"\u00e9\t"`, // the same letter twice, marks that cannot be seen
	} {
		body := fmt.Sprintf("{ \"action\" : \"opened\",\n\t\"issue\":{\"number\":%d,\"id\":9223372036854775807,\"score\":1.50e+2,\"title\":%s},\r\n"+
			"\"repository\":{\"id\":724001,\"full_name\":\"acme/widgets\"},\"sender\":{\"login\":\"mira-holt\"}, \"z\":1, \"a\":2 }", i+1, title)
		add("text "+title, "issues", []byte(body)).title = utf16Of(title)
	}
	add("in a form", "issues", []byte(`{"action":"opened","issue":{"number":7,"title":"a+b & c=d % é"},"repository":{"full_name":"acme/widgets"}}`)).form = true
	for page := range 3 {
		add("under another secret", stranger, fmt.Appendf(nil, `{"pages":[{"page_name":"page %d"}],"repository":{"full_name":"acme/widgets"}}`, page))
	}
	add("1 MiB", "push", fixtures.Push(1<<20))
	add("24 MiB", "push", fixtures.Push(24<<20))
	return all
}

// utf16Of is a JSON string's value as a receiver in JavaScript has it.
func utf16Of(text string) string {
	var units []uint16
	text = text[1 : len(text)-1]
	for text != "" {
		var unit uint16
		switch {
		case strings.HasPrefix(text, `\u`):
			_, _ = fmt.Sscanf(text[2:6], "%04x", &unit)
			units, text = append(units, unit), text[6:]
		case strings.HasPrefix(text, `\t`):
			units, text = append(units, '\t'), text[2:]
		case strings.HasPrefix(text, `\/`):
			units, text = append(units, '/'), text[2:]
		default:
			for _, letter := range text {
				units = utf16.AppendRune(units, letter)
				text = text[len(string(letter)):]
				break
			}
		}
	}
	var hex strings.Builder
	for _, unit := range units {
		fmt.Fprintf(&hex, "%02x%02x", unit&0xff, unit>>8)
	}
	return hex.String()
}

// strangers are those that no receiver may take.
func strangers(all []delivery) []delivery {
	return slices.DeleteFunc(slices.Clone(all), func(d delivery) bool { return d.event != stranger })
}

func size(all []delivery) string {
	n := 0
	for _, d := range all {
		n += len(d.body)
	}
	return fmt.Sprintf("%d MB", n/1_000_000)
}

// headers are those of GitHub that are passed on.
func (d delivery) headers() map[string]string {
	return map[string]string{
		"User-Agent": "GitHub-Hookshot/044aadd", "X-GitHub-Event": d.event, "X-GitHub-Delivery": d.guid, "X-GitHub-Hook-ID": "292430182",
		"X-GitHub-Hook-Installation-Target-Type": "integration", "X-GitHub-Hook-Installation-Target-ID": "79929171",
	}
}

// send delivers as GitHub does.
func (d delivery) send(ctx context.Context, addr string) error {
	body, kind := d.body, "application/json"
	if d.form {
		body, kind = []byte(url.Values{"payload": {string(body)}}.Encode()), "application/x-www-form-urlencoded"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+harness.WebhookPath, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range d.headers() {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("X-Hub-Signature-256", github.Sign([]byte(harness.Secret), body))
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("answered %d: %s", answer.StatusCode, text)
	}
	return nil
}

// triggers forward everything to both receivers, and what strangers send under another secret. The
// secrets are files in dir.
func triggers(dir string, all ...*receiver) (string, error) {
	events := map[string]bool{}
	for _, d := range deliveries() {
		events[d.event] = d.event != stranger
	}
	var on []string
	for name, wanted := range events {
		if wanted {
			on = append(on, name)
		}
	}
	slices.Sort(on)
	var b strings.Builder
	b.WriteString("triggers:\n")
	secret := func(name, value string) (string, error) {
		file := filepath.Join(dir, name+".secret")
		return ", secret: { file: " + file + " }", os.WriteFile(file, []byte(value), 0o600)
	}
	wrong, err := secret("wrong", "another secret than the target's")
	if err != nil {
		return "", err
	}
	for _, r := range all {
		own := ""
		if !r.shared {
			if own, err = secret(r.name, r.secret); err != nil {
				return "", err
			}
		}
		trigger(&b, r.name, strings.Join(on, ", "), r.url(), own)
		trigger(&b, r.name+"-stranger", stranger, r.url(), wrong)
	}
	return b.String(), nil
}

func trigger(b *strings.Builder, name, on, url, secret string) {
	fmt.Fprintf(b, `  - name: %s
    on: [%s]
    bots: true
    concurrency: 4
    loop_limit: none
    queue: { size: 1000 }
    run: { http: { url: %s%s } }
`, name, on, url, secret)
}
