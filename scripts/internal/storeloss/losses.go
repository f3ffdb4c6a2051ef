package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"
)

var losses = []loss{
	{name: "stopped", strike: halt("fast"), heal: resume},
	{name: "crashed", strike: halt("immediate"), heal: resume},
	{name: "killed", strike: halt("kill"), heal: resume},
	{name: "restarted", strike: halt("fast"), heal: resume, brief: true},
	{name: "read-only", strike: readOnly("on"), heal: readOnly("off")},
	{name: "hangs", strike: stick, heal: func(_ context.Context, w *world) error { w.release(); return nil }},
	{name: "out-of-connections", strike: takeConnections, heal: func(_ context.Context, w *world) error { w.release(); return nil }},
	{name: "disk-full", prepare: smallDisk, strike: fillDisk, heal: func(_ context.Context, w *world) error { w.release(); return nil }, partial: true},
	{name: "pooler-stopped", prepare: startPooler, strike: stopPooler, heal: restartPooler},
	{name: "failover", prepare: startStandby, strike: losePrimary, heal: promote}, // the last one: its primary stays away
}

func halt(how string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error { return w.server.Halt(ctx, how) }
}

func resume(ctx context.Context, w *world) error { return w.server.Resume(ctx) }

// readOnly makes new transactions of the whole server read-only, as an administrator does who wants
// no more writes. The session that says so must not be one of them.
func readOnly(word string) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		return w.exec(ctx, w.admin, `SET default_transaction_read_only = off`, `ALTER SYSTEM SET default_transaction_read_only = `+word, `SELECT pg_reload_conf()`)
	}
}

func stick(_ context.Context, w *world) error {
	w.release = w.proxy.Stick()
	return nil
}

// takeConnections leaves no connection to the nodes: it cuts theirs and takes what the server has.
func takeConnections(ctx context.Context, w *world) error {
	var mine []*pgx.Conn
	w.release = func() {
		for _, c := range mine {
			_ = c.Close(context.Background())
		}
		mine = nil
	}
	w.undo = append(w.undo, func() { w.release() })
	first, err := pgx.Connect(ctx, w.admin)
	if err != nil {
		return err
	}
	mine = append(mine, first)
	for {
		c, err := pgx.Connect(ctx, w.admin)
		if err == nil {
			mine = append(mine, c)
			continue
		}
		var left int
		if e := first.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1`, w.database).Scan(&left); e != nil {
			return errors.Join(err, e)
		}
		if left == 0 {
			return nil
		}
	}
}

// smallDisk gives the database a file system of its own.
func smallDisk(ctx context.Context, w *world) error {
	disk := filepath.Join(w.dir, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		return err
	}
	if err := command("mount", "-t", "tmpfs", "-o", "size=64m,mode=0777", "tmpfs", disk); err != nil {
		return fmt.Errorf("a small file system needs root, and Linux: %w", err)
	}
	w.undo = append(w.undo, func() { _ = syscall.Unmount(disk, 0) })
	w.disk = filepath.Join(disk, "ballast")
	data := filepath.Join(disk, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := command("chown", "postgres", data); err != nil {
			return err
		}
	}
	w.place = "small_" + w.database
	w.undo = append(w.undo, func() {
		ctx := context.Background()
		_ = w.exec(ctx, w.admin, `DROP DATABASE IF EXISTS `+w.database+` WITH (FORCE)`, `DROP TABLESPACE `+w.place)
	})
	return w.exec(ctx, w.admin, fmt.Sprintf(`CREATE TABLESPACE %s LOCATION '%s'`, w.place, data))
}

func fillDisk(_ context.Context, w *world) error {
	f, err := os.Create(w.disk)
	if err != nil {
		return err
	}
	defer f.Close()
	w.release = func() { _ = os.Remove(w.disk) }
	page := make([]byte, 4096)
	for {
		if _, err := f.Write(page); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
