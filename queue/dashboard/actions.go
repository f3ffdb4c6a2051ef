package dashboard

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

// actionFunc changes something and says which page shows the result.
type actionFunc func(r *http.Request) (path, did string, err error)

func (d *Dashboard) action(act actionFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			d.problem(w, r, fmt.Errorf("%w: the form could not be read", queue.ErrInvalid))
			return
		}
		path, did, err := act(r)
		if err != nil {
			d.problem(w, r, err)
			return
		}
		d.log.Info("an operator acted in the dashboard", "action", r.URL.Path, "remote", r.RemoteAddr)
		http.Redirect(w, r, path+"?did="+did, http.StatusSeeOther)
	}
}

// done says in words what an action's did stands for.
var done = map[string]string{
	"replay":  "The delivery is queued again.",
	"cancel":  "The run is being canceled.",
	"retry":   "The run waits for its turn again.",
	"resolve": "The run is resolved.",
	"pause":   "The trigger is paused: what comes in now is ignored by it, nothing that waits starts.",
	"resume":  "The trigger is active again.",
}

func (d *Dashboard) replay(r *http.Request) (path, did string, err error) {
	ref := r.PathValue("ref")
	_, err = d.ops.Replay(r.Context(), ref, api.ReplayRequest{Force: r.PostForm.Get("force") != ""})
	return "/deliveries/" + url.PathEscape(ref), "replay", err
}

func (d *Dashboard) actOnRun(r *http.Request) (path, did string, err error) {
	id, action := r.PathValue("id"), r.PathValue("action")
	switch action {
	case "cancel", "retry", "resolve":
		_, err = d.ops.Act(r.Context(), id, action, api.EndRequest{As: r.PostForm.Get("as")})
	default:
		err = errNoPage
	}
	return "/runs/" + url.PathEscape(id), action, err
}

func (d *Dashboard) setTrigger(r *http.Request) (path, did string, err error) {
	action := r.PathValue("action")
	switch action {
	case "pause", "resume":
		_, err = d.ops.SetTrigger(r.Context(), r.PathValue("name"), action)
	default:
		err = errNoPage
	}
	return "/triggers", action, err
}
