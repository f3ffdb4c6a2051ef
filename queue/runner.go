package queue

import (
	"cmp"
	"log/slog"
)

// or is value, or what holds where it was not set.
func or[T cmp.Ordered](value, unset T) T {
	var zero T
	if value > zero {
		return value
	}
	return unset
}

func orNoLogger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// deliveryAttrs are what log lines name a delivery by.
func deliveryAttrs(d *Delivery) []any {
	return []any{
		slog.String("delivery", d.ID), slog.String("source", d.SourceName),
		slog.String("event", d.Event), slog.Int("attempt", d.Attempts),
	}
}

// runAttrs are what log lines name a run by.
func runAttrs(r *Run) []any {
	return []any{
		slog.String("run", r.ID), slog.String("trigger", r.Trigger),
		slog.String("delivery", r.DeliveryID), slog.Int("attempt", r.Attempts),
	}
}
