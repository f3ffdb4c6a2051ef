package commands

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

// The exit codes.
const (
	exitDone         = 0
	exitFound        = 1 // done, and found something wrong
	exitUsage        = 2 // usage or configuration
	exitUnreachable  = 3 // store, server or GitHub
	exitUnauthorized = 4
)

// errQuiet ends a command whose output has already said what is wrong.
var errQuiet = errors.New("found something wrong")

// usageError is a mistake in what was typed that the parser cannot see.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode maps an error to the process's exit code. It is the only place that does.
func exitCode(err error) int {
	var usage usageError
	var wrong config.Errors
	var parse *kong.ParseError
	var code interface{ ExitCode() int }
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &parse), errors.As(err, &usage), errors.As(err, &wrong), errors.Is(err, queue.ErrInvalid):
		return exitUsage
	case errors.As(err, &code):
		return code.ExitCode()
	case errors.Is(err, errQuiet), errors.Is(err, queue.ErrNotFound), errors.Is(err, queue.ErrConflict), errors.Is(err, queue.ErrAmbiguous),
		errors.Is(err, queue.ErrCopyDiffers):
		return exitFound
	case errors.Is(err, api.ErrUnauthorized):
		return exitUnauthorized
	}
	return exitUnreachable
}

// quietCode is errQuiet with an exit code of its own.
type quietCode int

func (c quietCode) Error() string        { return errQuiet.Error() }
func (c quietCode) ExitCode() int        { return int(c) }
func (c quietCode) Is(target error) bool { return target == errQuiet }

// message is an error as a person reads it, with the next command to run where one helps.
func message(err error, terminal bool) string {
	var wrong config.Errors
	if errors.As(err, &wrong) && terminal {
		var b strings.Builder
		for i, e := range wrong {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(e.Error())
			if s := e.Snippet(); s != "" {
				b.WriteString("\n" + s)
			}
		}
		return b.String()
	}
	text := err.Error()
	var parse *kong.ParseError
	if errors.As(err, &parse) && strings.HasPrefix(text, "unexpected argument") {
		// A word that was meant as one of a group's commands has been taken for an argument of the
		// one that the group stands for.
		if n := parse.Context.Selected(); n != nil && n.Parent != nil && n.Parent.DefaultCmd == n {
			var names []string
			for _, c := range n.Parent.Children {
				names = append(names, c.Name)
			}
			text += "; " + n.Parent.Name + " takes " + strings.Join(names, ", ")
		}
	}
	switch {
	case errors.Is(err, api.ErrUnauthorized):
		text += "\nSet PRELOOP_SYSTEM_TOKEN to the server's system token; one that was generated is in its state directory, in the file system-token."
	case errors.Is(err, queue.ErrAmbiguous):
		text += "\n`preloop deliveries list` shows the sources."
	}
	return text
}

const exitCodesHelp = `preloop's exit codes

  0  done
  1  done, and something is wrong: drift, a delivery that could not be requeued, nothing with that
     id, a state that does not allow the action; status --exit-code with conditions
  2  usage or configuration: the message says what and where
  3  the store, the server or GitHub could not be reached, or a poll or check failed
  4  not authorized: the system token is missing or wrong
`

// topic answers "preloop help …".
func topic(w io.Writer, args []string) (code int, ok bool) {
	if args[0] != "help" {
		return 0, false
	}
	if len(args) == 2 && args[1] == "exit-codes" {
		_, _ = io.WriteString(w, exitCodesHelp)
		return exitDone, true
	}
	return 0, false
}
