package github_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/fixtures/githubfake"
	"github.com/seed-de999ace/preloop/github"
)

const mintRoute = "POST /app/installations/{id}/access_tokens"

func TestReadingRepositories(t *testing.T) {
	for _, by := range []string{"app", "app without the installation's id", "token"} {
		t.Run(by, func(t *testing.T) {
			w := newWorld(t, githubfake.Options{})
			client, repo := w.app, widgets
			switch by {
			case "token":
				client = w.token
			case "app without the installation's id":
				repo.Installation = 0
			}
			files, err := client.PullRequestFiles(t.Context(), repo, 7)
			if err != nil || files.Truncated || !slices.Equal(files.Paths, []string{"new.go", "old.go", "b.go"}) {
				t.Errorf("files: %+v, %v", files, err)
			}
			files, err = client.CompareFiles(t.Context(), repo, "a1", "b2")
			if err != nil || files.Truncated || !slices.Equal(files.Paths, []string{"c.go"}) {
				t.Errorf("compare: %+v, %v", files, err)
			}
			files, err = client.CompareFiles(t.Context(), repo, "main", "feature/x")
			if err != nil || !slices.Equal(files.Paths, []string{"d.go"}) {
				t.Errorf("compare: %+v, %v", files, err)
			}
			for login, want := range map[string]github.Role{"ann": github.RoleMaintain, "bob": github.RoleWrite} {
				if role, err := client.Permission(t.Context(), repo, login); err != nil || role != want {
					t.Errorf("permission of %s: %s, %v", login, role, err)
				}
			}
			if role, err := client.Permission(t.Context(), repo, "odd"); err == nil {
				t.Errorf("a role nobody knows is %s", role)
			}
			if _, err := client.Permission(t.Context(), repo, "nobody"); !errors.Is(err, github.ErrNotFound) {
				t.Errorf("unknown user: %v", err)
			}
			before := len(w.Requests())
			if _, err := client.Permission(t.Context(), repo, "../../app"); err == nil || len(w.Requests()) != before {
				t.Errorf("a login that climbs: %v", err)
			}
		})
	}
}

func TestManyFiles(t *testing.T) {
	for n, truncated := range map[int]bool{0: false, 100: false, 250: false, 2999: false, 3500: true} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t, githubfake.Options{})
			var list []githubfake.File
			for i := range n {
				list = append(list, githubfake.File{Name: fmt.Sprint(i)})
			}
			w.AddRepo(githubfake.Repo{ID: 9002, FullName: "acme/big", Pulls: map[int64][]githubfake.File{1: list}, Compares: map[string][]githubfake.File{"a...b": list}})
			repo := github.Repo{FullName: "acme/big"}
			files, err := w.token.PullRequestFiles(t.Context(), repo, 1)
			if err != nil || len(files.Paths) != min(n, 3000) || files.Truncated != truncated {
				t.Errorf("%d files, truncated %v, %v", len(files.Paths), files.Truncated, err)
			}
			if calls := w.Calls("GET /repos/{owner}/{repo}/pulls/{number}/files"); calls != max((min(n, 3000)+99)/100, 1) {
				t.Errorf("%d calls", calls)
			}
			files, err = w.token.CompareFiles(t.Context(), repo, "a", "b")
			if err != nil || len(files.Paths) != min(n, 300) || files.Truncated != (n >= 300) {
				t.Errorf("compare: %d files, truncated %v, %v", len(files.Paths), files.Truncated, err)
			}
		})
	}
}

func TestTokensAreCachedAndNarrow(t *testing.T) {
	for name, o := range map[string]githubfake.Options{"classic": {Classic: true}, "long": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, o)
				w.AddRepo(githubfake.Repo{ID: 9002, FullName: "acme/secret"})
				read := func() {
					t.Helper()
					if _, err := w.app.PullRequestFiles(t.Context(), widgets, 7); err != nil {
						t.Fatal(err)
					}
				}
				read()
				read()
				if n := w.Calls(mintRoute); n != 1 {
					t.Errorf("%d tokens for two reads", n)
				}
				time.Sleep(54 * time.Minute)
				read()
				if n := w.Calls(mintRoute); n != 1 {
					t.Errorf("%d tokens within their hour", n)
				}
				time.Sleep(2 * time.Minute)
				read()
				if n := w.Calls(mintRoute); n != 2 {
					t.Errorf("%d tokens when the first was about to expire", n)
				}
				if _, err := w.app.CompareFiles(t.Context(), widgets, "a1", "b2"); err != nil {
					t.Fatal(err)
				}
				if n := w.Calls(mintRoute); n != 3 {
					t.Errorf("%d tokens: other permissions need another one", n)
				}
			})
		})
	}
}

