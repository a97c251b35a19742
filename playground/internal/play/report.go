package play

import (
	"encoding/json"

	"github.com/sluice-redis/sluice/internal/lua51"
)

// Opened describes a run before its first decision. Times are in microseconds.
type Opened struct {
	Duration int64  `json:"duration"`
	Lanes    []Lane `json:"lanes"`
}

// Lane describes a limiter.
type Lane struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	Kind    string   `json:"kind"`
	Note    string   `json:"note"`
	File    string   `json:"file"`
	SHA1    string   `json:"sha1"`
	Source  string   `json:"source"`
	Key     string   `json:"key"`
	Promise []Limit  `json:"promise"` // what any window holds at most; of a window of 0, what is held at once
	Fields  []string `json:"fields"`
	Second  *Second  `json:"second,omitempty"`
}

// Second is the script of the calls that end a request, and what they do to it.
type Second struct {
	File   string `json:"file"`
	SHA1   string `json:"sha1"`
	Source string `json:"source"`
	Word   string `json:"word"` // released, settled, given back or reported
}

// Opened describes the run.
func (r *Run) Opened() Opened {
	opened := Opened{Duration: r.scenario.For}
	for _, l := range r.lanes {
		opened.Lanes = append(opened.Lanes, l.describe())
	}
	return opened
}

func (l *lane) describe() Lane {
	keys, _ := l.words(arrival{permits: 1}, call{try: 1})
	described := Lane{
		ID: l.id, Title: l.title, Kind: l.kind, Note: l.note, File: l.file,
		SHA1: sha1Of(l.script), Source: l.source, Key: keys[0], Fields: l.replyNames(asking, l.fields()),
	}
	if l.follows != nothing {
		described.Second = &Second{l.file, described.SHA1, l.source, l.follows.word()}
	}
	if second := l.endsWith; second != nil {
		described.Second = &Second{"scripts/" + second.File, second.SHA1, second.Source, l.follows.word()}
	}
	for _, p := range l.tally.promises {
		described.Promise = append(described.Promise, p.Limit)
	}
	return described
}

// sha1Of returns a script's SHA1, "" if it does not compile.
func sha1Of(script *lua51.Script) string {
	if script == nil {
		return ""
	}
	return script.SHA1
}

// fields returns how many fields a reply has.
func (l *lane) fields() int {
	switch {
	case l.ours == nil:
		return 3
	case l.severalWindows():
		return len(l.ours.Reply) - 1 + len(l.scenario.Limits)
	}
	return len(l.ours.Reply)
}

// Audit is what has happened so far.
type Audit struct {
	Done      bool        `json:"done"`
	Decisions int         `json:"decisions"`
	Cut       bool        `json:"cut"` // more decisions were wanted than a run makes
	Until     int64       `json:"until"`
	Lanes     []LaneAudit `json:"lanes"`
}

// LaneAudit is what has happened in a lane.
type LaneAudit struct {
	Calls      int           `json:"calls"`
	Granted    int           `json:"granted"`
	Booked     int           `json:"booked"`
	Denied     int           `json:"denied"`
	Errors     int           `json:"errors"`
	Ended      int           `json:"ended"`           // released, settled, given back or reported
	Renewed    int           `json:"renewed"`         // slots
	Late       int           `json:"late"`            // for that: nothing was done
	Here       int           `json:"here,omitempty"`  // decided by processes, without Redis
	Error      string        `json:"error,omitempty"` // the first
	Permits    int64         `json:"permits"`
	Bytes      int64         `json:"bytes"`       // stored: keys and values, without what a server adds
	MedianWait int64         `json:"median_wait"` // of the granted: from the first try until the permits may be used
	Windows    []WindowAudit `json:"windows"`
}

// Audit audits the run so far.
func (r *Run) Audit() Audit {
	audit := Audit{Decisions: r.decisions, Until: r.until}
	audit.Done, audit.Cut = r.Done()
	for _, l := range r.lanes {
		t := l.tally
		audit.Lanes = append(audit.Lanes, LaneAudit{
			Calls: t.calls, Granted: t.outcomes[granted], Booked: t.outcomes[booked], Denied: t.outcomes[denied],
			Errors: t.outcomes[failed], Error: t.firstError, Ended: t.outcomes[ended], Renewed: t.outcomes[renewed],
			Late: t.outcomes[late], Here: t.here, Permits: t.permits, Bytes: l.redis.Bytes(), MedianWait: t.waits.value(),
			Windows: t.windows(),
		})
	}
	return audit
}

// JSON writes a value of this package.
func JSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return JSON(Failure{Error: err.Error()})
	}
	return string(text)
}

// Failure is what is written in place of a result.
type Failure struct {
	Error     string `json:"error"`
	Parameter string `json:"parameter,omitempty"` // of the link that is wrong
}

// FailureOf describes an error.
func FailureOf(err error) Failure {
	failure := Failure{Error: err.Error()}
	if wrong, ok := err.(*LinkError); ok {
		failure.Parameter = wrong.Parameter
	}
	return failure
}
