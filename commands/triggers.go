package commands

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/commands/config"
	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
	"github.com/seed-de999ace/preloop/queue/trigger"
)

// TriggersCmd groups what is about triggers.
type TriggersCmd struct {
	List   TriggersListCmd   `cmd:"" default:"withargs" aliases:"ls" help:"List triggers with their counts."`
	Test   TriggersTestCmd   `cmd:"" help:"Show what triggers would decide and run, without running anything."`
	Pause  TriggersPauseCmd  `cmd:"" help:"Stop starting runs and ignore what is received, on all nodes at once."`
	Resume TriggersResumeCmd `cmd:"" help:"Undo a pause."`
}

// TriggersListCmd lists triggers.
type TriggersListCmd struct{ Output }

// Run prints the list.
func (c *TriggersListCmd) Run(ctx context.Context, a *app) error {
	ops, done, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	list, err := ops.Triggers(ctx)
	if err != nil {
		return err
	}
	t := &table{header: []string{"NAME", "STATE", "RUNNING", "WAITING", "ROUTING", "UNCERTAIN", "DROPPED 24H", "LAST RUN"}, flex: []int{0}, empty: "No triggers: the configuration that `preloop serve` has loaded names none."}
	for _, tr := range list.Triggers {
		if c.asJSON() {
			if err := c.print(a.out, tr); err != nil {
				return err
			}
			continue
		}
		t.add(tr.Name, tr.State, of(tr.Running, tr.Concurrency), of(tr.Waiting, tr.QueueSize), strconv.Itoa(tr.Routing), strconv.Itoa(tr.Uncertain), strconv.Itoa(tr.Dropped24h), a.moment(tr.LastRunAt))
	}
	if c.asJSON() {
		return nil
	}
	return t.print(a)
}

