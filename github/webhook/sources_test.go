package webhook

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-de999ace/preloop/fixtures"
	"github.com/seed-de999ace/preloop/github"
)

func TestWhichSecretSigned(t *testing.T) {
	payload := string(fixtures.Get("issues.opened").Body)
	for name, tt := range map[string]struct {
		secret                    string
		options                   []func(*http.Request)
		source, sourceName, named string
	}{
		"current":                  {appSecret, nil, "app-12345", "acme-bot", "current"},
		"old":                      {oldSecret, nil, "app-12345", "acme-bot", "old"},
		"hook":                     {hookSecret, nil, "hook-4711", "hook-4711", "1"},
		"org hook":                 {orgSecret, nil, "hook-4713", "acme-org", "1"},
		"target of another source": {oldSecret, []func(*http.Request){with("X-GitHub-Hook-Installation-Target-ID", "99")}, "app-12345", "acme-bot", "old"},
		"target that is no number": {oldSecret, []func(*http.Request){with("X-GitHub-Hook-Installation-Target-ID", "x")}, "app-12345", "acme-bot", "old"},
		"no target at all": {hookSecret, []func(*http.Request){
			with("X-GitHub-Hook-Installation-Target-ID", ""), with("X-GitHub-Hook-Installation-Target-Type", ""),
		}, "hook-4711", "hook-4711", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(store)
			rc, _ := receiver(Config{}, s)
			wantAnswer(t, post(rc, request(payload, append(tt.options, signedBy(tt.secret))...)), 202, accepted("accepted"))
			if len(s.rows) != 1 {
				t.Fatalf("%d rows", len(s.rows))
			}
			if got := s.rows[0]; got.Source != tt.source || got.SourceName != tt.sourceName || got.Secret != tt.named {
				t.Errorf("source %s %s, secret %s", got.Source, got.SourceName, got.Secret)
			}
		})
	}
}

// Of two sources with one secret, which is a configuration error elsewhere, the headers choose.
func TestTargetOrdersTheTries(t *testing.T) {
	shared := []Secret{{Name: "1", Value: []byte(appSecret)}}
	set := newSourceSet([]Source{
		{Key: "hook-1", TargetType: "repository", Secrets: shared},
		{Key: "app-1", TargetType: "integration", TargetID: 1, Secrets: shared},
		{Key: "app-2", TargetType: "integration", TargetID: 2, Secrets: shared},
	})
	body := []byte("{}")
	sig, _ := github.ParseSignature(github.Sign([]byte(appSecret), body))
	for _, tt := range []struct {
		kind string
		id   int64
		want string
	}{{"integration", 2, "app-2"}, {"integration", 1, "app-1"}, {"repository", 77, "hook-1"}, {"", 0, "hook-1"}, {"integration", 3, "hook-1"}} {
		from, ok := set.verify(&head{signature: sig, targetType: tt.kind, targetID: tt.id}, body)
		if !ok || from.source.Key != tt.want {
			t.Errorf("%s %d: %+v, want %s", tt.kind, tt.id, from, tt.want)
		}
	}
}

func TestHookSpeaksOnlyForItsOwn(t *testing.T) {
	repository := func(name string) string { return `{"repository":{"full_name":"` + name + `"}}` }
	for name, tt := range map[string]struct {
		secret, body string
		status       int
	}{
		"its repository":                {hookSecret, repository("acme/widgets"), 202},
		"its repository in other case":  {hookSecret, repository("ACME/widgets"), 202},
		"another repository":            {hookSecret, repository("acme/gears"), 401},
		"another that begins like it":   {hookSecret, repository("acme/widgets2"), 401},
		"no repository":                 {hookSecret, `{"organization":{"login":"acme"}}`, 401},
		"last duplicate is another":     {hookSecret, `{"repository":{"full_name":"acme/widgets"},"repository":{"full_name":"acme/gears"}}`, 401},
		"its organization":              {orgSecret, `{"organization":{"login":"Acme"}}`, 202},
		"repository of it":              {orgSecret, repository("acme/gears"), 202},
		"another organization":          {orgSecret, `{"organization":{"login":"other"}}`, 401},
		"another, with its repository":  {orgSecret, `{"organization":{"login":"other"},"repository":{"full_name":"acme/widgets"}}`, 401},
		"no organization":               {orgSecret, `{}`, 401},
		"repository of another":         {orgSecret, repository("other/widgets"), 401},
		"an app speaks for any":         {appSecret, repository("other/widgets"), 202},
		"an app's event without either": {appSecret, `{}`, 202},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(store)
			rc, log := receiver(Config{}, s)
			w := post(rc, request(tt.body, signedBy(tt.secret)))
			if w.Code != tt.status || len(s.rows) != map[int]int{202: 1, 401: 0}[tt.status] {
				t.Errorf("answer %d %s, %d rows", w.Code, w.Body, len(s.rows))
			}
			if tt.status == 401 {
				wantRefusal(t, w, 401, "does not name the repository")
				if !strings.Contains(log.String(), "source=") {
					t.Errorf("the log does not name the source: %s", log)
				}
			}
		})
	}
}

// Secrets are rotated with two valid at once, without a restart.
func TestRotation(t *testing.T) {
	rc, _ := receiver(Config{}, new(store))
	status := func(secret string) int { return post(rc, request("{}", signedBy(secret))).Code }
	app := func(secrets ...Secret) []Source { return []Source{{Key: "app-1", Secrets: secrets}} }
	first, second := Secret{"first", []byte("1st")}, Secret{"second", []byte("2nd")}
	for _, step := range []struct {
		sources       []Source
		first, second int
	}{
		{app(first), 202, 401},
		{app(first, second), 202, 202},
		{app(second), 401, 202},
		{app(second, Secret{Name: "empty"}), 401, 202},
		{app(Secret{Name: "empty"}), 401, 401},
		{app(), 401, 401},
		{nil, 401, 401},
	} {
		rc.SetSources(step.sources)
		if a, b := status("1st"), status("2nd"); a != step.first || b != step.second {
			t.Errorf("%+v: %d, %d, want %d, %d", step.sources, a, b, step.first, step.second)
		}
		if got := status(""); got != 401 {
			t.Errorf("%+v: an empty secret is answered %d", step.sources, got)
		}
	}
}

func TestWithoutASecretNothingIsRead(t *testing.T) {
	rc, _ := receiver(Config{Sources: []Source{}}, new(store))
	r := request("{}")
	r.Body = untouchable{t}
	wantRefusal(t, post(rc, r), 401, "no webhook secret is configured")
}

func TestCallersMayWipeTheirSecrets(t *testing.T) {
	value := []byte("wiped later")
	rc, _ := receiver(Config{Sources: []Source{{Key: "app-1", Secrets: []Secret{{Value: value}}}}}, new(store))
	clear(value)
	wantAnswer(t, post(rc, request("{}", signedBy("wiped later"))), 202, accepted("accepted"))
}
