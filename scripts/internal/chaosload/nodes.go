package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// caps say how many runs of each trigger there may be at once. An issue's number says which of them
// it is for.
var caps = map[string]int{"wide": 8, "middle": 3, "narrow": 1}

const filters = `wide: body.issue.number % 6 > 2
middle: body.issue.number % 6 in [1, 2]
narrow: body.issue.number % 6 == 0`

func makeNodes(o options, dir, effects string) ([]*harness.Node, error) {
	nodes := make([]*harness.Node, o.nodes)
	for i := range nodes {
		addr, err := harness.FreeAddr()
		if err != nil {
			return nil, err
		}
		nodes[i] = &harness.Node{
			Binary: o.binary, Dir: filepath.Join(dir, fmt.Sprintf("node%d", i)), Addr: addr, Store: o.store,
			Config: configuration(effects),
		}
	}
	return nodes, nil
}

// configuration has triggers whose commands leave a line in a file that no kill can take back, take
// long enough to be killed themselves, and leave another. Leases are short, as a node that shares
// its store waits for those of the dead one; nothing is ever dropped.
func configuration(effects string) string {
	text := "queue: { lease: 3s, renew: 1s, poll: 1s }\ntriggers:\n"
	for line := range strings.SplitSeq(filters, "\n") {
		name, filter, _ := strings.Cut(line, ": ")
		text += fmt.Sprintf(`  - name: %s
    on: [issues.opened]
    if: %s
    concurrency: %d
    queue: { size: 1000000, wait: 24h }
    run:
      command: [sh, -c, 'echo "+ $1 $PRELOOP_RUN_ID $PRELOOP_DELIVERY_ID" >>"$0"; sleep 0.03; echo "- $1 $PRELOOP_RUN_ID $PRELOOP_DELIVERY_ID" >>"$0"', %s, %s]
      timeout: 1m
`, name, filter, caps[name], effects, name)
	}
	return text
}

func start(ctx context.Context, n *harness.Node) error {
	if err := n.Start(); err != nil {
		return err
	}
	_, err := waitReady(ctx, n)
	return err
}