func TestManyReadersMintOnce(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := w.app.Permission(t.Context(), widgets, "ann"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := w.Calls(mintRoute); n != 1 {
		t.Errorf("%d tokens", n)
	}
}

func TestTokensThatGitHubDoesNotKnow(t *testing.T) {
	t.Run("yet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, githubfake.Options{TokenLag: 1500 * time.Millisecond})
			began := time.Now()
			if _, err := w.app.Permission(t.Context(), widgets, "ann"); err != nil || time.Since(began) != 2*time.Second {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
			if n := w.Calls(mintRoute); n != 1 {
				t.Errorf("%d tokens", n)
			}
		})
	})
	t.Run("any more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, githubfake.Options{})
			const route = "GET /repos/{owner}/{repo}/collaborators/{user}/permission"
			if _, err := w.app.Permission(t.Context(), widgets, "ann"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			w.Fault(route, 1, githubfake.Refuse(401, "Bad credentials"))
			if _, err := w.app.Permission(t.Context(), widgets, "ann"); err != nil {
				t.Errorf("a revoked token was not renewed: %v", err)
			}
			if n := w.Calls(mintRoute); n != 2 {
				t.Errorf("%d tokens", n)
			}
		})
	})
	t.Run("ever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, githubfake.Options{})
			const route = "GET /repos/{owner}/{repo}/collaborators/{user}/permission"
			w.Fault(route, 0, githubfake.Refuse(401, "Bad credentials"))
			_, err := w.app.Permission(t.Context(), widgets, "ann")
			if !errors.Is(err, github.ErrUnauthorized) || w.Calls(route) > 4 {
				t.Errorf("after %d calls: %v", w.Calls(route), err)
			}
		})
	})
}

func TestMintingForARun(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	ask := github.TokenRequest{Installation: installation, Repositories: []string{"widgets"}, Permissions: map[string]string{"issues": "write"}}
	one, err := w.app.MintToken(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	two, err := w.app.MintToken(t.Context(), ask)
	if err != nil || one.Token == two.Token || w.Tokens() != 2 {
		t.Fatalf("two runs share a token: %v", err)
	}
	if one.Permissions["issues"] != "write" || len(one.Permissions) != 1 || time.Until(one.ExpiresAt) < 59*time.Minute {
		t.Errorf("got %v until %s", one.Permissions, one.ExpiresAt)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", one, one, one, one); strings.Contains(text, "ghs_") {
		t.Errorf("the token prints: %s", text)
	}
	for range 2 { // revoking what is revoked is fine
		if err := w.app.RevokeToken(t.Context(), one); err != nil {
			t.Error(err)
		}
	}
	if n := w.Tokens(); n != 1 {
		t.Errorf("%d tokens are left", n)
	}
	if _, err := w.token.MintToken(t.Context(), ask); err == nil {
		t.Error("a token minted a token")
	}
}

func TestRefusedTokens(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*world)
		is    error
		hint  string
	}{
		"suspended": {func(w *world) {
			w.EditInstallation(installation, func(i *githubfake.Installation) { i.Suspended = true })
		}, github.ErrSuspended, "unsuspend"},
		"uninstalled": {func(w *world) {
			w.EditInstallation(installation, func(i *githubfake.Installation) { i.Deleted = true })
		}, github.ErrNotInstalled, "install it"},
		"permission not granted": {func(w *world) {
			w.EditInstallation(installation, func(i *githubfake.Installation) { i.Permissions = map[string]string{"metadata": "read"} })
		}, github.ErrTokenRefused, "grant the app these permissions"},
		"repository not covered": {func(w *world) {
			w.EditInstallation(installation, func(i *githubfake.Installation) { i.Repos = []string{"acme/other"} })
		}, github.ErrTokenRefused, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, githubfake.Options{})
			tc.spoil(w)
			_, err := w.app.PullRequestFiles(t.Context(), widgets, 7)
			if !errors.Is(err, tc.is) || !errors.Is(err, github.ErrTokenRefused) || errors.Is(err, github.ErrNotFound) {
				t.Errorf("got %v", err)
			}
			if !strings.Contains(err.Error(), tc.hint) {
				t.Errorf("no word of %q: %v", tc.hint, err)
			}
			if host, credentials := w.breakers.Snapshot(time.Now()); host.Failures != 0 || credentials[0].Open {
				t.Error("a refusal counts against GitHub")
			}
		})
	}
}

func TestMissingPermissionOfACall(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	token, err := w.app.MintToken(t.Context(), github.TokenRequest{Installation: installation, Permissions: map[string]string{"issues": "read"}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := github.NewToken(github.TokenCredential{SourceKey: "x", Token: token.Token}, w.options)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.PullRequestFiles(t.Context(), github.Repo{FullName: "acme/widgets"}, 7)
	if !strings.Contains(err.Error(), "needs the permission pull_requests=read") {
		t.Errorf("got %v", err)
	}
}

func TestUnavailableWhileMinting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, githubfake.Options{})
		w.Fault(mintRoute, 1, githubfake.Unicorn(502))
		_, err := w.app.PullRequestFiles(t.Context(), widgets, 7)
		if u := unavailable(t, err); u.BreakerOpen || u.RetryIn != 0 {
			t.Errorf("got %+v", u)
		}
		w.Fault(mintRoute, 1, w.SecondaryLimit(403, time.Minute))
		_, err = w.app.MintToken(t.Context(), github.TokenRequest{Installation: installation})
		if u := unavailable(t, err); !u.RateLimited || u.RetryIn != time.Minute || errors.Is(err, github.ErrTokenRefused) {
			t.Errorf("got %+v", u)
		}
	})
}

