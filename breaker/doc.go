// Package breaker decides when GitHub may be called.
//
// There is one breaker per credential (an app or a token) and one for the GitHub host. Each is a
// small state machine that takes the time and returns the next state; it does no I/O:
//
//	          threshold failures, or a rate limit
//	closed ───────────────────────────────────────► open ◄──────────────┐
//	  ▲                                              │ interval is over │ probe failed,
//	  │                                              ▼                  │ limited, or not
//	  └────────────── probe was answered ───────── probing ─────────────┘ reported in time
//
// A Set holds the breakers of one host, publishes each change to a Store by compare-and-swap, so
// that every node waits for what one of them found out, and makes the probes: recovery needs no
// work to come along.
//
// Three rules keep the picture honest. A call remembers the generation in which it began, so that
// its late failure is not counted against a breaker that has moved on. Only the answer to its own
// probe closes an open breaker. A probe that nobody reports counts as a failure at its deadline,
// which every node computes alike without a write.
package breaker
