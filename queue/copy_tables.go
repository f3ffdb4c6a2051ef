package queue

import (
	"slices"
	"strings"
)

// Table is a table that both stores have, with the columns that a copy moves. Columns that a store
// derives by itself are not among them.
type Table struct {
	Name string
	Key  []string // its primary key, in which rows are read; text compares by bytes
	// Columns by kind: what a Row holds, in this order. NULL is nil.
	Int   []string // int64
	Text  []string // string
	Bytes []string // []byte, never NULL
	// Numbers names the columns that hold a number of a delivery or a run.
	Numbers map[string]Numbered
}

// Numbered says whose number a column holds.
type Numbered string

// What stores number in the order of receipt.
const (
	DeliveryNumber Numbered = "delivery"
	RunNumber      Numbered = "run"
)

// Row is one row of a Table: nil, int64, string or []byte in the order of Columns.
type Row []any

// Columns lists the columns in a Row's order.
func (t *Table) Columns() []string { return slices.Concat(t.Int, t.Text, t.Bytes) }

// KeyOf takes the key out of a row.
func (t *Table) KeyOf(r Row) []any {
	columns := t.Columns()
	key := make([]any, len(t.Key))
	for i, k := range t.Key {
		key[i] = r[slices.Index(columns, k)]
	}
	return key
}

// Tables are what a copy moves, in this order: payloads before the deliveries that need them,
// deliveries before their runs, so that a copy that was cut short shows nothing half. What nodes
// know of each other (nodes, locks) stays behind.
var Tables = []*Table{
	{Name: "docs", Key: words("kind key"), Int: words("version updated_at"), Text: words("kind key body")},
	{Name: "triggers", Key: words("name"), Int: words("paused_since"), Text: words("name")},
	{Name: "pauses", Key: words("trigger since"), Int: words("since until"), Text: words("trigger")},
	{Name: "double_subscriptions", Key: words("trigger owner other"), Int: words("last_at"), Text: words("trigger owner other")},
	{Name: "secret_uses", Key: words("source name"), Int: words("deliveries last_used_at"), Text: words("source name")},
	{
		Name: "repairs", Key: words("source guid"),
		Int:  words("hook_id attempts delivered_at found_at next_attempt last_attempt closed_at"),
		Text: words("source guid source_name event action reason state last_error"),
	},
	{
		Name: "payloads", Key: words("seq"), Int: words("seq codec"), Bytes: words("body"),
		Numbers: map[string]Numbered{"seq": DeliveryNumber},
	},
	{
		Name: "deliveries", Key: words("seq"),
		Int:     words("seq repo_id subject_num sender_bot installation size attempts outages generation received_at queued_at due_at started_at finished_at token forced"),
		Text:    words("source source_name guid event action repo subject sender org headers state node last_error only_triggers history decisions"),
		Numbers: map[string]Numbered{"seq": DeliveryNumber},
	},
	{
		Name: "run_outputs", Key: words("id"), Int: words("id"), Bytes: words("output"),
		Numbers: map[string]Numbered{"id": RunNumber},
	},
	{
		Name: "sessions", Key: words("id"), Int: words("id reported created_at expires_at"),
		Text: words("trigger subject_key subject run_id session state"),
	},
	{
		Name: "runs", Key: words("id"),
		Int: words(`id delivery_seq generation repo_id subject_num sender_bot installation follows idempotent uncertain_after attempts outages tries probes
			created_at due_at expires_at deadline_at started_at attempt_at finished_at token lease_until cancel_asked exit_code http_status`),
		Text:    words(`run_id trigger guid source source_name kind state reason event action repo subject subject_key sender org serialize_key session node error history`),
		Numbers: map[string]Numbered{"id": RunNumber, "delivery_seq": DeliveryNumber},
	},
	{Name: "tallies", Key: words("writer word"), Int: words("n"), Text: words("writer word")},
}

func words(s string) []string { return strings.Fields(s) }
