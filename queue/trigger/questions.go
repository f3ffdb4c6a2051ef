package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-de999ace/preloop/queue"
)

// Questions are what deciding may have to ask GitHub. Each is asked at most once per Decide,
// and only if a trigger comes to the clause that needs it.
//
// What an error means is up to what it wraps:
//
//   - ErrUnavailable: nobody can be asked now (a breaker is open, a rate limit, a transport or 5xx
//     failure). Decide returns the error, and the whole delivery is parked.
//   - ErrNotFound: GitHub answered 404. Within a minute of receipt its replicas may lag, so Decide
//     returns the error and the delivery is tried again as after any transient failure. Later it
//     is like every other error.
//   - anything else is a verdict: error, for the triggers that asked.
//
// Errors become reasons that people read: they must hold neither secrets nor payload.
type Questions interface {
	// ChangedFiles returns the paths that the pull request (d.SubjectNum) or the push (body) of
	// d changes; of a renamed file both names. complete is false when GitHub lists only some.
	ChangedFiles(ctx context.Context, d *queue.Delivery, body map[string]any) (files []string, complete bool, err error)
	// Permission returns the role of d.Sender in d.Repo: one of Roles.
	Permission(ctx context.Context, d *queue.Delivery) (role string, err error)
}

// Errors that Questions wrap; see there.
var (
	ErrUnavailable = errors.New("GitHub cannot be asked now")
	ErrNotFound    = errors.New("GitHub does not have it")
)

// Roles are the permissions on a repository, the least first.
var Roles = []string{"none", "read", "triage", "write", "maintain", "admin"}

// replicaLag is how long after receipt a 404 may be GitHub's own delay.
const replicaLag = 60 * time.Second

var errNotAsked = errors.New("it takes a question to GitHub, which was not asked")

// answers keeps what GitHub said during one Decide.
type answers struct {
	questions Questions // nil: every question is refused
	event     *Event

	filesAsked bool
	files      []string
	complete   bool
	filesErr   error

	roleAsked bool
	role      string
	roleErr   error
}

func (a *answers) changedFiles(ctx context.Context, body map[string]any) ([]string, bool, error) {
	if a.questions == nil {
		return nil, false, errNotAsked
	}
	if !a.filesAsked {
		a.filesAsked = true
		a.files, a.complete, a.filesErr = a.questions.ChangedFiles(ctx, a.event.Delivery, body)
	}
	return a.files, a.complete, a.filesErr
}

func (a *answers) permission(ctx context.Context) (string, error) {
	if a.questions == nil {
		return "", errNotAsked
	}
	if !a.roleAsked {
		a.roleAsked = true
		a.role, a.roleErr = a.questions.Permission(ctx, a.event.Delivery)
		if a.roleErr == nil && !slices.Contains(Roles, a.role) {
			a.roleErr = fmt.Errorf("GitHub names an unknown role, %.40q", a.role)
		}
	}
	return a.role, a.roleErr
}

// stops reports whether err is about the moment and not about the trigger.
func (a *answers) stops(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrUnavailable) ||
		errors.Is(err, ErrNotFound) && a.event.Now.Sub(a.event.Delivery.ReceivedAt) < replicaLag
}
