package watchdog

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/github"
)

var noon = time.Date(2026, 8, 20, 12, 0, 0, 0, time.UTC)

func row(guid string, id int64, ago time.Duration, code int) github.HookDelivery {
	return github.HookDelivery{ID: id, GUID: guid, DeliveredAt: noon.Add(-ago), StatusCode: code, Event: "push"}
}

func rulesForTests() Rules {
	return Rules{
		Grace: 2 * time.Minute, Keep: 720 * time.Hour, History: 72 * time.Hour, MaxPages: 5, MaxAttempts: 5, Budget: 100, Redeliver: true,
		Backoff: []time.Duration{0, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour},
	}
}

func TestGroup(t *testing.T) {
	big := int64(3838990641421901824)
	all := group([]github.HookDelivery{
		row("a", big+3, time.Minute, 202), row("b", big+2, time.Hour, 502), row("a", big+1, 2*time.Hour, 502),
		row("a", big+4, time.Minute, 500), row("", 1, time.Minute, 500),
	})
	if len(all) != 2 {
		t.Fatalf("want 2 deliveries, got %+v", all)
	}
	if a := all[0]; a.newest.ID != big+4 || !a.oldest.Equal(noon.Add(-2*time.Hour)) {
		t.Errorf("a: the newest attempt is %d, the oldest %s", a.newest.ID, a.oldest)
	}
}

