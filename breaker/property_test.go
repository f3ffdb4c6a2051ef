package breaker

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMachineProperties drives one breaker with 1,100 steps for each of rapid's 100 walks, and
// checks after each step what must hold whatever happens.
func TestMachineProperties(t *testing.T) {
	c := Defaults()
	rapid.Check(t, func(t *rapid.T) {
		var s State
		now := t0
		type probe struct {
			owner      string
			generation int64
			deadline   time.Time
		}
		var running []probe       // won and not yet reported, the newest last
		generations := []int64{0} // in which calls began that have not ended
		seed := rapid.Uint64().Draw(t, "seed")
		roll := func(n int) int { // cheap steps, from one drawn seed, so that a walk can be long
			seed ^= seed << 13
			seed ^= seed >> 7
			seed ^= seed << 17
			return int((seed + 0x9e3779b97f4a7c15) >> 33 % uint64(n))
		}
		for range 1100 {
			before := s.At(now, c)
			closedByProbe := false
			switch roll(9) {
			case 0:
				now = now.Add(time.Duration(roll(90_000)) * time.Millisecond)
				before = s.At(now, c)
			case 1:
				if before.Wait(now, c) == 0 {
					generations = append(generations, before.Generation)
				}
			case 2, 3:
				s = s.Failure(now, c, generations[roll(len(generations))], "boom")
			case 4:
				if roll(10) == 0 {
					s = s.RateLimit(now, c, time.Duration(roll(5000)-10)*time.Second, "429")
				}
			case 5:
				s = s.Success(now, c)
				if !s.Open && s.Failures != 0 {
					t.Fatalf("a closed breaker kept %d failures after a success", s.Failures)
				}
			case 6, 7:
				owner := string(rune('a' + roll(3)))
				next, won := s.TryProbe(now, c, owner)
				if won {
					if !before.Open || now.Before(before.OpenUntil) {
						t.Fatalf("a probe was given away at %s in %+v", now, before)
					}
					for _, p := range running {
						if now.Before(p.deadline) {
							t.Fatalf("two probes at once: %+v and %s", p, owner)
						}
					}
					running = append(running, probe{owner, next.Generation, now.Add(c.Probe)})
				}
				s = next
			case 8:
				if len(running) == 0 {
					break
				}
				i := roll(len(running))
				p := running[i]
				running = append(running[:i:i], running[i+1:]...)
				r := Result{Kind: Kind(roll(4)), Wait: time.Duration(roll(8000)) * time.Second}
				s = s.ProbeResult(now, c, p.owner, p.generation, r)
				closedByProbe = r.Kind == Reachable && now.Before(p.deadline)
			}
			after := s.At(now, c)
			if before.Open && !after.Open && !closedByProbe {
				t.Fatalf("open breaker closed without its probe: %+v to %+v", before, after)
			}
			if wait := after.Wait(now, c); after.Open && (wait < time.Second || wait > time.Hour) {
				t.Fatalf("wait of %s in %+v", wait, after)
			} else if !after.Open && wait != 0 {
				t.Fatalf("closed, and a wait of %s", wait)
			}
			if !after.Open && after.Failures >= c.Threshold {
				t.Fatalf("closed after %d failures", after.Failures)
			}
			if after.Generation < before.Generation || after.Trips < before.Trips {
				t.Fatalf("went backwards: %+v to %+v", before, after)
			}
			if after.Open != before.Open && after.Generation == before.Generation {
				t.Fatalf("opened or closed within a generation: %+v to %+v", before, after)
			}
		}
	})
}
