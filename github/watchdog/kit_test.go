package watchdog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/github"
)

// history is GitHub's side in memory: rows, oldest first, pages of any size.
type history struct {
	mu       sync.Mutex
	rows     []github.HookDelivery
	perPage  int
	keep     time.Duration
	lag      time.Duration // how long a new row is not listed yet
	skew     time.Duration // of GitHub's clock
	nextID   int64
	reads    int
	pages    int               // of those, that were answered
	failRead func(n int) error // n: which read since the start, from 1
	failPost func(id int64) error
	url      string
	asked    []string // GUIDs, as redeliveries were accepted
	askedAt  []time.Time
	deliver  func(guid string) int // what the receiver answers to a redelivery
}

func newHistory() *history {
	return &history{perPage: 100, keep: 72 * time.Hour, nextID: 3838990641421901824, url: "https://hooks.example.test/"}
}

func (h *history) record(guid string, code int) {
	h.nextID++
	h.rows = append(h.rows, github.HookDelivery{ID: h.nextID, GUID: guid, DeliveredAt: time.Now().Add(h.skew).UTC(), StatusCode: code, Event: "push"})
}

func (h *history) listed() []github.HookDelivery {
	list := make([]github.HookDelivery, 0, len(h.rows))
	for _, r := range slices.Backward(h.rows) {
		if age := time.Since(r.DeliveredAt) + h.skew; age >= h.lag && age < h.keep {
			list = append(list, r)
		}
	}
	return list
}

func (h *history) Deliveries(_ context.Context, _ github.Hook, cursor string) (page github.DeliveryPage, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	if h.failRead != nil {
		if err := h.failRead(h.reads); err != nil {
			return page, err
		}
	}
	list := h.listed()
	if cursor != "" {
		last, _ := strconv.ParseInt(cursor, 10, 64)
		i := slices.IndexFunc(list, func(r github.HookDelivery) bool { return r.ID == last })
		if i < 0 {
			return page, &github.Error{Status: 422, Message: "Invalid cursor"}
		}
		list = list[i+1:]
	}
	h.pages++
	page.Rows = list[:min(len(list), h.perPage)]
	if len(page.Rows) < len(list) {
		page.Next = strconv.FormatInt(page.Rows[len(page.Rows)-1].ID, 10)
	}
	return page, nil
}

func (h *history) Redeliver(_ context.Context, _ github.Hook, id int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failPost != nil {
		if err := h.failPost(id); err != nil {
			return err
		}
	}
	for _, r := range slices.Backward(h.rows) {
		if r.ID == id && time.Since(r.DeliveredAt) < h.keep {
			h.asked, h.askedAt = append(h.asked, r.GUID), append(h.askedAt, time.Now())
			if h.deliver != nil {
				h.record(r.GUID, h.deliver(r.GUID))
			}
			return nil
		}
	}
	return &github.Error{Status: 404, Message: "Not Found"}
}

func (h *history) HookConfig(context.Context, github.Hook) (github.HookConfig, error) {
	return github.HookConfig{URL: h.url}, nil
}

// memory is a Store for one source.
type memory struct {
	mu      sync.Mutex
	holder  string
	cursor  Cursor
	rows    map[string]bool
	repairs map[string]Repair
	broken  func(op string) error // before anything has happened
	cut     func(op string) error // after it has happened: the answer is lost
	down    []Span
	log     []string
}

func newMemory() *memory { return &memory{rows: map[string]bool{}, repairs: map[string]Repair{}} }

func (m *memory) op(name string) error {
	m.log = append(m.log, name)
	if m.broken != nil {
		return m.broken(name)
	}
	return nil
}

// done is the answer to a write.
func (m *memory) done(name string) error {
	if m.cut != nil {
		return m.cut(name)
	}
	return nil
}

func (m *memory) Lock(_ context.Context, _, owner string, _ time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.op("lock"); err != nil {
		return false, err
	}
	if m.holder != "" && m.holder != owner {
		return false, nil
	}
	m.holder = owner
	return true, m.done("lock")
}

func (m *memory) Unlock(_ context.Context, _, owner string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holder == owner {
		m.holder = ""
	}
	return nil
}

func (m *memory) LoadCursor(context.Context, string) (Cursor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cursor
	if c.Scan != nil {
		scan := *c.Scan
		c.Scan = &scan
	}
	return c, m.op("load")
}

func (m *memory) SaveCursor(_ context.Context, _ string, c *Cursor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.op("save"); err != nil {
		return err
	}
	if c.Version != m.cursor.Version {
		return errors.New("moved by another")
	}
	m.cursor = *c
	m.cursor.Version++
	if err := m.done("save"); err != nil {
		return err
	}
	c.Version++
	return nil
}

func (m *memory) Present(_ context.Context, _ string, guids []string) (map[string]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	present := map[string]bool{}
	for _, guid := range guids {
		if m.rows[guid] {
			present[guid] = true
		}
	}
	return present, m.op("present")
}

func (m *memory) Repairs(context.Context, string) ([]Repair, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.repairs), func(a, b Repair) int { return cmp.Compare(a.GUID, b.GUID) }), m.op("repairs")
}

func (m *memory) SaveRepairs(_ context.Context, list []Repair) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.op("saveRepairs"); err != nil {
		return err
	}
	for _, r := range list {
		m.repairs[r.GUID] = r
	}
	return m.done("saveRepairs")
}

func (m *memory) Downtime(context.Context) ([]Span, error) { return m.down, m.op("downtime") }

// receive is the receiver: it owns the delivery.
func (m *memory) receive(guid string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[guid] = true
	return 202
}

func (m *memory) states() string {
	count := map[string]int{}
	for _, r := range m.repairs {
		count[r.State]++
	}
	return fmt.Sprint(count)
}

func dog(m *memory, r Rules) *Watchdog {
	return &Watchdog{Store: m, Owner: "node", Rules: r, Log: slog.New(slog.DiscardHandler)}
}
