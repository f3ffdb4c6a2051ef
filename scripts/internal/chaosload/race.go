package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed-de999ace/preloop/scripts/internal/harness"
)

// racers is how many post one GUID at once.
const racers = 200

// race posts one delivery through all nodes at once: one answer says that it was accepted, all others
// that it was there. That it is stored once and ran once is judged with all others.
func (l *load) race(nodes []*harness.Node) error {
	r := rand.New(rand.NewPCG(1, 1))
	guid := harness.GUID(r)
	req := harness.NewRequest("issues", harness.IssueOpened(r, 6, 8192), harness.Secret)
	words := map[string]int{}
	var mu sync.Mutex // over words
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range racers {
		done.Go(func() {
			s := harness.NewSender(nodes[i%len(nodes)].Addr, 30*time.Second)
			defer s.Close()
			start.Wait()
			status, answer, err := s.Post(req, guid)
			word := fmt.Sprint(status, " ", err)
			if err == nil && status == http.StatusAccepted {
				_, rest, _ := strings.Cut(string(answer), `"status":"`)
				word, _, _ = strings.Cut(rest, `"`)
			}
			mu.Lock()
			defer mu.Unlock()
			words[word]++
		})
	}
	start.Done()
	done.Wait()
	if words["accepted"] != 1 || words["duplicate"] != racers-1 {
		return fmt.Errorf("%d posts of one GUID at once were answered %v", racers, words)
	}
	l.note(func(s *sent) { s.acknowledged[guid] = "issues" })
	fmt.Printf("%d posts of one GUID at once through %d node(s): 1 accepted, %d duplicates\n", racers, len(nodes), racers-1)
	return nil
}
