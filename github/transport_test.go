package github_test

import (
	"crypto/x509"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-de999ace/preloop/breaker"
	"github.com/seed-de999ace/preloop/fixtures/githubfake"
	"github.com/seed-de999ace/preloop/github"
)

// TestPrivateCA calls an Enterprise Server over TLS, with its CA and without.
func TestPrivateCA(t *testing.T) {
	fake := githubfake.New(githubfake.Options{URL: "https://ghe.example.test/api/v3"})
	server := httptest.NewTLSServer(fake)
	defer server.Close()
	fake.SetURL(server.URL + "/api/v3")
	fake.AddToken(userToken)
	endpoint, err := github.ParseEndpoint(fake.URL())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for name, pool := range map[string]*x509.CertPool{"trusted": roots, "unknown": x509.NewCertPool()} {
		t.Run(name, func(t *testing.T) {
			client, err := github.NewToken(github.TokenCredential{SourceKey: "x", Token: userToken}, github.Options{
				Endpoint: endpoint, RootCAs: pool, Breakers: breaker.New(breaker.Options{Settings: breaker.Defaults(), Host: endpoint.Host()}),
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.RateLimits(t.Context())
			if pool == roots {
				if err != nil {
					t.Errorf("with its CA: %v", err)
				}
				return
			}
			if u := unavailable(t, err); !strings.Contains(u.Reason, "certificate") {
				t.Errorf("without its CA: %v", err)
			}
		})
	}
}

func TestGHToken(t *testing.T) {
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("GH_CONFIG_DIR", t.TempDir())
	t.Setenv("GH_PATH", filepath.Join(t.TempDir(), "no-gh"))
	t.Setenv("PATH", t.TempDir())
	hub, _ := github.ParseEndpoint("")
	ghes, _ := github.ParseEndpoint("https://ghe.example.test/api/v3")
	if _, _, err := github.GHToken(hub); err == nil || !strings.Contains(err.Error(), "gh auth login") {
		t.Errorf("without any: %v", err)
	}
	t.Setenv("GH_TOKEN", "one")
	t.Setenv("GH_ENTERPRISE_TOKEN", "two")
	for endpoint, want := range map[github.Endpoint]string{hub: "one", ghes: "two"} {
		if token, _, err := github.GHToken(endpoint); token != want || err != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}
