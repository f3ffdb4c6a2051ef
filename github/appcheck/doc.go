// Package appcheck compares an app or a webhook, as it is configured at GitHub, with what the
// triggers need. Reading and judging are apart: Read asks GitHub for the facts, Judge is pure, with
// one rule for each kind of finding. Nothing is ever changed at GitHub.
package appcheck
