package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	streamEvery  = 2 * time.Second
	streamWrite  = 10 * time.Second // for one event; a browser that is slower than that has gone
	maxStreams   = 64
	streamLength = time.Hour // then the browser comes again
)

// stream sends a page's content whenever it differs from what was sent before: event "page" with
// the HTML as a JSON string, event "away" while the store does not answer. In between a comment
// shows that the line holds. It ends with the session, with Close, or when the browser goes.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request, make pageFunc) {
	select {
	case d.streams <- struct{}{}:
		defer func() { <-d.streams }()
	default:
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	send := func(format string, args ...any) bool {
		_ = out.SetWriteDeadline(time.Now().Add(streamWrite)) // in place of the server's; a recorder has none
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	var last []byte
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for end := time.Now().Add(streamLength); time.Now().Before(end) && d.session(r) != ""; {
		content, err := d.content(r, make)
		ok := true
		switch {
		case r.Context().Err() != nil:
			return
		case err != nil:
			last = nil
			ok = send("event: away\ndata:\n\n")
		case bytes.Equal(content, last):
			ok = send(":\n\n")
		default:
			last = content
			quoted, _ := json.Marshal(string(content)) // a string always can be
			ok = send("event: page\ndata: %s\n\n", quoted)
		}
		if !ok {
			return
		}
		select {
		case <-tick.C:
		case <-d.closed:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (d *Dashboard) content(r *http.Request, make pageFunc) ([]byte, error) {
	v, err := make(r)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = pages[v.name].ExecuteTemplate(&b, "content", v.data)
	return b.Bytes(), err
}
