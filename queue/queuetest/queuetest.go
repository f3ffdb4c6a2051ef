// Package queuetest judges a store by the contract of [queue.Store]: one file an operation, each
// looping over the states that allow it and the states that do not. Both stores call it from a
// test of their own, so that the same lines judge both.
//
// A failure names the operation, the case and what the contract promises there. Nothing is
// asserted about wall times but their differences, so that a store may go by its own clock.
package queuetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// Opened is an empty store that a factory has opened for one test, and that test's levers on it.
// The factory closes everything in t.Cleanup.
type Opened struct {
	Store queue.Store
	// Another opens one more handle on the same data, as another process would. It is never a
	// takeover: what the first handle holds stays held.
	Another func(t *testing.T) queue.Store
	// Pass lets d go by on the store's clock. Nil means time.Sleep, which is right in a bubble. A
	// store with a clock of its own shifts every time column of every table back by d instead,
	// NULLs and zeros excepted: to the rows it is the same. Times inside JSON columns (histories)
	// may stay, they are never compared after a Pass.
	Pass func(d time.Duration)
}

// Run judges a store that goes by this process's clock and waits on nothing but files: each test
// runs in a [synctest] bubble, in which open is called, so that days pass in no time.
func Run(t *testing.T, open func(t *testing.T, s queue.Settings) Opened) {
	run(t, func(t *testing.T, do func(t *testing.T)) { synctest.Test(t, do) }, open)
}

// RunServer judges a store that goes by a server's clock and waits on sockets, which a bubble
// would stop. Opened.Pass is needed.
func RunServer(t *testing.T, open func(t *testing.T, s queue.Settings) Opened) {
	run(t, func(t *testing.T, do func(t *testing.T)) { do(t) }, open)
}

// A test is one promise of the contract. Each has a store of its own.
type test struct {
	name     string
	do       func(k *kit)
	settings func(s *queue.Settings) // nil: the documented ones
}

// inside runs a test where its clock is: in a bubble or not.
type inside func(t *testing.T, do func(t *testing.T))

func run(t *testing.T, in inside, open func(t *testing.T, s queue.Settings) Opened) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Enqueue", enqueueTests},
		{"ClaimDeliveries", claimTests},
		{"RenewDeliveries", renewTests},
		{"SettleDelivery", settleTests},
		{"Admission", admissionTests},
		{"List", listTests},
		{"Replay", replayTests},
		{"Prune", pruneTests},
		{"ClaimRuns", claimRunsTests},
		{"SettleRun", settleRunTests},
		{"RenewRuns", renewRunsTests},
		{"SweepRuns", sweepTests},
		{"FollowUp", followUpTests},
		{"Session", sessionTests},
		{"Probe", probeTests},
		{"Operator", operatorTests},
		{"Triggers", triggerTests},
		{"Fleet", fleetTests},
		{"Repairs", repairTests},
		{"Races", raceTests},
		{"Crash", crashTests},
		{"Flow", flowTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.tests {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					in(t, func(t *testing.T) {
						settings := queue.DefaultSettings()
						if c.settings != nil {
							c.settings(&settings)
						}
						c.do(newKit(t, t, open(t, settings), settings))
					})
				})
			}
		})
	}
	t.Run("Model", func(t *testing.T) {
		t.Parallel()
		checkModel(t, in, open)
	})
}
