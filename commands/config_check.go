package commands

import (
	"fmt"

	"github.com/seed-de999ace/preloop/commands/config"
)

// ConfigCmd groups what is about the configuration.
type ConfigCmd struct {
	Check  ConfigCheckCmd  `cmd:"" help:"Read the configuration as serve would, and say what is wrong, with file, line and column."`
	Sample ConfigSampleCmd `cmd:"" help:"Print a commented configuration with every key."`
}

// ConfigCheckCmd checks.
type ConfigCheckCmd struct {
	File string `arg:"" optional:"" help:"The file, as --config."`
	Output
}

// Run reports every mistake, or what was read.
func (c *ConfigCheckCmd) Run(a *app) error {
	if c.File != "" {
		a.Config = c.File
	}
	cfg, err := a.load(config.Options{Serve: true})
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		_, _ = fmt.Fprintf(a.err, "warning: %s\n", w)
	}
	from := cfg.Path
	if from == "" {
		from = "the environment and the defaults"
	}
	if c.asJSON() {
		return c.print(a.out, map[string]any{"path": cfg.Path, "store": cfg.Store.String(), "listen": cfg.Listen, "apps": len(cfg.Apps), "hooks": len(cfg.Hooks), "triggers": len(cfg.Triggers), "warnings": cfg.Warnings})
	}
	_, err = fmt.Fprintf(a.out, "%s: ok; %d sources, %d triggers, store %s, listening on %s\n", from, len(cfg.Sources()), len(cfg.Triggers), cfg.Store, cfg.Listen)
	return err
}

// ConfigSampleCmd prints the sample.
type ConfigSampleCmd struct{}

// Run prints it.
func (c *ConfigSampleCmd) Run(a *app) error {
	_, err := a.out.Write(config.Sample)
	return err
}
