package queue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

func TestDispatcherStops(t *testing.T) {
	t.Run("what runs may finish", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, target := dispatcher(b, lasting(20*time.Second))
			run := b.admit(anything, admission("deploy"))[0]
			next := b.admit(anything, admission("deploy"))[0]
			stop := b.service(d.Run)
			b.pass(time.Second)
			stop()
			want(t, "stopped after", b.now(), 20*time.Second)
			want(t, "cause", fmt.Sprint(target.causes.all()), "[<nil>]")
			b.wantRun(run.ID, queue.Succeeded, "", 1)
			b.wantRun(next.ID, queue.Waiting, "", 0)
		})
	})
	t.Run("then it is interrupted", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, target := dispatcher(b, lasting(time.Hour))
			run := b.admit(anything, admission("deploy"))[0]
			stop := b.service(d.Run)
			b.pass(50 * time.Second)
			stop()
			want(t, "stopped after", b.now(), 81*time.Second)
			want(t, "cause", target.causes.all()[0], queue.ErrShutdown)
			want(t, "renewed at", b.times("RenewRuns"), []int{20, 40, 60, 80})
			b.wantRun(run.ID, queue.Uncertain, queue.ReasonInterrupted, 1)
		})
	})
	t.Run("what was claimed and not begun is given back", func(t *testing.T) {
		for name, arms := range map[string]map[string]fault{
			"at once": nil, "though its answer is lost": {"ReleaseRun": lose}, "though its claim's answer was lost": {"ClaimRuns": lose},
		} {
			t.Run(name, func(t *testing.T) {
				in(t, func(b *bubble) {
					d, target := dispatcher(b, answering(succeeded))
					run := b.admit(anything, admission("deploy"))[0]
					ctx, stop := context.WithCancel(b.Context())
					for method, arm := range arms {
						b.set(method, arm)
					}
					b.before = func(method string) {
						if method == "ClaimRuns" {
							stop()
						}
					}
					if err := d.Run(ctx); err != nil {
						t.Fatal(err)
					}
					want(t, "starts", len(target.at.all()), 0)
					b.wantRun(run.ID, queue.Waiting, "", 0)
				})
			})
		}
	})
	t.Run("a target that does not stop is left behind", func(t *testing.T) {
		in(t, func(b *bubble) {
			release := make(chan struct{})
			d, _ := dispatcher(b, func(context.Context, queue.RunClaim, func(string, queue.SessionState)) queue.Outcome {
				<-release
				return succeeded
			})
			run := b.admit(anything, admission("deploy"))[0]
			stop := b.service(d.Run)
			b.pass(time.Second)
			stop()
			want(t, "stopped after", b.now(), 46*time.Second)
			if b.logs.count("targets did not stop") != 1 {
				t.Error("the log does not say so")
			}
			close(release)
			synctest.Wait()
			b.wantRun(run.ID, queue.Running, "", 1) // until another node's sweep finds the lease ended
			b.pass(time.Minute)
			if _, err := b.Store.SweepRuns(b.Context()); err != nil {
				t.Fatal(err)
			}
			b.wantRun(run.ID, queue.Uncertain, queue.ReasonWorkerLost, 1)
		})
	})
	t.Run("without a store", func(t *testing.T) {
		in(t, func(b *bubble) {
			d, _ := dispatcher(b, lasting(time.Hour))
			b.admit(anything, admission("deploy"))
			stop := b.service(d.Run)
			synctest.Wait()
			b.down(hang)
			stop()
			if b.now() > 50*time.Second {
				t.Errorf("stopping without a store took %v", b.now())
			}
		})
	})
}