func TestRateLimitDocument(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	limits, err := w.token.RateLimits(t.Context())
	if core := limits["core"]; err != nil || core.Limit != 5000 || time.Until(core.ResetAt()) < 29*time.Minute {
		t.Errorf("got %+v, %v", limits, err)
	}
	w.Configure(func(o *githubfake.Options) { o.NoLimits = true })
	if limits, err := w.token.RateLimits(t.Context()); limits != nil || err != nil {
		t.Errorf("without limits: %+v, %v", limits, err)
	}
}

// TestRecovery lets the breakers' own probes find GitHub again, with either credential.
func TestRecovery(t *testing.T) {
	for _, by := range []string{"app", "token"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, githubfake.Options{})
				client, route := w.app, "GET /app"
				if by == "token" {
					client, route = w.token, "GET /rate_limit"
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go w.breakers.Run(ctx, github.Prober(func() []*github.Client { return []*github.Client{client} }))
				w.Fault("", 0, githubfake.Unicorn(503))
				for range 3 {
					_, err := client.RepoInstallation(t.Context(), "acme/widgets")
					unavailable(t, err)
				}
				time.Sleep(45 * time.Second)
				if n := w.Calls(route); n != 2 {
					t.Errorf("%d probes, want one for the host and one for the credential", n)
				}
				w.ClearFaults()
				time.Sleep(50 * time.Second)
				if _, open := w.breakers.Gate(time.Now()); !open || w.breakers.Wait(client.BreakerKey(), time.Now()) != 0 {
					t.Error("no recovery")
				}
				if n := w.Calls(route); n != 4 {
					t.Errorf("%d probes in the end", n)
				}
			})
		})
	}
}

// TestFreeProbeSeesTheLimit: /rate_limit succeeds while everything else is still refused.
func TestFreeProbeSeesTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, githubfake.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.breakers.Run(ctx, github.Prober(func() []*github.Client { return []*github.Client{w.app, w.token} }))
		w.Fault("GET /repos/{owner}/{repo}/hooks/{hook}", 1, w.SecondaryLimit(403, 0))
		w.Fault("GET /rate_limit", 1, func(rw http.ResponseWriter, r *http.Request) {
			githubfake.Body(200, "application/json", fmt.Sprintf(`{"resources":{"core":{"limit":5000,"used":5000,"remaining":0,"reset":%d}}}`, time.Now().Add(10*time.Minute).Unix()))(rw, r)
		})
		_, err := w.token.Webhook(t.Context(), github.Hook{Repo: "acme/widgets", ID: 1})
		unavailable(t, err)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if wait := w.breakers.Wait(w.token.BreakerKey(), time.Now()); wait < 9*time.Minute {
			t.Errorf("after the probe the wait is %s", wait)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if wait := w.breakers.Wait(w.token.BreakerKey(), time.Now()); wait != 0 {
			t.Errorf("in the end the wait is %s", wait)
		}
	})
}

func TestProberKnowsItsClients(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	prober := github.Prober(func() []*github.Client { return []*github.Client{w.app} })
	for key, known := range map[string]bool{
		w.app.BreakerKey(): true, w.breakers.Host(): true,
		w.token.BreakerKey(): false, breaker.HostKey("other.example"): false, "": false,
	} {
		if got := prober(key) != nil; got != known {
			t.Errorf("%q: %v", key, got)
		}
	}
}

// TestNothingSecretIsTold runs into every refusal and looks for credentials in errors and logs.
func TestNothingSecretIsTold(t *testing.T) {
	w := newWorld(t, githubfake.Options{})
	var told strings.Builder
	for _, fault := range []http.HandlerFunc{
		githubfake.Refuse(401, "Bad credentials"), githubfake.Refuse(403, "no"), githubfake.Unicorn(502), githubfake.Reset(),
		func(rw http.ResponseWriter, r *http.Request) {
			githubfake.Refuse(422, "bad "+r.Header.Get("Authorization"))(rw, r)
		},
	} {
		w.Fault("", 0, fault)
		for _, c := range []*github.Client{w.app, w.token} {
			_, err := c.RepoInstallation(t.Context(), "acme/widgets")
			fmt.Fprintf(&told, "%v %+v\n", err, err)
			_, err = c.RateLimits(t.Context())
			fmt.Fprintf(&told, "%v %+v\n", err, err)
		}
		w.ClearFaults()
	}
	for _, secret := range []string{userToken, "ghs_", "eyJ", "PRIVATE KEY"} {
		if strings.Contains(told.String()+w.log.String(), secret) {
			t.Errorf("%q was told:\n%s\n%s", secret, told.String(), w.log)
		}
	}
}
