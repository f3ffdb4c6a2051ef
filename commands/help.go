package commands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// examples are shown under a command's help, by its path.
var examples = map[string]string{
	"": `  preloop serve                                    start with a SQLite file
  preloop status --watch                           see what is going on
  preloop deliveries show ID                       why did my trigger not fire?
  preloop replay --state failed --since 2h         process dead letters again
  preloop help exit-codes                          what the exit codes mean`,
	"serve": `  PRELOOP_WEBHOOK_SECRET=… preloop serve           accept deliveries, store them in a SQLite file
  preloop serve -c preloop.yaml                    with triggers
  preloop serve --components ingress,prune         only receive and clean up; workers run elsewhere`,
	"replay": `  preloop replay 72d3162e-cc78-11e3-81ab-4c9367dc0958
  preloop replay --state failed --event push --since 2h --dry-run
  preloop deliveries list --state failed --json=delivery_id --jq .delivery_id | preloop replay -`,
	"deliveries list": `  preloop deliveries list --state failed
  preloop deliveries list -R acme/widgets --event push --since 24h
  preloop deliveries list --json --jq 'select(.attempts > 1) | .delivery_id'`,
	"runs list": `  preloop runs list --state uncertain
  preloop runs list --trigger deploy --since 1d --json`,
	"runs resolve": `  preloop runs resolve ID --as succeeded           you have looked: it happened`,
	"triggers test": `  preloop triggers test --payload issue.json --event issues
  preloop triggers test deploy --delivery ID
  preloop triggers test --last 50`,
	"send": `  preloop send issues                              an invented issue, to the server of the configuration
  preloop send push --payload push.json --url http://127.0.0.1:9090/api/v1/github/webhooks`,
	"watchdog": `  preloop watchdog                                 watch all the time, as serve does
  preloop watchdog --once                          one pass, for cron
  preloop watchdog --once --since 24h --dry-run    what was lost since yesterday?`,
	"app-check": `  preloop app-check || mail -s "GitHub App drift" ops@example.com`,
	"copy":      `  preloop copy --from sqlite:///var/lib/preloop/preloop.db --to postgres://preloop@db/preloop`,
}

// help is kong's with examples.
func help(o kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(o, ctx); err != nil {
		return err
	}
	path := ""
	for n := ctx.Selected(); n != nil && n.Parent != nil; n = n.Parent {
		path = strings.TrimSpace(n.Name + " " + path)
	}
	if text := examples[path]; text != "" {
		_, err := fmt.Fprintf(ctx.Stdout, "\nExamples:\n%s\n", text)
		return err
	}
	return nil
}

// helpFor turns the words behind "help" into a command's --help.
func helpFor(node *kong.Node, words []string) ([]string, error) {
	for _, w := range words {
		i := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return !c.Hidden && (c.Name == w || slices.Contains(c.Aliases, w)) })
		if i < 0 {
			return nil, usagef("help: there is no command or topic %q; `preloop help` lists the commands", w)
		}
		node = node.Children[i]
	}
	return append(slices.Clone(words), "--help"), nil
}
