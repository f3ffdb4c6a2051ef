// Package harness is what the load and fault programs share: made-up events as GitHub would sign
// and send them, a preloop as a process that can be killed, and its operator API.
package harness
