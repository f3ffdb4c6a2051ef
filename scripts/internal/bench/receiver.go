package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/seed-de999ace/preloop/github/webhook"
	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// nowhere accepts every delivery and keeps none.
type nowhere struct{}

func (nowhere) Enqueue(context.Context, queue.Delivery, []byte) (queue.EnqueueResult, error) {
	return queue.Accepted, nil
}

// serveStoreless is the product's receiver with the product's listener settings, and no store.
func serveStoreless(ctx context.Context, addr string) error {
	receiver := webhook.New(webhook.Config{Sources: []webhook.Source{{
		Key: "default", Secrets: []webhook.Secret{{Name: "default", Value: []byte(harness.Secret)}},
	}}}, nowhere{}, slog.New(slog.DiscardHandler))
	mux := http.NewServeMux()
	mux.Handle(harness.WebhookPath, receiver)
	server := http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: 30 * time.Second, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
