package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue"
	"github.com/seed-de999ace/preloop/queue/api"
)

// view is what a page shows: the template's name and its data.
type view struct {
	name   string
	title  string
	status int // 0: 200
	data   any
}

// pageFunc reads what a page shows.
type pageFunc func(r *http.Request) (view, error)

func (d *Dashboard) page(make pageFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if r.Header.Get("Accept") == "text/event-stream" {
			d.stream(w, r, make)
			return
		}
		v, err := make(r)
		if err != nil {
			d.problem(w, r, err)
			return
		}
		status := v.status
		if status == 0 {
			status = http.StatusOK
		}
		section, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		d.render(w, status, layout{
			Title: v.title, Section: section, LoggedIn: true, Flash: done[r.URL.Query().Get("did")], Refresh: v.name == "overview", view: v,
		})
	}
}

// --- Overview ---

type overviewView struct {
	*api.Status
	Plots []plot
}

func (d *Dashboard) overview(r *http.Request) (view, error) {
	s, err := d.ops.Status(r.Context())
	if err != nil {
		return view{}, err
	}
	v := overviewView{Status: s}
	if d.sampler != nil {
		v.Plots = plots(d.sampler.samples())
	}
	return view{name: "overview", title: "Overview", data: v}, nil
}

// --- Deliveries ---

// listView is a page of rows with the filters that chose them.
type listView struct {
	Filter  url.Values
	States  []string // to choose from
	Rows    any
	Older   string // address of the next page, or empty
	Newest  string // address of the first page, or empty when this is it
	Problem string
}

func newListView[S ~string](path string, q url.Values, known []S) listView {
	v := listView{Filter: q}
	for _, s := range known {
		v.States = append(v.States, string(s))
	}
	if q.Get("cursor") != "" {
		v.Newest = address(path, q, "")
	}
	return v
}

