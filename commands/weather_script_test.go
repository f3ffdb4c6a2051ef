package commands

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-de999ace/preloop/fixtures/githubfake"
)

// githubCommand is the scripts' fake GitHub, which ends with the script:
//
//	github WORLD.json            serves the world at $PRELOOP_GITHUB_API_URL; its apps have key.pem
//	github METHOD PATH [BODY]    asks its remote control, and prints the answer
func githubCommand(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case neg || len(args) == 0:
		ts.Fatalf("usage: github WORLD.json | github METHOD PATH [BODY]")
	case len(args) == 1:
		fake, err := githubfake.ReadWorld(strings.NewReader(ts.ReadFile(args[0])), &fakeKey().PublicKey)
		ts.Check(err)
		api, control := httptest.NewServer(fake), httptest.NewServer(fake.Control())
		ts.Defer(func() { api.Close(); control.Close() })
		fake.SetURL(api.URL)
		ts.Setenv("PRELOOP_GITHUB_API_URL", api.URL)
		ts.Setenv("GITHUB_CONTROL", control.URL)
		key := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(fakeKey())})
		ts.Check(os.WriteFile(ts.MkAbs("key.pem"), key, 0o600))
	default:
		r, err := http.NewRequest(args[0], ts.Getenv("GITHUB_CONTROL")+args[1], strings.NewReader(strings.Join(args[2:], " ")))
		ts.Check(err)
		resp, err := http.DefaultClient.Do(r)
		ts.Check(err)
		defer resp.Body.Close() //nolint:errcheck // it was read
		body, err := io.ReadAll(resp.Body)
		ts.Check(err)
		if resp.StatusCode != http.StatusOK {
			ts.Fatalf("%s: %s", resp.Status, body)
		}
		_, err = ts.Stdout().Write(body)
		ts.Check(err)
	}
}
