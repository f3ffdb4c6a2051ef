package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// asServer is a command that runs as the user that may run a database server.
func asServer(program string, args ...string) *exec.Cmd {
	if os.Geteuid() == 0 { // which they refuse to be
		return exec.Command("setpriv", append([]string{"--reuid=postgres", "--regid=postgres", "--init-groups", program}, args...)...)
	}
	return exec.Command(program, args...)
}

// private makes a folder of the server's user.
func private(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return command("chown", "postgres", dir)
	}
	return nil
}

// pooler is a PgBouncer in transaction mode.
type pooler struct {
	ini, addr string
	process   *exec.Cmd
}

func (p *pooler) start(ctx context.Context) error {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return errors.New("no pgbouncer: scripts/ensure pgbouncer installs it")
		}
	}
	p.process = asServer(program, "-q", p.ini)
	if err := p.process.Start(); err != nil {
		return err
	}
	for {
		if conn, err := net.Dial("tcp", p.addr); err == nil {
			return conn.Close()
		}
		if !sleep(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func (p *pooler) kill() {
	_ = p.process.Process.Kill() // it may have ended
	_ = p.process.Wait()
}

// startPooler puts a pooler between the nodes and the server. What listens goes past it.
func startPooler(ctx context.Context, w *world) error {
	u, err := url.Parse(w.admin)
	if err != nil {
		return err
	}
	addr, err := harness.FreeAddr()
	if err != nil {
		return err
	}
	dir := filepath.Join(w.dir, "pooler")
	if err := private(dir); err != nil {
		return err
	}
	password, _ := u.User.Password()
	_, port, _ := net.SplitHostPort(addr)
	w.pooler = &pooler{ini: filepath.Join(dir, "pgbouncer.ini"), addr: addr}
	for name, text := range map[string]string{
		"users": fmt.Sprintf("%q %q\n", u.User.Username(), password),
		"pgbouncer.ini": fmt.Sprintf("[databases]\n* = host=%s port=%s user=%s password=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\n"+
			"auth_type = plain\nauth_file = %s/users\npool_mode = transaction\ndefault_pool_size = 8\n", u.Hostname(), u.Port(), u.User.Username(), password, port, dir),
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		if os.Geteuid() == 0 {
			if err := command("chown", "postgres", file); err != nil {
				return err
			}
		}
	}
	u.Path = "/" + w.database
	w.listen = u.String()
	u.Host = addr
	w.store = u.String()
	w.undo = append(w.undo, w.pooler.kill)
	return w.pooler.start(ctx)
}

func stopPooler(_ context.Context, w *world) error {
	w.pooler.kill()
	return nil
}

func restartPooler(ctx context.Context, w *world) error { return w.pooler.start(ctx) }

// standby is a second server that repeats what the first one writes.
type standby struct{ bin, data, addr string }

// startStandby copies the server. From then on a commit waits for the copy as well, without which a
// failover may lose what was acknowledged.
func startStandby(ctx context.Context, w *world) error {
	out, err := exec.CommandContext(ctx, "scripts/postgres", "bindir").Output()
	if err != nil {
		return err
	}
	addr, err := harness.FreeAddr()
	if err != nil {
		return err
	}
	dir := filepath.Join(w.dir, "standby")
	if err := private(dir); err != nil {
		return err
	}
	s := &standby{bin: strings.TrimSpace(string(out)), data: filepath.Join(dir, "data"), addr: addr}
	w.standby = s
	if err := s.run("pg_basebackup", "-d", w.admin, "-D", s.data, "-R", "-X", "stream", "-c", "fast"); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(addr)
	if err := s.run("pg_ctl", "-D", s.data, "-w", "-l", filepath.Join(dir, "log"), "-o", "-p "+port+" -c listen_addresses=127.0.0.1 -c unix_socket_directories="+dir+" -c max_connections=200", "start"); err != nil {
		return err
	}
	w.undo = append(w.undo, func() { _ = s.run("pg_ctl", "-D", s.data, "-m", "immediate", "-w", "stop") })
	return w.exec(ctx, w.admin, `ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`)
}

func (s *standby) run(program string, args ...string) error {
	cmd := asServer(filepath.Join(s.bin, program), args...)
	cmd.Dir = "/"
	if program == "pg_ctl" { // what it starts keeps its output open
		return cmd.Run()
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// losePrimary kills the first server; whoever asks is led to the second one, which only reads.
func losePrimary(ctx context.Context, w *world) error {
	if err := w.server.Halt(ctx, "kill"); err != nil {
		return err
	}
	w.proxy.Lead(w.standby.addr)
	return nil
}

func promote(_ context.Context, w *world) error {
	return w.standby.run("pg_ctl", "-D", w.standby.data, "-w", "promote")
}