func TestChoose(t *testing.T) {
	w := window{floor: noon.Add(-time.Hour), horizon: noon.Add(-24 * time.Hour), boundary: noon.Add(-2 * time.Minute)}
	for name, c := range map[string]struct {
		rows   []github.HookDelivery
		judged bool
		young  int
	}{
		"in the window":                           {[]github.HookDelivery{row("a", 1, 10*time.Minute, 500)}, true, 0},
		"in the grace":                            {[]github.HookDelivery{row("a", 1, time.Minute, 500)}, false, 1},
		"at the boundary":                         {[]github.HookDelivery{row("a", 1, 2*time.Minute, 500)}, true, 0},
		"sent again within the grace":             {[]github.HookDelivery{row("a", 2, time.Minute, 500), row("a", 1, 10*time.Minute, 500)}, false, 1},
		"adopted":                                 {[]github.HookDelivery{row("a", 1, 2*time.Hour, 500)}, false, 0},
		"adopted, then sent again":                {[]github.HookDelivery{row("a", 2, 10*time.Minute, 500), row("a", 1, 2*time.Hour, 500)}, true, 0},
		"first sent before what the store keeps":  {[]github.HookDelivery{row("a", 2, 10*time.Minute, 500), row("a", 1, 25*time.Hour, 200)}, false, 0},
		"the only attempt is before what is kept": {[]github.HookDelivery{row("a", 1, 25*time.Hour, 500)}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			judged, young := w.choose(group(c.rows))
			if (len(judged) == 1) != c.judged || young != c.young {
				t.Errorf("judged %d, young %d", len(judged), young)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	src := Source{Key: "app-1", Name: "bot"}
	failed, acked := row("g", 7, 10*time.Minute, 503), row("g", 7, 10*time.Minute, 200)
	for name, c := range map[string]struct {
		newest  github.HookDelivery
		present bool
		known   *Repair
		missing int
		want    *Repair // nil: nothing is saved
	}{
		"present":                            {newest: failed, present: true},
		"GitHub recorded a failure":          {newest: failed, missing: 1, want: &Repair{State: Open, Reason: RemoteFailure, AttemptID: 7, FoundAt: noon, NextAttempt: noon}},
		"GitHub recorded a success":          {newest: acked, missing: 1, want: &Repair{State: Open, Reason: PhantomAck, AttemptID: 7, FoundAt: noon, NextAttempt: noon}},
		"known and nothing new":              {newest: failed, missing: 1, known: &Repair{State: Open, DeliveredAt: failed.DeliveredAt, AttemptID: 7}},
		"known, with an older attempt":       {newest: failed, missing: 1, known: &Repair{State: Open, DeliveredAt: noon.Add(-time.Minute), AttemptID: 9}},
		"known, and tried since":             {newest: acked, missing: 1, known: &Repair{State: Open, Attempts: 2, DeliveredAt: noon.Add(-time.Hour), AttemptID: 3, NextAttempt: noon.Add(9)}, want: &Repair{State: Open, Reason: PhantomAck, Attempts: 2, AttemptID: 7, NextAttempt: noon.Add(9)}},
		"had arrived: the store pruned it":   {newest: failed, known: &Repair{State: Arrived}},
		"was lost, and is there after all":   {newest: failed, missing: 1, known: &Repair{State: Lost, Attempts: 1, ClosedAt: noon, LastError: "404"}, want: &Repair{State: Open, Reason: RemoteFailure, Attempts: 1, AttemptID: 7, NextAttempt: noon.Add(5 * time.Minute)}},
		"was lost at the cap, and is there":  {newest: failed, missing: 1, known: &Repair{State: Lost, Attempts: 5, ClosedAt: noon}, want: &Repair{State: Open, Reason: RemoteFailure, Attempts: 5, AttemptID: 7}},
		"status 0 of an old delivery's code": {newest: row("g", 7, 10*time.Minute, 0), missing: 1, want: &Repair{State: Open, Reason: RemoteFailure, AttemptID: 7, FoundAt: noon, NextAttempt: noon}},
	} {
		t.Run(name, func(t *testing.T) {
			known := map[string]Repair{}
			if c.known != nil {
				c.known.GUID = "g"
				known["g"] = *c.known
			}
			save, missing := decide(noon, rulesForTests(), src, group([]github.HookDelivery{c.newest}), map[string]bool{"g": c.present}, known)
			if missing != c.missing || (len(save) == 1) != (c.want != nil) {
				t.Fatalf("missing %d, saved %+v", missing, save)
			}
			if c.want == nil {
				return
			}
			got, want := save[0], *c.want
			if want.FoundAt.IsZero() {
				want.FoundAt = got.FoundAt
			}
			if c.known == nil {
				want.Source = "app-1"
			}
			want.SourceName, want.GUID, want.Event, want.DeliveredAt = "bot", "g", "push", c.newest.DeliveredAt
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestClosing(t *testing.T) {
	for name, c := range map[string]struct {
		age           time.Duration
		attempts      int
		present, seen bool
		want          string // empty: it stays as it is
	}{
		"it has arrived":                          {age: time.Hour, present: true, want: Arrived},
		"it is on its way":                        {age: time.Hour},
		"at the cap, a finding":                   {age: time.Hour, attempts: 5},
		"at the cap, older than the history":      {age: 73 * time.Hour, attempts: 5, want: Lost},
		"at the cap, but the history shows it":    {age: 73 * time.Hour, attempts: 5, seen: true},
		"old, but GitHub was not asked yet":       {age: 73 * time.Hour, attempts: 4},
		"older than what is kept":                 {age: 721 * time.Hour, attempts: 1, want: Lost},
		"arrived after what is kept, and visible": {age: 721 * time.Hour, present: true, want: Arrived},
	} {
		t.Run(name, func(t *testing.T) {
			r := Repair{GUID: "g", State: Open, Attempts: c.attempts, DeliveredAt: noon.Add(-c.age), NextAttempt: noon}
			save := closing(noon, rulesForTests(), []Repair{r}, map[string]bool{"g": c.present}, map[string]bool{"g": c.seen})
			switch {
			case c.want == "" && len(save) != 0:
				t.Errorf("closed as %s", save[0].State)
			case c.want != "" && (len(save) != 1 || save[0].State != c.want || !save[0].ClosedAt.Equal(noon) || !save[0].NextAttempt.IsZero()):
				t.Errorf("got %+v, want %s", save, c.want)
			}
		})
	}
}

func TestDueTakesFirstTriesAndOldDeliveriesFirst(t *testing.T) {
	r := rulesForTests()
	r.Budget = 3
	open := func(guid string, attempts int, age, next time.Duration) Repair {
		return Repair{GUID: guid, State: Open, Attempts: attempts, DeliveredAt: noon.Add(-age), NextAttempt: noon.Add(next)}
	}
	capped := open("capped", 5, time.Hour, 0)
	capped.NextAttempt = time.Time{}
	arrived := open("arrived", 0, time.Hour, 0)
	arrived.State = Arrived
	got := due(noon, r, []Repair{
		open("again", 1, 3*time.Hour, -1), open("young", 0, time.Hour, 0), open("later", 0, 9*time.Hour, 1), open("old", 0, 2*time.Hour, 0), open("beyond", 2, time.Hour, 0), capped, arrived,
	})
	if names := guids(got); !slices.Equal(names, []string{"old", "young", "again"}) {
		t.Errorf("got %v", names)
	}
}

func TestChargedFollowsTheBackoffUpToTheCap(t *testing.T) {
	r := Repair{State: Open}
	var waits []time.Duration
	for range 5 {
		r = r.charged(noon, rulesForTests())
		if !r.NextAttempt.IsZero() {
			waits = append(waits, r.NextAttempt.Sub(noon))
		}
	}
	if want := []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour}; !slices.Equal(waits, want) || r.Attempts != 5 || r.State != Open {
		t.Errorf("got %v, then %+v", waits, r)
	}
}

func TestFailing(t *testing.T) {
	rows := make([]github.HookDelivery, 12)
	for i := range rows {
		rows[i] = row("g", int64(i), 0, 301)
	}
	if !failing(rows) || failing(rows[:9]) {
		t.Error("ten failures are failing, nine are too few to say")
	}
	if rows[11].StatusCode = 200; !failing(rows) {
		t.Error("what is older than ten rows does not count")
	}
	if rows[9].StatusCode = 202; failing(rows) {
		t.Error("a success among the newest ten")
	}
}

func TestBlind(t *testing.T) {
	at := func(ago time.Duration, code int) github.HookDelivery { return row("g", 1, ago, code) }
	for name, c := range map[string]struct {
		chunks [][]github.HookDelivery // in the order in which they were read, each newest first
		down   []Span
		want   time.Duration
	}{
		"nothing known":             {},
		"all is well":               {chunks: [][]github.HookDelivery{{at(1, 200), at(2, 200)}}},
		"until the next success":    {chunks: [][]github.HookDelivery{{at(10*time.Minute, 200), at(12*time.Minute, 502), at(15*time.Minute, 502), at(20*time.Minute, 200)}}, want: 5 * time.Minute},
		"still blind":               {chunks: [][]github.HookDelivery{{at(15*time.Minute, 0), at(20*time.Minute, 200)}}, want: 15 * time.Minute},
		"refused is not unreached":  {chunks: [][]github.HookDelivery{{at(10*time.Minute, 401), at(20*time.Minute, 413)}}},
		"two outages":               {chunks: [][]github.HookDelivery{{at(1*time.Minute, 200), at(2*time.Minute, 500), at(3*time.Minute, 200), at(5*time.Minute, 500)}}, want: 3 * time.Minute},
		"older rows come later":     {chunks: [][]github.HookDelivery{{at(10*time.Minute, 200), at(12*time.Minute, 500)}, {at(14*time.Minute, 500), at(20*time.Minute, 500)}}, want: 10 * time.Minute},
		"a gap is filled later":     {chunks: [][]github.HookDelivery{{at(5*time.Minute, 500), at(6*time.Minute, 500)}, {at(20*time.Minute, 500)}, {at(8*time.Minute, 500), at(10*time.Minute, 200)}}, want: 18 * time.Minute},
		"within one moment":         {chunks: [][]github.HookDelivery{{at(time.Minute, 200), at(time.Minute, 500), at(time.Minute, 200)}}},
		"the same rows again":       {chunks: [][]github.HookDelivery{{at(5*time.Minute, 200), at(6*time.Minute, 500)}, {at(5*time.Minute, 200), at(6*time.Minute, 500)}}, want: time.Minute},
		"before the day":            {chunks: [][]github.HookDelivery{{at(23*time.Hour, 200), at(30*time.Hour, 500), at(40*time.Hour, 200)}}, want: time.Hour},
		"our downtime counts once":  {chunks: [][]github.HookDelivery{{at(10*time.Minute, 200), at(15*time.Minute, 502)}}, down: []Span{{noon.Add(-20 * time.Minute), noon.Add(-12 * time.Minute)}}, want: 10 * time.Minute},
		"a downtime nobody noticed": {down: []Span{{noon.Add(-20 * time.Minute), noon.Add(-19 * time.Minute)}}, want: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var marks []Mark
			for _, chunk := range c.chunks {
				marks = remark(marks, chunk, noon)
			}
			if got := blind(marks, c.down, noon); got != c.want {
				t.Errorf("got %s, want %s (%v)", got, c.want, marks)
			}
		})
	}
}

func TestMarksStayBounded(t *testing.T) {
	var marks []Mark
	for i := range 5000 {
		code := 200 + 300*(i%2)
		marks = remark(marks, []github.HookDelivery{row("g", 1, time.Duration(5000-i)*time.Second, code)}, noon)
	}
	if len(marks) > maxMarks {
		t.Errorf("%d marks are kept", len(marks))
	}
}
