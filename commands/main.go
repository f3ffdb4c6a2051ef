// Package commands is preloop's command line: one file a subcommand, each a struct of flags with a
// Run method. It is the only package that knows both a store and GitHub.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/lmittmann/tint"
)

// Version is set by the linker.
var Version = "dev"

// Main runs one command and returns the process's exit code (see exit.go).
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks for an orderly end, the second one ends at once.
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
}

type streams struct {
	in       io.Reader
	out, err io.Writer
}

// app is what every command's Run is given.
type app struct {
	streams
	*Globals
	log *slog.Logger
}

func run(ctx context.Context, args []string, s streams) (code int) {
	type exited int // --help and --version end the program from within the parser
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(exited)
			if !ok {
				panic(r)
			}
			code = int(e)
		}
	}()
	var cli CLI
	parser, err := kong.New(&cli,
		kong.Name("preloop"),
		kong.Description("Makes GitHub webhooks safe to build on: owns each delivery before it answers, runs commands and HTTP targets from it, and finds what was lost."),
		kong.Vars{"version": Version},
		kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Help(help),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err != nil {
		panic(err) // the grammar is constant
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	if code, ok := topic(s.out, args); ok {
		return code
	}
	if args[0] == "help" {
		if args, err = helpFor(parser.Model.Node, args[1:]); err != nil {
			report(s.err, err)
			return exitUsage
		}
	}
	k, err := parser.Parse(args)
	if err != nil {
		report(s.err, err)
		return exitUsage
	}
	a := &app{streams: s, Globals: &cli.Globals, log: logger(s.err, cli.LogLevel)}
	err = k.Run(a)
	if err != nil && !errors.Is(err, errQuiet) {
		report(s.err, err)
	}
	return exitCode(err)
}

// report prints an error and, where there is one, the next thing to do.
func report(w io.Writer, err error) {
	_, _ = fmt.Fprintf(w, "preloop: %s\n", message(err, isTerminal(w)))
}

// logger writes for people on a terminal and JSON elsewhere.
func logger(w io.Writer, level slog.Level) *slog.Logger {
	if isTerminal(w) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: "15:04:05.000", NoColor: os.Getenv("NO_COLOR") != ""}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: readable}))
}

// readable writes durations as people read them; JSON's handler writes nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
