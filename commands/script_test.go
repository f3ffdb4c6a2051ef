package commands

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"preloop": func() { os.Exit(Main()) }})
}

// The scripts drive the real program. Each has a store of its own in $STORE, a free address in
// $ADDR, and the secrets that a server needs; `ready` waits until that server is, and
// `until` repeats a command until its output matches, `code` asks for an exit code, and
// `store` makes another store. The example scripts are in $SCRIPTS.
func TestScriptsOnSQLite(t *testing.T) {
	runScripts(t, "sqlite", func(e *testscript.Env) (string, error) {
		return "sqlite://" + filepath.Join(e.WorkDir, uuid.NewString()+".db"), nil
	})
}

func TestScriptsOnPostgres(t *testing.T) {
	server := postgresServer(t)
	runScripts(t, "postgres", func(e *testscript.Env) (string, error) { return database(server, e.Defer, e.T().Log) })
}

func postgresServer(t *testing.T) string {
	t.Helper()
	server := os.Getenv("PRELOOP_TEST_POSTGRES")
	if server == "" {
		t.Fatal("PRELOOP_TEST_POSTGRES names no server; `eval \"$(scripts/postgres env)\"` starts a private one, and scripts/test does that by itself")
	}
	return server
}

// database creates an empty database, and hands over how to drop it.
func database(server string, cleanup func(func()), log func(...any)) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	name := "script_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	admin := func(q string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			return err
		}
		defer conn.Close(ctx) //nolint:errcheck // the test is over with it
		_, err = conn.Exec(ctx, q)
		return err
	}
	if err := admin("CREATE DATABASE " + name); err != nil {
		return "", err
	}
	cleanup(func() {
		if err := admin("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			log(err)
		}
	})
	u.Path = "/" + name
	return u.String(), nil
}

func runScripts(t *testing.T, kind string, store func(*testscript.Env) (string, error)) {
	scripts, err := filepath.Abs("../scripts")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			url, err := store(e)
			if err != nil {
				return err
			}
			e.Values["store"] = func() (string, error) { return store(e) }
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			addr := l.Addr().String()
			_ = l.Close()
			e.Setenv("STORE", url)
			e.Setenv("PRELOOP_STORE_URL", url)
			e.Setenv("ADDR", addr)
			e.Setenv("PRELOOP_LISTEN", addr)
			e.Setenv("SERVER", "http://"+addr)
			e.Setenv("PRELOOP_WEBHOOK_SECRET", "It's a Secret to Everybody")
			e.Setenv("PRELOOP_SYSTEM_TOKEN", "a system token of the scripts")
			e.Setenv("STATE_DIRECTORY", filepath.Join(e.WorkDir, "state"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("SCRIPTS", scripts)
			return os.Mkdir(filepath.Join(e.WorkDir, "state"), 0o700)
		},
		Condition: func(cond string) (bool, error) { return cond == kind, nil },
		Cmds:      map[string]func(*testscript.TestScript, bool, []string){"ready": ready, "until": until, "github": githubCommand, "code": code, "store": anotherStore, "dead": deadLetters},
	})
}

// anotherStore sets a variable to the URL of a store that is not there yet, of the kind of $STORE.
func anotherStore(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: store VARIABLE")
	}
	url, err := ts.Value("store").(func() (string, error))()
	ts.Check(err)
	ts.Setenv(args[0], url)
}

// code N COMMAND… runs a command that has to exit with N.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND…")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if want := args[0]; strconv.Itoa(got) != want {
		ts.Fatalf("exit code %d, want %s", got, want)
	}
}

// ready waits for the server at $SERVER.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: ready")
	}
	client := &http.Client{Timeout: time.Second}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		resp, err := client.Get(ts.Getenv("SERVER") + "/readyz")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	ts.Fatalf("the server is not ready after 30 s")
}

// until TEXT COMMAND… repeats a command until a line of its standard output contains the text.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until TEXT COMMAND…")
	}
	last := ""
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		out := ts.ReadFile("stdout")
		if err == nil && strings.Contains(out, args[0]) {
			return
		}
		last = fmt.Sprintf("%v\n%s%s", err, out, ts.ReadFile("stderr"))
	}
	ts.Fatalf("%q did not come within 30 s; the last answer: %s", args[0], last)
}
