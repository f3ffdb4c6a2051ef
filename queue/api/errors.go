package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-de999ace/preloop/queue"
)

// ErrUnauthorized: the server did not accept the system token.
var ErrUnauthorized = errors.New("not authorized")

// ErrUnreachable: the server, or its store, could not be reached.
var ErrUnreachable = errors.New("unreachable")

// statusOf maps an error to its HTTP status. It is the only place that does.
func statusOf(err error) int {
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, queue.ErrConflict), errors.Is(err, queue.ErrAmbiguous):
		return http.StatusConflict
	case errors.Is(err, queue.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, ErrUnauthorized):
		return http.StatusUnauthorized
	}
	return http.StatusInternalServerError
}

// remote is an error as a server answered it; it unwraps to the sentinel that its status stands for.
type remote struct {
	status  int
	message string
}

func (e *remote) Error() string { return e.message }

func (e *remote) Unwrap() error {
	switch e.status {
	case http.StatusNotFound:
		return queue.ErrNotFound
	case http.StatusConflict:
		if strings.Contains(e.message, queue.ErrAmbiguous.Error()) {
			return queue.ErrAmbiguous
		}
		return queue.ErrConflict
	case http.StatusBadRequest:
		return queue.ErrInvalid
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrUnauthorized
	}
	return ErrUnreachable
}

type problem struct {
	Error string `json:"error"`
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client has gone; there is nobody to tell
}

// internalMessage is what a client sees of an error that is not its own: the store's messages
// never hold a secret, but they name files and hosts.
func internalMessage(err error) string {
	return fmt.Sprintf("the store did not answer: %v", err)
}