// address is the list's address with its filters and another cursor.
func address(path string, q url.Values, cursor string) string {
	q = maps.Clone(q)
	q.Del("cursor")
	q.Del("did")
	for key, values := range q {
		if len(values) == 0 || values[0] == "" {
			q.Del(key)
		}
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// badFilter shows what is wrong with a filter above the form that it came from.
func badFilter(name, title string, v listView, err error) (view, error) {
	if !errors.Is(err, queue.ErrInvalid) {
		return view{}, err
	}
	v.Problem = err.Error()
	return view{name: name, title: title, status: http.StatusBadRequest, data: v}, nil
}

func (d *Dashboard) deliveries(r *http.Request) (view, error) {
	const name, title = "deliveries", "Deliveries"
	q := r.URL.Query()
	v := newListView(r.URL.Path, q, queue.DeliveryStates)
	v.Rows = []api.Delivery{}
	f := queue.DeliveryFilter{
		Event: field(q, "event"), Repo: field(q, "repo"), Source: field(q, "source"), Trigger: field(q, "trigger"), Cursor: q.Get("cursor"), Limit: api.DefaultLimit,
	}
	var err error
	if f.States, err = api.ParseStates(q.Get("state"), queue.DeliveryStates); err != nil {
		return badFilter(name, title, v, err)
	}
	if f.Since, err = api.ParseSince(field(q, "since"), time.Now()); err != nil {
		return badFilter(name, title, v, err)
	}
	list, err := d.ops.Deliveries(r.Context(), f)
	if err != nil {
		return badFilter(name, title, v, err)
	}
	v.Rows = list.Deliveries
	if list.NextCursor != nil {
		v.Older = address(r.URL.Path, q, *list.NextCursor)
	}
	return view{name: name, title: title, data: v}, nil
}

func field(q url.Values, name string) string { return strings.TrimSpace(q.Get(name)) }

type deliveryView struct {
	*api.DeliveryDetail
	Ref        string
	Replayable bool
	HeaderList []header
}

type header struct{ Name, Value string }

func (d *Dashboard) delivery(r *http.Request) (view, error) {
	ref := r.PathValue("ref")
	detail, err := d.ops.Delivery(r.Context(), ref)
	if err != nil {
		return view{}, err
	}
	v := deliveryView{DeliveryDetail: detail, Ref: ref, Replayable: queue.DeliveryState(detail.State).Terminal()}
	for _, name := range slices.Sorted(maps.Keys(detail.Headers)) {
		v.HeaderList = append(v.HeaderList, header{name, detail.Headers[name]})
	}
	return view{name: "delivery", title: "Delivery " + detail.DeliveryID, data: v}, nil
}

type payloadView struct {
	Ref  string
	Text string
	Cut  bool
	Size int
}

// maxPayloadShown keeps a browser usable; the raw address has it all.
const maxPayloadShown = 512 << 10

func (d *Dashboard) payload(r *http.Request) (view, error) {
	ref := r.PathValue("ref")
	b, err := d.ops.Payload(r.Context(), ref)
	if err != nil {
		return view{}, err
	}
	v := payloadView{Ref: ref, Size: len(b)}
	shown := b
	if len(b) <= maxPayloadShown {
		var indented bytes.Buffer
		if json.Indent(&indented, b, "", "  ") == nil {
			shown = indented.Bytes()
		}
	}
	if v.Cut = len(shown) > maxPayloadShown; v.Cut {
		shown = shown[:maxPayloadShown]
	}
	v.Text = strings.ToValidUTF8(string(shown), "\uFFFD")
	return view{name: "payload", title: "Payload of " + ref, data: v}, nil
}

func (d *Dashboard) rawPayload(w http.ResponseWriter, r *http.Request) {
	b, err := d.ops.Payload(r.Context(), r.PathValue("ref"))
	if err != nil {
		d.problem(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(b) // the browser has gone; there is nobody to tell
}

// --- Runs ---

func (d *Dashboard) runs(r *http.Request) (view, error) {
	const name, title = "runs", "Runs"
	q := r.URL.Query()
	v := newListView(r.URL.Path, q, queue.RunStates)
	v.Rows = []api.Run{}
	f := queue.RunFilter{Trigger: field(q, "trigger"), Subject: field(q, "subject"), DeliveryID: field(q, "delivery_id"), Cursor: q.Get("cursor"), Limit: api.DefaultLimit}
	var err error
	if f.States, err = api.ParseStates(q.Get("state"), queue.RunStates); err != nil {
		return badFilter(name, title, v, err)
	}
	if f.Since, err = api.ParseSince(field(q, "since"), time.Now()); err != nil {
		return badFilter(name, title, v, err)
	}
	list, err := d.ops.Runs(r.Context(), f)
	if err != nil {
		return badFilter(name, title, v, err)
	}
	v.Rows = list.Runs
	if list.NextCursor != nil {
		v.Older = address(r.URL.Path, q, *list.NextCursor)
	}
	return view{name: name, title: title, data: v}, nil
}

type runView struct {
	*api.RunDetail
	Cancel, Retry, Resolve bool // what its state allows
}

func (d *Dashboard) run(r *http.Request) (view, error) {
	detail, err := d.ops.Run(r.Context(), r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	v := runView{RunDetail: detail}
	switch queue.RunState(detail.State) {
	case queue.Waiting, queue.Running, queue.Routing:
		v.Cancel = !detail.CancelAsked
	case queue.Uncertain:
		v.Cancel, v.Retry, v.Resolve = true, true, true
	case queue.RunFailed, queue.Canceled, queue.Dropped:
		v.Retry = true
	}
	return view{name: "run", title: "Run " + detail.ID, data: v}, nil
}

// --- Triggers and repairs ---

func (d *Dashboard) triggers(r *http.Request) (view, error) {
	list, err := d.ops.Triggers(r.Context())
	if err != nil {
		return view{}, err
	}
	return view{name: "triggers", title: "Triggers", data: list.Triggers}, nil
}

// repairStates are the states of a repair, the one that needs attention first.
var repairStates = []string{"open", "arrived", "lost", "adopted"}

func (d *Dashboard) repairs(r *http.Request) (view, error) {
	q := r.URL.Query()
	v := newListView(r.URL.Path, q, repairStates)
	list, err := d.ops.Repairs(r.Context(), queue.RepairFilter{State: field(q, "state"), Source: field(q, "source"), Limit: api.MaxLimit})
	if err != nil {
		return view{}, err
	}
	v.Rows = list.Repairs
	return view{name: "repairs", title: "Repairs", data: v}, nil
}
