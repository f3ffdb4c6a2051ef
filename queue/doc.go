// Package queue is the domain of preloop: deliveries and what becomes of them, runs, sessions,
// and the contract that a store keeps. It knows no SQL, no HTTP and no GitHub. The databases
// (queue/sqlite, queue/postgres), the rules (queue/trigger) and the targets (queue/target) import
// it, never the other way round.
//
// # A delivery
//
//	       Enqueue
//	          │
//	          ▼    claim: lease, token + 1, attempts + 1
//	     ┌──────────┐ ─────────────────────────────► ┌────────────┐
//	┌──► │ received │                                │ processing │ ◄─┐ lease ended, claimed
//	│    └──────────┘ ◄───────────────────────────── └────────────┘ ──┘ again: token + 1
//	│          ▲        retry: after the usual wait    │        │
//	│          │        park, release: refunded        │ done   │ permanent error, panic,
//	│          │                                       ▼        ▼ no attempt left
//	│          │                                  ┌──────┐   ┌────────┐
//	│          └── replay: generation + 1 ─────── │ done │   │ failed │
//	│                                             └──────┘   └────────┘
//	└── replay, or a redelivery by GitHub ───────────────────────┘
//
// Done and failed are terminal: only an operator or GitHub moves a delivery on from there, and
// once it has been terminal for Settings.Keep, and its runs too, it is pruned. The whole table of
// what a settlement makes of an attempt is [Settings.NextState].
//
// # A run
//
//	          admission, in the write that makes its delivery done
//	             │                                    │
//	             ▼                                    ▼
//	        ┌─────────┐  expired, superseded    ┌─────────┐
//	  ┌───► │ waiting │ ──────────────────────► │ dropped │  queue_full, loop_limit at once
//	  │     └─────────┘                         └─────────┘
//	  │   start │    │ follow-up
//	  │         ▼    ▼
//	  │  ┌─────────┐ ┌─────────┐   not delivered: stays routing, tried again
//	  ├─ │ running │ │ routing │   session ended: a waiting start in its old place
//	  │  └─────────┘ └─────────┘
//	  │     │   │       │    │  the target's word
//	  │     │   └───────┼────┴─────────────► succeeded, failed, delivered
//	  │     └───────────┤
//	  │                 ▼  worker_lost, interrupted, unconfirmed
//	  │           ┌───────────┐
//	  └────────── │ uncertain │ ───────────► succeeded, delivered, failed
//	it did not    └───────────┘  a probe, an operator, or uncertain_after
//
// To be tried again is to be waiting (or routing) with a time: it costs an attempt, except where
// it was refunded, and the last attempt's failure is final. An idempotent run skips uncertain and
// is tried again. An operator's cancel ends a run that has not ended; an operator's retry makes
// an ended one waiting again, with the same id and therefore the same idempotency key. An
// accepted HTTP run stays running, without a lease, until it is finished or its time is over.
//
// # Leases and tokens
//
// Whoever works on a row holds its lease until a deadline and proves it by a token, which rises
// with every claim of that row.
//
//   - Every write of the holder names the token, and the store refuses it with [ErrLeaseLost] once
//     the lease has ended or the token is not the newest: an old holder can change nothing, however
//     late it comes back.
//   - The holder renews at a third of the lease. Where it cannot, it ends its work by its own
//     clock before the lease does: a decision within a twelfth of the lease, a target's process
//     within a quarter of it, since a process may take ten seconds to die.
//   - An ended lease makes a delivery claimable again; deciding has no effects outside the store.
//     A run may have had effects: nobody repeats it blindly, it becomes uncertain.
//   - The clock is the process's on SQLite and the database's on Postgres, so that nodes need not
//     agree on the time.
//   - Slots and caps are counted from rows whenever they are needed. There is no counter that a
//     crash could leave wrong.
//
// # Durable
//
// A method that returns without an error has flushed what it wrote to disk. From that follow four
// promises: a webhook answered 202 is in the store; a delivery that is done has its runs, since
// both are one transaction; a run that has started was recorded as starting before; an outcome
// that was recorded is never overwritten by a holder whose lease is over. When the connection
// breaks during a commit nobody knows whether it happened: every write can be repeated without
// harm, and is.
//
// # The walk of one webhook
//
//  1. github/webhook bounds and reads the request, verifies the signature over the raw bytes, and
//     makes a [Delivery] of the headers and the few [Facts] that preloop reads from the payload.
//  2. Enqueue takes it into the store: whatever waits at that moment is committed together. GitHub
//     gets its 202 after the flush, never before.
//  3. The commit wakes this node's [Worker]; on Postgres a notification wakes the other nodes. Who
//     misses a wake finds the delivery at the next poll.
//  4. The worker asks the gate (the breaker of the GitHub host) and claims a batch, oldest first,
//     each with a lease.
//  5. queue/trigger decides for each trigger whose `on` matches: matched, filtered, ignored or
//     error, with a reason. It may ask GitHub; an outage parks the delivery.
//  6. The settlement makes the delivery done and admits a run for each match, in one transaction
//     under the trigger's lock: paused, double subscription, loop limit, coalescing, queue size, in
//     this order ([Admission]).
//  7. That commit wakes the [Dispatcher]. ClaimRuns says what may start: the oldest first, while
//     there is capacity, one for each serialize key, a follow-up only into its session. The intent
//     is durable before anything starts.
//  8. queue/target executes it, a command or an HTTP request, under a context that ends when the
//     run is canceled, the lease is lost or the node stops.
//  9. Its [Outcome] settles the run, fenced by its token, ends or keeps its session, and frees its
//     slot. The dispatcher looks at once what that lets start.
//  10. Once everything is terminal and old enough the [Pruner] deletes it.
//
// # Two versions at work
//
// While a fleet is upgraded, nodes of two neighbouring versions share one store. So migrations
// only add: tables, indexes, columns with a default. New code reads rows that the previous version
// wrote, and the previous version is not hurt by what new code writes: it does not see a new
// column, and a new state or word is written only by the release after the one that first
// understands it. What an old node cannot live with, such as a dropped column or a new meaning of
// an old one, takes two releases: the first stops using the old form, the second removes it. A
// node refuses a schema newer than it knows at its start ([ErrNewerSchema]); the ones that run go
// on until they are replaced.
package queue
