package watchdog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-de999ace/preloop/github"
)

// maxRefusals in a row end a pass: what GitHub refuses is not one delivery then but us.
const maxRefusals = 3

func (p *pass) fetch(ctx context.Context, cursor string) (github.DeliveryPage, error) {
	if err := p.renew(ctx); err != nil {
		return github.DeliveryPage{}, err
	}
	return p.src.GitHub.Deliveries(ctx, p.src.Hook, cursor)
}

// redeliver asks GitHub for what is due. Each attempt is charged before it is asked for: a store
// that takes no write ends the pass before another delivery comes in.
func (p *pass) redeliver(ctx context.Context) error {
	var open []Repair
	for _, r := range p.repairs {
		open = append(open, r)
	}
	list := due(time.Now(), p.Rules, open)
	if len(list) == 0 {
		return nil
	}
	withheld, err := p.withheld(ctx)
	if err != nil {
		return fmt.Errorf("nothing was asked for again: %w", err)
	}
	if p.res.Withheld = withheld; withheld != "" {
		p.log.Warn("deliveries are missing and were not asked for", "missing", len(list), "why", withheld)
		return nil
	}
	if p.o.DryRun {
		p.res.Due = list
		return nil
	}
	refused := 0
	var refusal error
	for _, repair := range list {
		if err := p.src.Pacer.wait(ctx); err != nil {
			return err
		}
		if err := p.renew(ctx); err != nil {
			return err
		}
		present, err := p.present(ctx, []string{repair.GUID})
		if err != nil {
			return err
		}
		now := time.Now()
		if present[repair.GUID] {
			if err := p.saveRepairs(ctx, []Repair{repair.closed(now, Arrived, "")}); err != nil {
				return err
			}
			continue
		}
		if err := p.saveRepairs(ctx, []Repair{repair.charged(now, p.Rules)}); err != nil {
			return err
		}
		if err := p.src.GitHub.Redeliver(ctx, p.src.Hook, repair.AttemptID); err != nil {
			if p.isLost(now, repair, err) {
				if err := p.saveRepairs(ctx, []Repair{repair.closed(now, Lost, err.Error())}); err != nil {
					return err
				}
				continue
			}
			if err := p.refund(ctx, now, repair, err); err != nil {
				return err
			}
			var e *github.Error
			if refused++; !errors.As(err, &e) || refused >= maxRefusals {
				return err
			}
			refusal = err
			continue
		}
		refused = 0
		p.res.Redelivered++
	}
	return refusal
}

// withheld says why nothing may be asked for, or nothing.
func (p *pass) withheld(ctx context.Context) (string, error) {
	if !p.Rules.Redeliver {
		return "watchdog.redeliver is false", nil
	}
	if p.src.Mine == nil {
		return "", nil
	}
	config, err := p.src.GitHub.HookConfig(ctx, p.src.Hook)
	if err != nil {
		return "", err
	}
	if !p.src.Mine(config.URL) {
		return "GitHub delivers to another URL than this server's; see `preloop app-check`", nil
	}
	return "", nil
}

// isLost tells a delivery that has left the history from one that this credential may not ask for:
// GitHub answers both with 404.
func (p *pass) isLost(now time.Time, r Repair, err error) bool {
	var e *github.Error
	return errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusUnprocessableEntity) &&
		!p.seen[r.GUID] && now.Sub(r.DeliveredAt) >= p.Rules.History
}

// refund takes back the charge of an attempt that GitHub did not take. One that GitHub refused
// waits as if it had been made, so that it does not stand before the others in every pass.
func (p *pass) refund(ctx context.Context, now time.Time, r Repair, cause error) error {
	r.LastError = cause.Error()
	var e *github.Error
	if errors.As(cause, &e) {
		r.NextAttempt = now.Add(max(p.Rules.wait(r.Attempts+1), time.Minute))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return p.saveRepairs(ctx, []Repair{r})
}
