package commands

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/github"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/target"
	"github.com/seed-de999ace/preloop/queue/trigger"
)

// executor is a target, whichever kind it is.
type executor interface {
	Run(ctx context.Context, j target.Job, report target.Report) queue.Outcome
	HandOver(ctx context.Context, j target.Job, report target.Report) queue.Outcome
	Probe(ctx context.Context, j target.Job) queue.ProbeAnswer
}

// rules are what this node knows of its triggers when it starts runs.
func (n *node) rules() []queue.DispatchRule {
	var out []queue.DispatchRule
	for _, t := range n.current().set.Triggers() {
		r := queue.DispatchRule{Trigger: t.Spec.Name, Concurrency: t.Spec.Concurrency}
		if f := t.Spec.FollowUp; f != nil {
			r.FollowUp, r.SessionReported = true, f.Reported
		}
		out = append(out, r)
	}
	return out
}

// probed lists the triggers whose uncertain runs can be asked after.
func (n *node) probed() []string {
	var out []string
	for _, t := range n.current().set.Triggers() {
		if t.Spec.Probe != nil {
			out = append(out, t.Spec.Name)
		}
	}
	return out
}

// execute makes one attempt at a run: render, mint, ask the target.
func (n *node) execute(ctx context.Context, c queue.RunClaim, report func(session string, state queue.SessionState)) queue.Outcome {
	l := n.current()
	t := l.set.Get(c.Trigger)
	if t == nil { // a reload removed it between the claim and now
		return queue.Outcome{State: queue.Waiting, Refund: true, RetryAfter: 5 * time.Second, Error: "this node no longer has the trigger"}
	}
	part, what := trigger.PartRun, &t.Spec.Run
	if c.Kind == queue.FollowUp {
		if t.Spec.FollowUp == nil {
			return queue.Outcome{State: queue.Waiting, Refund: true, RetryAfter: 5 * time.Second, Error: "this node's trigger no longer has follow_up"}
		}
		part, what = trigger.PartFollowUp, &t.Spec.FollowUp.Target
	}
	job, err := n.job(t, part, what, &c)
	if err != nil {
		return queue.Outcome{State: queue.RunFailed, Reason: queue.ReasonArgument, Error: err.Error()}
	}
	if len(t.Spec.GitHubToken) > 0 {
		token, revoke, err := n.hub.mint(ctx, &c.Run, t.Spec.GitHubToken)
		if err != nil && ctx.Err() != nil { // stopped before the target was started: nothing has happened
			return queue.Outcome{State: queue.Waiting, Refund: true, Error: context.Cause(ctx).Error()}
		}
		if err != nil {
			return tokenOutcome(err)
		}
		defer revoke()
		job.Token = token.Token
	}
	target := n.target(what)
	if c.Kind == queue.FollowUp {
		return target.HandOver(ctx, job, report)
	}
	return target.Run(ctx, job, report)
}

// probe asks what became of an uncertain run.
func (n *node) probe(ctx context.Context, c queue.RunClaim) queue.ProbeAnswer {
	t := n.current().set.Get(c.Trigger)
	if t == nil || t.Spec.Probe == nil {
		return queue.ProbeUnknown
	}
	job, err := n.job(t, trigger.PartProbe, t.Spec.Probe, &c)
	if err != nil {
		n.log.Warn("a probe could not be rendered", "run", c.ID, "error", err)
		return queue.ProbeUnknown
	}
	return n.target(t.Spec.Probe).Probe(ctx, job)
}

// job gathers everything that a target is told of a run.
func (n *node) job(t *trigger.Trigger, part trigger.Part, what *trigger.Target, c *queue.RunClaim) (target.Job, error) {
	session := c.Session
	if session == "" {
		session = c.ID
	}
	d := &queue.Delivery{
		Seq: c.DeliverySeq, ID: c.DeliveryID, Source: c.Source, SourceName: c.SourceName, Event: c.Event, Facts: c.Facts,
		Headers: c.Headers, Generation: c.Generation, ReceivedAt: c.CreatedAt, Size: len(c.Payload),
	}
	vars := trigger.Vars{Event: trigger.NewEvent(d, c.Payload, time.Now()), Session: session, RunID: c.ID, Attempt: c.Attempts}
	prompt, err := t.Prompt(vars)
	if err != nil {
		return target.Job{}, fmt.Errorf("rendering the prompt: %w", err)
	}
	vars.Prompt = prompt
	job := target.Job{
		Run: &c.Run, Headers: c.Headers, Payload: c.Payload, Prompt: prompt, Session: session,
		Traceparent: traceparent(c.ID), Mask: n.current().cfg.SecretValues(),
	}
	if what.HTTP == nil {
		job.Argv, err = t.Argv(vars, part)
		return job, err
	}
	job.Secret = what.HTTP.Secret
	if job.Secret == nil {
		job.Secret = n.signingSecret(c.Source)
	}
	job.FinishURL, job.FinishToken = n.finish(c.ID)
	return job, nil
}

func (n *node) target(what *trigger.Target) executor {
	cfg := n.current().cfg
	if h := what.HTTP; h != nil {
		return target.HTTP{URL: h.URL, Headers: h.Headers, Envelope: h.Envelope, Timeout: what.Timeout}
	}
	values := cfg.SecretValues()
	secrets := make([][]byte, len(values))
	for i, v := range values {
		secrets[i] = []byte(v)
	}
	return target.Command{Timeout: what.Timeout, KillAfter: cfg.Queue.KillAfter, SecretNames: cfg.SecretEnvNames(), SecretValues: secrets, TempDir: n.tempDir}
}

// signingSecret is a source's current webhook secret, with which an HTTP target without a secret
// of its own is signed.
func (n *node) signingSecret(source string) []byte {
	for _, s := range n.current().cfg.Sources() {
		if s.Key == source && len(s.Secrets) > 0 {
			return []byte(s.Secrets[0].Value.Reveal())
		}
	}
	return nil
}

// tokenOutcome says what a token that could not be minted makes of the run: parked while GitHub is
// away, failed when GitHub refuses.
func tokenOutcome(err error) queue.Outcome {
	var away *github.UnavailableError
	if errors.As(err, &away) {
		return queue.Outcome{State: queue.Waiting, Refund: true, RetryAfter: away.RetryIn, Outage: !away.BreakerOpen && !away.RateLimited, Error: err.Error()}
	}
	return queue.Outcome{State: queue.RunFailed, Reason: queue.ReasonGitHubToken, Error: err.Error()}
}

// traceparent makes a W3C trace context of a run: its id is the trace's.
func traceparent(runID string) string {
	sum := sha256.Sum256([]byte(runID))
	return fmt.Sprintf("00-%s-%x-01", strings.ReplaceAll(runID, "-", ""), sum[:8])
}
