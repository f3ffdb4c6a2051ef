package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// OpenTraced is Open, with every statement of the pool told to a tracer.
func OpenTraced(ctx context.Context, url string, o Options, tracer pgx.QueryTracer) (*Store, error) {
	return open(ctx, url, o, tracer)
}
