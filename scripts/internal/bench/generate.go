package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// generate puts n terminal deliveries into a Postgres store, of which the first one ended at first
// and the last one at last, with their payloads (compressed to 640 bytes), and a run for each sixth.
func generate(ctx context.Context, store string, n int, first, last time.Time) error {
	conn, err := pgx.Connect(ctx, store)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	const step = 250_000 // a transaction
	prefix := fmt.Sprintf("%x-", time.Now().UnixNano())
	pace := max(1, last.Sub(first).Microseconds()/int64(n))
	for from := 0; from < n; from += step {
		if _, err := conn.Exec(ctx, generated, prefix, from, min(from+step, n)-1, first.UnixMicro(), pace); err != nil {
			return fmt.Errorf("generating rows: %w", err)
		}
	}
	for _, table := range []string{"deliveries", "payloads", "runs", "tallies"} {
		if _, err := conn.Exec(ctx, `VACUUM (ANALYZE) `+table); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, `CHECKPOINT`) // or what is measured next pays for it
	return err
}

const generated = `WITH d AS (
		INSERT INTO deliveries (source, source_name, guid, event, action, repo, repo_id, sender, headers, size, state, attempts, received_at, queued_at, finished_at, node, history, decisions)
		SELECT 'app-1', 'acme', $1::text || g, CASE WHEN g % 6 = 0 THEN 'issues' ELSE 'push' END, '', 'acme/widgets-' || g % 500, g % 500, 'octocat',
			'{"X-GitHub-Event":"push","X-GitHub-Hook-ID":"1"}', 8192, CASE WHEN g % 1000 = 0 THEN 'failed' ELSE 'done' END, 1, t - 20000, t - 20000, t, 'node',
			'[{"attempt":1,"node":"node","started_at":"2026-01-01T00:00:00Z","finished_at":"2026-01-01T00:00:00Z","outcome":"done"}]',
			'[{"trigger":"effect","decision":"filtered","reason":"if: false"}]'
		FROM (SELECT g, $4::bigint + g * $5::bigint AS t FROM generate_series($2::bigint, $3::bigint) AS g) AS rows
		RETURNING seq, guid, event, repo, state, finished_at
	), p AS (
		INSERT INTO payloads (seq, codec, body) SELECT seq, 0, decode(repeat(md5(guid), 40), 'hex') FROM d
	), r AS (
		INSERT INTO runs (run_id, trigger, delivery_seq, guid, source, source_name, generation, kind, state, event, repo, uncertain_after, attempts, tries, created_at, started_at, finished_at, node, exit_code)
		SELECT gen_random_uuid()::text, 'effect', seq, guid, 'app-1', 'acme', 0, 'start', 'succeeded', event, repo, 60000000, 1, 1, finished_at, finished_at, finished_at, 'node', 0 FROM d WHERE event = 'issues'
		RETURNING 1
	)
	INSERT INTO tallies (writer, word, n)
	SELECT 'generated', 'delivery:' || state, count(*) FROM d GROUP BY state UNION ALL SELECT 'generated', 'run:succeeded', count(*) FROM r
	ON CONFLICT (writer, word) DO UPDATE SET n = tallies.n + excluded.n`
