package postgres_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/postgres"
)

// bouncer starts a PgBouncer in transaction mode before the server and returns db's URL through it.
func bouncer(t *testing.T, db string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			t.Fatal("no pgbouncer: scripts/ensure pgbouncer installs it")
		}
	}
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	dir, err := os.MkdirTemp("", "preloop-pgbouncer-") //nolint:usetesting // its user must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("users", fmt.Sprintf("%q %q\n", u.User.Username(), password))
	write("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = plain
auth_file = %s/users
pool_mode = transaction
default_pool_size = 4
`, u.Hostname(), u.Port(), u.User.Username(), password, port, dir))
	args := []string{"-q", filepath.Join(dir, "pgbouncer.ini")}
	if os.Geteuid() == 0 { // it refuses to run as root
		if out, err := exec.Command("chown", "-R", "postgres", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		args = append([]string{"--reuid=postgres", "--regid=postgres", "--init-groups", program}, args...)
		program = "setpriv"
	}
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for deadline := time.Now().Add(20 * time.Second); ; {
		c, err := net.DialTimeout("tcp", at, time.Second)
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("pgbouncer does not listen: %v", err)
		}
	}
	u.Host = at
	return u.String()
}

// TestThroughAPooler works on connections that change hands after every transaction.
func TestThroughAPooler(t *testing.T) {
	db := newDatabase(t)
	pooled := bouncer(t, db)
	a := open(t, pooled, postgres.Options{ListenURL: db})
	b := open(t, pooled, postgres.Options{})
	wakes := wakesOf(t, a)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() { enqueue(t, b, push(fmt.Sprint("d", i))) })
	}
	wg.Wait()
	awaitWake(t, wakes, "through the direct connection")
	for _, s := range []*postgres.Store{a, b} {
		wg.Go(func() { process(t, s, queue.Admission{Trigger: "deploy", QueueSize: 100, QueueWait: time.Hour}) })
	}
	wg.Wait()
	claims, _, err := a.ClaimRuns(t.Context(), "node", []queue.DispatchRule{{Trigger: "deploy", Concurrency: 20}}, 20)
	if err != nil || len(claims) != 20 {
		t.Fatalf("%d runs, %v; want 20", len(claims), err)
	}
	for _, c := range claims {
		wg.Go(func() {
			if _, err := b.SettleRun(t.Context(), c.Lease, queue.Outcome{State: queue.Succeeded}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	counts, err := b.Counts(t.Context())
	if err != nil || counts.Runs[queue.Succeeded] != 20 || counts.Runs[queue.Waiting] != 44 {
		t.Errorf("counts %+v, %v; want 20 succeeded, 44 waiting", counts.Runs, err)
	}
	if note := a.Note(); note != "" {
		t.Errorf("with a direct connection: note %q, want none", note)
	}
}

// TestAListenerThatHearsNothing notices that a pooler swallows notifications, and says so.
func TestAListenerThatHearsNothing(t *testing.T) {
	s := open(t, bouncer(t, newDatabase(t)), postgres.Options{Serve: true})
	for deadline := time.Now().Add(30 * time.Second); s.Note() == ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no note after 30 s")
		}
	}
	if note := s.Note(); !strings.Contains(note, "polling") {
		t.Errorf("note %q", note)
	}
	if err := s.Heartbeat(t.Context(), queue.Node{ID: "node"}); err != nil {
		t.Fatal(err)
	}
	nodes, err := s.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || !strings.Contains(nodes[0].Note, "polling") {
		t.Errorf("nodes %+v, %v; want the note", nodes, err)
	}
}
