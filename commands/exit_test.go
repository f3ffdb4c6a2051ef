package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

func TestExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"nothing":           {nil, 0},
		"quiet":             {errQuiet, 1},
		"quiet with a code": {quietCode(3), 3},
		"not found":         {queue.ErrNotFound, 1},
		"conflict":          {queue.ErrConflict, 1},
		"ambiguous":         {queue.ErrAmbiguous, 1},
		"no copy":           {queue.ErrCopyDiffers, 1},
		"usage":             {usagef("no"), 2},
		"invalid":           {queue.ErrInvalid, 2},
		"configuration":     {config.Errors{}, 2},
		"in use":            {queue.ErrInUse, 3},
		"newer schema":      {queue.ErrNewerSchema, 3},
		"unreachable":       {api.ErrUnreachable, 3},
		"anything else":     {errors.New("disk full"), 3},
		"too late":          {context.DeadlineExceeded, 3},
		"unauthorized":      {api.ErrUnauthorized, 4},
	} {
		if got := exitCode(c.err); got != c.code {
			t.Errorf("%s: exit %d, want %d", name, got, c.code)
		}
		if c.err == nil {
			continue
		}
		if got := exitCode(fmt.Errorf("doing something: %w", c.err)); got != c.code {
			t.Errorf("%s, wrapped: exit %d, want %d", name, got, c.code)
		}
		if got := exitCode(errors.Join(c.err)); got != c.code {
			t.Errorf("%s, joined: exit %d, want %d", name, got, c.code)
		}
	}
	if !errors.Is(quietCode(3), errQuiet) || quietCode(3).Error() == "" {
		t.Error("a code of its own is not quiet")
	}
}

func TestMessage(t *testing.T) {
	for err, says := range map[error]string{
		api.ErrUnauthorized: "PRELOOP_SYSTEM_TOKEN",
		queue.ErrAmbiguous:  "preloop deliveries list",
	} {
		if got := message(fmt.Errorf("reading: %w", err), false); !strings.HasPrefix(got, "reading: ") || !strings.Contains(got, says) {
			t.Errorf("%v is told as %q", err, got)
		}
	}
	if got := message(errors.New("plain"), true); got != "plain" {
		t.Errorf("got %q", got)
	}
}

// Help in all its forms goes to stdout and is a success; a mistake goes to stderr and is not.
func TestHelp(t *testing.T) {
	for line, want := range map[string]struct {
		code int
		says []string
	}{
		"":                        {exitDone, []string{"Usage: preloop", "Examples:", "preloop serve", "deliveries", "copy"}},
		"--help":                  {exitDone, []string{"Usage: preloop", "Examples:"}},
		"help":                    {exitDone, []string{"Usage: preloop", "Examples:"}},
		"help exit-codes":         {exitDone, []string{"  0  done", "  4  not authorized"}},
		"help replay":             {exitDone, []string{"Usage: preloop replay", "Examples:", "--dry-run"}},
		"help deliveries list":    {exitDone, []string{"Usage: preloop deliveries", "--since"}},
		"deliveries list --help":  {exitDone, []string{"Examples:", "--state failed"}},
		"copy --help":             {exitDone, []string{"--from=URL", "Examples:", "$PGPASSWORD"}},
		"--version":               {exitDone, []string{"dev"}},
		"version":                 {exitDone, []string{"preloop dev"}},
		"statsu":                  {exitUsage, []string{`did you mean "status"`}},
		"deliveries lsit":         {exitUsage, []string{"unexpected argument lsit; deliveries takes list, show, payload"}},
		"help statsu":             {exitUsage, []string{`no command or topic "statsu"`}},
		"help prune --dry-run":    {exitUsage, []string{"--dry-run"}},
		"status --serevr x":       {exitUsage, []string{`did you mean "--server"`}},
		"replay --bogus":          {exitUsage, []string{"unknown flag --bogus"}},
		"runs resolve ID":         {exitUsage, []string{"--as"}},
		"runs resolve ID --as so": {exitUsage, []string{"--as"}},
		"copy --from sqlite://a":  {exitUsage, []string{"--to"}},
		"--log-level loud status": {exitUsage, []string{"loud"}},
		"completion tcsh":         {exitUsage, []string{"bash"}},
		"status --server http://a --store sqlite://b": {exitUsage, []string{"exclude each other"}},
	} {
		code, out, errs := typed(t, strings.Fields(line)...)
		text, silent := out, errs
		if want.code != exitDone {
			text, silent = errs, out
		}
		if code != want.code || silent != "" {
			t.Errorf("preloop %s: exit %d, want %d\n%s%s", line, code, want.code, out, errs)
		}
		for _, says := range want.says {
			if !strings.Contains(text, says) {
				t.Errorf("preloop %s does not say %q:\n%s", line, says, text)
			}
		}
		if want.code != exitDone && (!strings.HasPrefix(errs, "preloop: ") || strings.Count(errs, "\n") > 1) {
			t.Errorf("preloop %s: a mistake is one line: %q", line, errs)
		}
	}
}

// Every example in a help text is a command line that the grammar takes.
func TestExamplesParse(t *testing.T) {
	for path, text := range examples {
		for line := range strings.Lines(text) {
			command, _, _ := strings.Cut(strings.TrimSpace(line), "   ")
			for _, part := range strings.FieldsFunc(command, func(r rune) bool { return r == '|' }) {
				part = strings.TrimSpace(part)
				_, part, ok := strings.Cut(" "+part, " preloop ")
				if !ok || strings.ContainsAny(part, "'") {
					continue
				}
				topic := strings.HasPrefix(part, "help ")
				words := strings.Fields(part)
				if !topic {
					words = append(words, "--help")
				}
				code, out, errs := typed(t, words...)
				if code != exitDone || !topic && !strings.Contains(out, "Usage: preloop") {
					t.Errorf("%q, an example of %q: exit %d %s", part, path, code, errs)
				}
			}
		}
	}
}
