// Package trigger holds the rules: which deliveries a trigger wants (Set.Decide), and what it
// then says and runs (Trigger.Prompt, Trigger.Argv).
//
// A Spec, as the configuration reads it, is compiled once into a Trigger; a Set indexes the
// triggers of one configuration. An Event is built once per delivery or run. All three are
// immutable and safe for concurrent use.
//
// Deciding is pure but for two questions to GitHub, the interface Questions. The clauses of a
// trigger are asked in a fixed order, cheap ones first and GitHub last; see the variable clauses,
// which is that order. The first clause that does not let the delivery through gives the verdict,
// and its name begins the reason.
//
// Payloads are hostile. A filter is bounded in cost and time, a template in output and work, and
// neither's errors repeat what the payload said, beyond logins, repository and role names.
package trigger
