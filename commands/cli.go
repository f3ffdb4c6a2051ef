package commands

import (
	"log/slog"

	"github.com/alecthomas/kong"
)

// CLI is the grammar.
type CLI struct {
	Globals

	Serve    ServeCmd    `cmd:"" help:"Receive, process, run, watch and clean up: everything in one process."`
	Worker   WorkerCmd   `cmd:"" help:"Process deliveries and run what they trigger, without a listener."`
	Watchdog WatchdogCmd `cmd:"" help:"Find deliveries that GitHub has and the store has not, and ask for them again."`
	AppCheck AppCheckCmd `cmd:"" help:"Compare GitHub's side of apps and webhooks with what the triggers need."`
	Replay   ReplayCmd   `cmd:"" help:"Process stored deliveries again."`
	Status   StatusCmd   `cmd:"" help:"Show what is going on."`
	Prune    PruneCmd    `cmd:"" help:"Delete what is older than the retention, once."`

	Deliveries DeliveriesCmd `cmd:"" aliases:"delivery" help:"List and explain deliveries."`
	Runs       RunsCmd       `cmd:"" aliases:"run" help:"List runs and act on them."`
	Triggers   TriggersCmd   `cmd:"" aliases:"trigger" help:"List, test, pause and resume triggers."`
	Repairs    RepairsCmd    `cmd:"" help:"List deliveries that were lost and asked for again."`
	Conf       ConfigCmd     `cmd:"" name:"config" help:"Check the configuration."`
	Send       SendCmd       `cmd:"" help:"Send a signed sample delivery to a server, for trying things."`
	Copy       CopyCmd       `cmd:"" help:"Move everything from one store into another, and verify it."`
	Version    VersionCmd    `cmd:"" help:"Print the version."`
	Completion CompletionCmd `cmd:"" help:"Print a shell's completion script."`
	Complete   CompleteCmd   `cmd:"" name:"__complete" hidden:"" passthrough:""`
}

// Globals are the flags that every command takes.
type Globals struct {
	Config      string           `short:"c" placeholder:"FILE" help:"Configuration file. Default: $$PRELOOP_CONFIG, ./preloop.yaml, $$XDG_CONFIG_HOME/preloop/preloop.yaml, /etc/preloop/preloop.yaml."`
	Server      string           `placeholder:"URL" help:"Talk to this server (or $$PRELOOP_SERVER_URL), with $$PRELOOP_SYSTEM_TOKEN."`
	Store       string           `placeholder:"URL" help:"Use this store directly: sqlite:///FILE or postgres://…"`
	LogLevel    slog.Level       `default:"info" placeholder:"LEVEL" help:"debug, info, warn or error."`
	VersionFlag kong.VersionFlag `name:"version" short:"V" help:"Print the version."`
}
