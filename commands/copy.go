package commands

import (
	"context"
	"fmt"
	"strconv"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/postgres"
	"github.com/seed-de999ace/preloop/queue/sqlite"
)

// CopyCmd moves everything from one store into another.
type CopyCmd struct {
	From string `required:"" placeholder:"URL" help:"The store to read: sqlite:///FILE or postgres://…"`
	To   string `required:"" placeholder:"URL" help:"The store to fill: an empty one, or one that an interrupted copy has begun to fill. Postgres passwords may come from $$PGPASSWORD or ~/.pgpass."`
	Output
}

// Run copies and verifies. It works on the stores themselves.
func (c *CopyCmd) Run(ctx context.Context, a *app) error {
	if a.Server != "" || a.Store != "" {
		return usagef("copy takes its two stores from --from and --to alone")
	}
	var urls [2]config.StoreURL
	for i, flag := range []struct{ name, value string }{{"--from", c.From}, {"--to", c.To}} {
		u, err := config.ParseStoreURL(flag.value, "")
		if err != nil {
			return usagef("%s: %w", flag.name, err)
		}
		urls[i] = u
	}
	if urls[0].String() == urls[1].String() {
		return usagef("--from and --to are the same store")
	}
	from, err := openToCopy(ctx, urls[0], false)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it has only been read
	to, err := openToCopy(ctx, urls[1], true)
	if err != nil {
		return err
	}
	defer to.Close() //nolint:errcheck // every write has been answered
	var bar *progress
	copied, err := queue.Copy(ctx, from, to, func(step string, done, total int) {
		if bar == nil || bar.what != step {
			bar = a.progress(step, total)
		}
		bar.at(done)
	})
	if bar != nil {
		bar.done()
	}
	if err != nil {
		return err
	}
	t := &table{header: []string{"TABLE", "ROWS", "COPIED", "CHECKSUM"}}
	for _, r := range copied {
		if c.asJSON() {
			if err := c.print(a.out, r); err != nil {
				return err
			}
			continue
		}
		t.add(r.Table, strconv.Itoa(r.Rows), strconv.Itoa(r.Copied), r.Checksum[:16])
	}
	if !c.asJSON() {
		if err := t.print(a); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.err, "%s holds what %s does: counts and checksums agree. Start preloop on one of them only.\n", urls[1], urls[0])
	return err
}

// copyStore is a store as a copy needs it.
type copyStore interface {
	queue.Copier
	Close() error
}

func openToCopy(ctx context.Context, u config.StoreURL, create bool) (copyStore, error) {
	if u.Kind == config.SQLite {
		return sqlite.OpenToCopy(ctx, u.Path, queue.DefaultSettings(), create)
	}
	return postgres.Open(ctx, u.URL.Reveal(), postgres.Options{Settings: queue.DefaultSettings()})
}
