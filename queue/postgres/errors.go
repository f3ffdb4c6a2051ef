package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-de999ace/preloop/queue"
)

// clean marks the errors that are the store's answer: what returned them has changed nothing.
func clean(err error) bool {
	return errors.Is(err, queue.ErrNotFound) || errors.Is(err, queue.ErrConflict) || errors.Is(err, queue.ErrAmbiguous) ||
		errors.Is(err, queue.ErrInvalid) || errors.Is(err, queue.ErrLeaseLost)
}

func code(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// again reports whether the server has rolled a transaction back that is worth repeating: it lost
// a race with another one.
func again(err error) bool {
	switch code(err) {
	case "40001", "40P01", "55P03": // serialization_failure, deadlock_detected, lock_not_available
		return true
	}
	return false
}

// uncommitted marks an error after which nothing may be repeated: of a COMMIT, of which nobody
// knows whether it happened, or of a reading that has begun.
type uncommitted struct{ error }

func (e *uncommitted) Unwrap() error { return e.error }

// lost reports whether a connection turned out to be dead, as those of a pool do when the server
// has been restarted, before anything could have been committed through it.
func lost(err error) bool {
	var open *uncommitted
	var connect *pgconn.ConnectError
	if err == nil || errors.As(err, &open) || errors.As(err, &connect) || pgconn.Timeout(err) {
		return false
	}
	var op *net.OpError
	c := code(err)
	return c == "57P01" || c == "57P02" || strings.HasPrefix(c, "08") && c != "08P01" || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &op)
}

// poisoned reports whether the server refused the values of a statement: of several rows that were
// written together only one need be bad.
func poisoned(err error) bool {
	c := code(err)
	return strings.HasPrefix(c, "22") || strings.HasPrefix(c, "23") || strings.HasPrefix(c, "54")
}

// advice says what to do about the errors that an operator can act on.
func advice(err error) string {
	switch c := code(err); {
	case c == "28P01" || c == "28000":
		return "check the user and password of the store's URL, and the server's pg_hba.conf"
	case c == "3D000":
		return "create the database first"
	case c == "42501":
		return "the store's user needs the right to create and change tables in the database's first schema"
	case c == "42P01" || c == "42703":
		return "the schema is not as preloop left it"
	case c == "53100":
		return "free some disk space on the database server"
	case c == "53300":
		return "the server has too many connections: raise its max_connections, or set pool_max_conns in the store's URL"
	case c == "25006":
		return "the server is read-only: the store needs the primary, not a replica"
	case c == "42P05" || c == "26000" || c == "08P01":
		return "a pooler seems to stand between; let the store's URL say default_query_exec_mode=cache_describe, or nothing of it"
	case strings.HasPrefix(c, "57P"), strings.HasPrefix(c, "08"):
		return "the database server is stopping, starting or has cut the connection"
	}
	var connect *pgconn.ConnectError
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "check the host of the store's URL"
	case errors.As(err, &connect), errors.As(err, &op):
		return "is the database server running, and reachable from here?"
	}
	return ""
}

// explain says which store failed while doing what, why, and what to do. Neither the user nor the
// password of the store's URL is in it.
func (s *Store) explain(doing string, err error) error {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		err = &cause{connect.Unwrap()} // its own text names the user
	}
	if a := advice(err); a != "" {
		return fmt.Errorf("%s the store %s: %w; %s", doing, s.place, err, a)
	}
	return fmt.Errorf("%s the store %s: %w", doing, s.place, err)
}

// cause is why a connection could not be made.
type cause struct{ error }

func (e *cause) Unwrap() error { return e.error }

func (e *cause) Error() string {
	var pe *pgconn.PgError
	var op *net.OpError
	switch {
	case errors.As(e.error, &pe) && strings.HasPrefix(pe.Code, "28"):
		return "the server refuses the login"
	case errors.As(e.error, &pe):
		return pe.Message
	case errors.As(e.error, &op):
		return op.Error()
	case errors.Is(e.error, context.DeadlineExceeded):
		return "no connection in time"
	}
	return "no connection: " + e.error.Error()
}

// badURL says what is wrong with a URL without showing it.
func badURL(key, raw string, err error) error {
	const shape = "it must look like postgres://user:password@host:5432/database"
	for e := err; e != nil; e = errors.Unwrap(e) {
		err = e // the innermost: the outer ones quote the URL
	}
	if text := err.Error(); !strings.Contains(text, "://") && !quotes(text, raw) {
		return fmt.Errorf("reading the URL of %s: %s; %s", key, text, shape)
	}
	return fmt.Errorf("reading the URL of %s: it is malformed; %s", key, shape)
}

// quotes reports whether text shows a part of a URL that may be its password.
func quotes(text, raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return true
	}
	for _, pair := range strings.FieldsFunc(u.RawQuery+"&"+u.User.String(), func(r rune) bool { return strings.ContainsRune("&=:", r) }) {
		if len(pair) >= 4 && strings.Contains(text, pair) {
			return true
		}
	}
	p, _ := u.User.Password()
	return p != "" && strings.Contains(text, p)
}
