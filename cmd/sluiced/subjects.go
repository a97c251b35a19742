package main

import (
	"cmp"
	"encoding/json"
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of a list of subjects, so that no text of a request stays for long.
const (
	maxSubjects = 50        // in a list
	maxShown    = 100       // bytes of a subject
	listTime    = time.Hour // then a list begins anew
)

// subjects is a list of the subjects to which something happened most often, in bounded memory: the sketch Space-Saving
// of Metwally, Agrawal and El Abbadi (2005). A subject with more than a 50th of all counts is in it.
type subjects struct {
	mu    sync.Mutex
	since time.Time
	found map[subjectKey]*subject
}

// subjectKey has a hash of the subject, which may be long.
type subjectKey struct {
	limitKey
	hash uint64
}

// subject is what is shown of one: how often it was counted, and of which share of the limit it had used the last time.
type subject struct {
	Domain  string `json:"domain"`
	Limit   string `json:"limit"`
	Subject string `json:"subject"`
	AtLeast int64  `json:"at_least"`
	AtMost  int64  `json:"at_most"`
	Used    int    `json:"used_percent"`
}

var seed = maphash.MakeSeed()

// add counts a subject.
func (s *subjects) add(limit limitKey, text string, used float64) {
	key := subjectKey{limit, maphash.String(seed, text)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.since) > listTime {
		s.since, s.found = now, map[subjectKey]*subject{}
	}
	one := s.found[key]
	if one == nil {
		one = &subject{Domain: limit.domain, Limit: limit.name, Subject: shownSubject(text)}
		if len(s.found) >= maxSubjects {
			rarest := s.rarest()
			one.AtMost = s.found[rarest].AtMost
			delete(s.found, rarest)
		}
		s.found[key] = one
	}
	one.AtLeast++
	one.AtMost++
	one.Used = int(100 * used)
}

// rarest returns the subject with the lowest count.
func (s *subjects) rarest() (key subjectKey) {
	for k, one := range s.found {
		if lowest := s.found[key]; lowest == nil || one.AtMost < lowest.AtMost {
			key = k
		}
	}
	return key
}

// shownSubject is the beginning of a subject, in memory of its own.
func shownSubject(text string) string {
	if len(text) > maxShown {
		return strings.ToValidUTF8(text[:maxShown], "") + ".."
	}
	return strings.Clone(text)
}

// list returns copies, the most frequent first.
func (s *subjects) list() (list []subject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list = []subject{} // not null in JSON
	for _, one := range s.found {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b subject) int {
		return cmp.Or(cmp.Compare(b.AtLeast, a.AtLeast), strings.Compare(a.Subject, b.Subject))
	})
	return list
}

// serveSubjects shows who is refused, and who is about to be.
func (m *metrics) serveSubjects(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	out.SetIndent("", " ")
	_ = out.Encode(map[string]any{"refused": m.refusedMost.list(), "near_limit": m.nearLimit.list()})
}
