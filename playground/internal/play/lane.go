package play

import (
	"fmt"
	"strconv"

	"github.com/sluice-redis/sluice/internal/lua51"
)

// startTime is what the server's clock shows at the start: 2030-01-01T00:00:00Z, in microseconds.
const startTime = 1_893_456_000_000_000

// ownBudget is how many instructions a call of a pasted script may take. A browser runs them in about 0.3 s.
const ownBudget = 1_000_000

// lane is one limiter under the traffic, with a server of its own.
type lane struct {
	*limiter
	scenario *Scenario
	skews    []int64
	script   *lua51.Script
	second   *lua51.Script // for the calls that end a request
	redis    *lua51.Redis
	refused  error           // why the script is not called any more
	commands []lua51.Command // of the last call that was sent

	processes map[[2]int64]*process // that grant by themselves: by process and client
	every     int64                 // how old a grant may be that is in no report
	most      int64                 // permits that a process may be ahead of Redis

	next   int // arrivals before this one have come
	coming coming
	calls  []call
	tally  *tally
}

// call is one call of a lane.
type call struct {
	arrival int // its index
	try     int // from 1
	purpose purpose
	at      int64
	asked   int64 // when it was granted, or its lease renewed, where that was before
	due     int64 // when its permits may be used
	outcome outcome
}

// outcome is what a call came to.
type outcome int8

const (
	denied outcome = iota
	granted
	booked // act after the wait
	failed
	ended   // released, settled or given back
	renewed // the lease of a slot
	late    // for any of these: nothing was done
	outcomes
)

// answer is what a reply says.
type answer struct {
	outcome   outcome
	remaining int64 // unknown, if negative
	wait      int64 // microseconds; unknown, if negative
	permits   int64 // asked for, released, settled or given back
}

const unknown = -1

// noAnswer is the answer of a call that failed.
var noAnswer = answer{outcome: failed, remaining: unknown, wait: unknown}

func (s *Scenario) newLane(id string) (*lane, error) {
	k := limiterOf(id)
	if id == ownID {
		own := *k
		own.source = s.Own
		k = &own
	}
	redis, err := lua51.Open()
	if err != nil {
		return nil, err
	}
	l := &lane{limiter: k, scenario: s, skews: s.skews(), redis: redis, tally: s.newTally(k)}
	l.script, l.refused = lua51.Compile(k.file, k.source)
	if l.script != nil && id == ownID {
		l.script.Budget = ownBudget
	}
	if l.second = l.script; k.endsWith != nil {
		l.second, err = lua51.Compile("scripts/"+k.endsWith.File, k.endsWith.Source)
	}
	l.startProcesses()
	return l, err
}

// subject returns whom a request is about.
func (s *Scenario) subject(client int64) string {
	if s.KeyPerClient {
		return "client-" + strconv.FormatInt(client+1, 10)
	}
	return "everybody"
}

// words returns the KEYS and ARGV of a call.
func (l *lane) words(a arrival, c call) (keys, args []string) {
	s := l.scenario
	id := strconv.Itoa(c.arrival + 1)
	if c.try > 1 {
		id += "." + strconv.Itoa(c.try)
	}
	r := request{
		name: "play", subject: s.subject(a.client), limits: s.Limits, burst: s.Burst, permits: a.permits,
		maxWait: s.Ahead, id: id, client: "playground", ttl: s.TTL, purpose: c.purpose, actual: a.actual,
		now: s.serverTime(c.at),
	}
	if l.follows == reports {
		r.reported = l.processOf(a).InFlight
	}
	if l.ours != nil {
		r.taken = s.serverTime(c.asked)
		r.moment = r.taken + c.due - c.asked
		return r.words(l.limiter)
	}
	limit, permits := s.Limits[0], l.permits(a)
	switch {
	case l.follows == reports:
		permits = r.reported
	case c.purpose == ending:
		permits = -permits
	}
	if l.follows == releases {
		limit.Window = s.TTL
	}
	args = decimals(limit.Permits, limit.Window, permits, startTime+c.at+l.skews[a.client])
	return []string{r.key(l.code)}, append(args, id)
}

// serverTime returns what the server's clock shows at a time.
func (s *Scenario) serverTime(at int64) int64 {
	now := startTime + at
	for _, step := range s.Steps {
		if step.At <= at {
			now += step.By
		}
	}
	return now
}

// decide runs the script for a call, unless its process decides.
func (l *lane) decide(a arrival, c call) (answer, error) {
	l.redis.SetTime(l.scenario.serverTime(c.at))
	if l.refused != nil {
		return noAnswer, l.refused
	}
	if d, here := l.decideHere(a, c); here {
		l.tally.here++
		return d, nil
	}
	keys, args := l.words(a, c)
	script := l.script
	if c.purpose == ending {
		script = l.second
	}
	result := script.Run(l.redis, keys, args)
	l.commands = result.Commands
	l.refused = endedBy(result.Err)
	answer, err := answerTo(result)
	if l.follows == reports {
		return l.answered(a, c, answer), err
	}
	if err == nil && c.purpose != asking {
		return l.followed(c.purpose, answer, result.Reply), nil
	}
	answer.permits = l.permits(a)
	return answer, err
}

// endedBy returns why a script was ended by what runs it, as the error of its call: nil if it was not. Such a call
// takes up to a second, so the run makes no more of them.
func endedBy(err error) error {
	const once = "; it is not called again in this run"
	switch err.(type) {
	case *lua51.BudgetError:
		return fmt.Errorf("ended: still running after %d instructions%s. Redis would hang (BUSY) until SCRIPT KILL",
			ownBudget, once)
	case *lua51.UnsupportedError:
		return fmt.Errorf("%w%s", err, once)
	}
	return nil
}

// answerTo reads the result of a run.
func answerTo(result lua51.Result) (answer, error) {
	err := result.Err
	if ended := endedBy(err); ended != nil {
		err = ended
	}
	if err != nil {
		return noAnswer, err
	}
	return read(result.Reply)
}

// read reads a reply: granted, remaining and wait, or granted alone, or nil.
func read(reply any) (answer, error) {
	switch reply := reply.(type) {
	case nil:
		return answerOf(0, unknown, unknown), nil
	case int64:
		return answerOf(reply, unknown, unknown), nil
	case []any:
		if len(reply) == 0 {
			break
		}
		first, ok := reply[0].(int64)
		if !ok {
			break
		}
		return answerOf(first, at(reply, 1), at(reply, 2)), nil
	}
	return noAnswer, fmt.Errorf("the reply is %s: want {granted, remaining, wait}, an integer or nil", display(reply))
}

// at returns a field of a reply, unknown if it is no integer of 0 or more.
func at(reply []any, i int) int64 {
	if i < len(reply) {
		if n, ok := reply[i].(int64); ok && n >= 0 {
			return n
		}
	}
	return unknown
}

// longestWait is the longest wait that is believed. Longer ones are taken for none.
const longestWait = 1000 * day

func answerOf(first, remaining, wait int64) answer {
	if wait > longestWait {
		wait = unknown
	}
	a := answer{outcome: granted, remaining: remaining}
	switch {
	case first <= 0 && wait <= 0:
		a.outcome, a.wait = denied, unknown
	case first <= 0:
		a.outcome, a.wait = denied, wait
	case wait > 0:
		a.outcome, a.wait = booked, wait
	}
	return a
}