func of(n int, most *int) string {
	if most == nil {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d/%d", n, *most)
}

// TriggersPauseCmd pauses.
type TriggersPauseCmd struct {
	Name string `arg:"" help:"The trigger."`
	Output
}

// Run pauses the trigger.
func (c *TriggersPauseCmd) Run(ctx context.Context, a *app) error {
	return setTrigger(ctx, a, c.Name, "pause", &c.Output)
}

// TriggersResumeCmd resumes.
type TriggersResumeCmd struct {
	Name string `arg:"" help:"The trigger."`
	Output
}

// Run resumes the trigger.
func (c *TriggersResumeCmd) Run(ctx context.Context, a *app) error {
	return setTrigger(ctx, a, c.Name, "resume", &c.Output)
}

func setTrigger(ctx context.Context, a *app, name, action string, o *Output) error {
	ops, done, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	t, err := ops.SetTrigger(ctx, name, action)
	if err != nil {
		return err
	}
	if o.asJSON() {
		return o.print(a.out, t)
	}
	_, err = fmt.Fprintf(a.out, "%s\t%s\n", t.Name, t.State)
	return err
}

// TriggersTestCmd tries triggers on an event.
type TriggersTestCmd struct {
	Name     string `arg:"" optional:"" help:"Only this trigger."`
	Payload  string `placeholder:"FILE" help:"A payload file (- for stdin); needs --event."`
	Event    string `placeholder:"EVENT" help:"The payload's event, as issues."`
	Delivery string `placeholder:"ID" help:"A stored delivery."`
	Last     int    `placeholder:"N" help:"The last N stored deliveries."`
	Output
}

// tested is one decision as it is printed.
type tested struct {
	Trigger    string   `json:"trigger"`
	DeliveryID *string  `json:"delivery_id"`
	Decision   string   `json:"decision"`
	Reason     *string  `json:"reason"`
	Prompt     *string  `json:"prompt"`
	Command    []string `json:"command"`
	Error      *string  `json:"error"`
}

// Run prints what each trigger would do.
func (c *TriggersTestCmd) Run(ctx context.Context, a *app) error {
	given := 0
	for _, is := range []bool{c.Payload != "", c.Delivery != "", c.Last > 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		return usagef("triggers test: give one of --payload FILE --event NAME, --delivery ID, --last N")
	}
	if c.Payload != "" && c.Event == "" {
		return usagef("triggers test: --payload needs --event, as --event issues")
	}
	cfg, err := a.load(config.Options{LenientSecrets: true})
	if err != nil {
		return err
	}
	set, err := trigger.NewSet(cfg.Compiled)
	if err != nil {
		return err
	}
	if c.Name != "" && set.Get(c.Name) == nil {
		return fmt.Errorf("trigger %s: %w in the configuration", c.Name, queue.ErrNotFound)
	}
	hub := newHub(cfg, nil, a.log)
	var results []tested
	try := func(d *queue.Delivery, payload []byte, id *string) error {
		list, err := c.try(ctx, set, hub, d, payload, id)
		results = append(results, list...)
		return err
	}
	if c.Payload != "" {
		payload, err := readFile(a.in, c.Payload)
		if err != nil {
			return err
		}
		facts, err := github.ReadFacts(c.Event, payload)
		if err != nil {
			return usagef("reading %s: %w", c.Payload, err)
		}
		now := time.Now()
		d := &queue.Delivery{ID: "test", Event: c.Event, Facts: queue.Facts(facts), Headers: map[string]string{"X-GitHub-Event": c.Event}, ReceivedAt: now, QueuedAt: now, Size: len(payload)}
		if sources := cfg.Sources(); len(sources) > 0 {
			d.Source, d.SourceName = sources[0].Key, sources[0].Name
		}
		if err := try(d, payload, nil); err != nil {
			return err
		}
	} else if err := c.stored(ctx, a, cfg, try); err != nil {
		return err
	}
	return c.show(a, results)
}

// stored tries deliveries that the store or server has.
func (c *TriggersTestCmd) stored(ctx context.Context, a *app, cfg *config.Config, try func(*queue.Delivery, []byte, *string) error) error {
	ops, done, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer done()
	one := func(ref string) error {
		d, err := ops.Delivery(ctx, ref)
		if err != nil {
			return err
		}
		payload, err := ops.Payload(ctx, ref)
		if err != nil {
			return err
		}
		facts, err := github.ReadFacts(d.Event, payload)
		if err != nil {
			return fmt.Errorf("reading the payload of %s: %w", ref, err)
		}
		q := &queue.Delivery{ID: d.DeliveryID, Event: d.Event, SourceName: d.Source, Facts: queue.Facts(facts), Headers: d.Headers, Size: d.Size, ReceivedAt: *d.ReceivedAt, QueuedAt: *d.ReceivedAt, Generation: d.Generation}
		for _, s := range cfg.Sources() {
			if s.Name == d.Source {
				q.Source = s.Key
			}
		}
		return try(q, payload, &d.DeliveryID)
	}
	if c.Delivery != "" {
		return one(c.Delivery)
	}
	return eachDelivery(ctx, ops, queue.DeliveryFilter{}, c.Last, func(d api.Delivery) error { return one(d.Source + "/" + d.DeliveryID) })
}

func (c *TriggersTestCmd) try(ctx context.Context, set *trigger.Set, hub *hub, d *queue.Delivery, payload []byte, id *string) ([]tested, error) {
	var only []string
	if c.Name != "" {
		only = []string{c.Name}
	}
	sample := trigger.Vars{RunID: "00000000-0000-0000-0000-000000000000", Session: "00000000-0000-0000-0000-000000000000", Attempt: 1}
	list, err := set.Describe(ctx, trigger.NewEvent(d, payload, time.Now()), hub.questions(), sample, only...)
	if err != nil {
		return nil, fmt.Errorf("deciding on %s: %w", d.ID, err)
	}
	var out []tested
	for _, x := range list {
		t := tested{Trigger: x.Decision.Trigger, DeliveryID: id, Decision: string(x.Decision.Verdict), Command: x.Command}
		if x.Decision.Reason != "" {
			t.Reason = &x.Decision.Reason
		}
		if x.Prompt != "" {
			t.Prompt = &x.Prompt
		}
		if x.Err != nil {
			text := x.Err.Error()
			t.Error = &text
		}
		out = append(out, t)
	}
	return out, nil
}

func (c *TriggersTestCmd) show(a *app, results []tested) error {
	t := &table{header: []string{"TRIGGER", "DELIVERY", "DECISION", "REASON", "COMMAND"}, flex: []int{4, 3}, empty: "No trigger listens to it."}
	for _, r := range results {
		if c.asJSON() {
			if err := c.print(a.out, r); err != nil {
				return err
			}
			continue
		}
		command := strings.Join(r.Command, " ")
		if r.Error != nil {
			command = "error: " + *r.Error
		}
		t.add(r.Trigger, orDash(r.DeliveryID), r.Decision, orDash(r.Reason), command)
	}
	if c.asJSON() {
		return nil
	}
	if err := t.print(a); err != nil || !isTerminal(a.out) {
		return err
	}
	for _, r := range results {
		if r.Prompt != nil {
			if _, err := fmt.Fprintf(a.out, "\nPrompt of %s:\n%s\n", r.Trigger, indent(*r.Prompt)); err != nil {
				return err
			}
		}
	}
	return nil
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + plain(strings.TrimRight(line, "\r\n")) + "\n")
	}
	return b.String()
}

// maxPayload is what is read of a payload file: GitHub sends no more.
const maxPayload = 25 << 20

func readFile(stdin io.Reader, name string) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usagef("reading the payload: %w", err)
		}
		defer f.Close() //nolint:errcheck // only read
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxPayload+1))
	if err != nil {
		return nil, usagef("reading the payload: %w", err)
	}
	if len(b) > maxPayload {
		return nil, usagef("reading the payload: %s is larger than 25 MiB, more than GitHub sends", name)
	}
	return b, nil
}
