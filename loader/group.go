package loader

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-redis/sluice"
)

// groupKey is what the callers in a group ask for, under the same limit.
type groupKey struct {
	key     string
	permits int64
}

// group is of callers who ask the same at the same time. Commands of one pipeline at a time are in flight for it; those
// who come in the meantime wait for the next, in which one command asks for the permits of many. They get the answers
// that they would have got one by one at the moment at which Redis ran it.
type group struct {
	groupKey
	script    *sluice.Script
	keys      int
	words     []any // of each of their commands, from the first key on
	permitsAt int   // in the words
	max       int64 // how many of them one command may ask for

	waiting  []*request // in the order in which they came
	gone     int        // of those, how many have left
	queued   bool
	inFlight bool
	room     int64 // for how many there was room when Redis answered last
	reach    int64 // how many more than that are tried
}

// groupOf is the group of those who ask the same as a call, nil where it shares its command with nobody: it
// may book, carries an id, or asks under another limit than those who are there.
func (s *sharing) groupOf(c *call) *group {
	if !c.mayJoin() {
		return nil
	}
	key := groupKey{c.key(), c.permits()}
	g := s.groups[key]
	switch {
	case g == nil:
		g = &group{groupKey: key, script: c.script, keys: c.keys, words: c.words[firstKey:], permitsAt: c.permitsAt, max: c.together}
		s.groups[key] = g
	case g.script != c.script || !slices.Equal(g.words, c.words[firstKey:]):
		return nil
	}
	return g
}

// enqueue puts a group into the queue, unless it is there or in flight.
func (l *line) enqueue(g *group) {
	if !g.queued && !g.inFlight {
		g.queued = true
		l.queue = append(l.queue, queued{group: g})
	}
}

// left clears the group of those who have left, once they are the most of it.
func (g *group) left() {
	if g.gone++; 2*g.gone > len(g.waiting) {
		g.waiting, g.gone = slices.DeleteFunc(g.waiting, hasLeft), 0
	}
}

// hasLeft reports whether nobody waits for a request, or will in a moment.
func hasLeft(r *request) bool {
	deadline, _ := r.ctx.Deadline()
	return r.gone || r.ctx.Err() != nil || !time.Now().Before(deadline)
}

// groupTurn is what a group has in a pipeline.
type groupTurn struct {
	*group
	members []*request // all who waited
	parts   []*part    // for the first of them
}

// part is one command of a turn. It asks for the permits of those of its members who still wait when it is written.
type part struct {
	*command
	turn    *groupTurn
	members []*request

	once    sync.Once
	written bool
	asked   int64 // for how many members

	err error // when the pipeline has ended
}

// boardGroup puts those who wait in a group into a pipeline, in as many commands as split says.
func (s *sharing) boardGroup(p *pipeline, g *group) {
	g.queued = false
	t := &groupTurn{group: g, members: slices.DeleteFunc(g.waiting, hasLeft)}
	g.waiting, g.gone = nil, 0
	if len(t.members) == 0 {
		delete(s.groups, g.groupKey)
		return
	}
	g.inFlight = true
	for _, r := range t.members {
		p.take(r)
	}
	for _, part := range t.split() {
		p.cmds = append(p.cmds, part.command)
	}
	p.turns = append(p.turns, t)
}

// split makes the commands of a turn. A lone member has one already.
func (t *groupTurn) split() []*part {
	if len(t.members) == 1 {
		alone := t.members[0]
		alone.cmd.fill(alone.ctx, append([]any{"evalsha", t.script.SHA1, nil}, t.words...))
		t.parts = []*part{{command: t.members[0].cmd, turn: t, members: t.members}}
		return t.parts
	}
	left := t.members
	for _, size := range t.sizes(int64(len(left))) {
		t.parts = append(t.parts, t.part(left[:size]))
		left = left[size:]
	}
	return t.parts
}

// part is one command for several members.
func (t *groupTurn) part(members []*request) *part {
	p := &part{turn: t, members: members}
	words := append([]any{"evalsha", t.script.SHA1, nil}, t.words...)
	words[t.permitsAt] = (*writtenPermits)(p)
	p.command = newCommand(members[0].ctx, words, t.keys)
	p.command.part, p.command.piped = p, true
	return p
}

// sizes is for how many of k members each command asks: as many as there was room for; where those are not all, a few
// more, by halves, of which Redis grants as many as it can; and one by itself, whose denial is that of all who are
// left.
func (g *group) sizes(k int64) (sizes []int64) {
	take := func(size int64) {
		if size > 0 {
			sizes = append(sizes, size)
			k -= size
		}
	}
	for room := min(g.room, k); room > 0; room -= g.max {
		take(min(room, g.max))
	}
	for half := min(g.reach+1, g.max*2) / 2; half > 0; half /= 2 {
		take(min(half, k-1))
	}
	take(min(1, k))
	return sizes
}

// fill asks for the members who still wait. It is called when the command is written.
func (p *part) fill() {
	for _, r := range p.members {
		if r.cmd.state.CompareAndSwap(waiting, sent) {
			p.asked++
		}
	}
	if p.asked == 0 {
		p.giveUp()
	}
	p.written = true
}

// writtenPermits is how many permits a part asks for.
type writtenPermits part

// MarshalBinary is what go-redis calls when it writes the command, after the number of keys.
func (p *writtenPermits) MarshalBinary() ([]byte, error) { return []byte(p.String()), nil }

// String is for hooks that log commands: all that may be asked for, until it is written.
func (p *writtenPermits) String() string {
	asked := int64(len(p.members))
	if p.written {
		asked = p.asked
	}
	return strconv.FormatInt(asked*p.turn.permits, 10)
}

// wanting is how many members have not given up before the command was written.
func (p *part) wanting() (n int64) {
	for _, r := range p.members {
		if r.cmd.wanted() {
			n++
		}
	}
	return n
}

// land gives the members their answers. Those who get none stay in the group, before those who came later.
func (t *groupTurn) land(p *pipeline) {
	left := make([]*request, 0, len(t.members))
	for _, r := range t.members {
		if r.cmd.wanted() {
			left = append(left, r)
		}
	}
	if p.raised != nil {
		endAll(left, nil, p.raised)
		return
	}
	asked := int64(len(left))
	var rest *part // whose outcome is that of all who are left
	lastGranted := false
	for _, part := range t.parts {
		part.take(p.err)
		lastGranted = false
		switch {
		case part.asked == 0:
		case part.granted():
			lastGranted = true
			left = t.grant(left, part)
		case part.err == nil:
			t.room = part.remaining() / t.permits
			if part.asked == 1 { // then of one more as well
				rest = part
			}
		case part.asked > 1 && exceedsLimit(part.err): // a lower one is stored than the callers know
			t.room = 0
		default:
			endAll(left[:part.asked], part.err, nil)
			left, rest = left[part.asked:], cmp.Or(rest, part)
		}
	}
	t.learn(asked-int64(len(left)), len(left) > 0 && lastGranted)
	t.endRest(left, rest)
}

// take reads what became of the command. One that was not written was to ask for all of its members.
func (p *part) take(err error) {
	p.err = p.outcome(true, err)
	if !p.written { // or it is the command of its only member
		p.asked = p.wanting()
	}
	if p.err == nil && len(p.Val()) < 2 {
		p.err = errShortReply
	}
}

func (p *part) granted() bool    { return p.err == nil && p.Val()[0] > 0 }
func (p *part) remaining() int64 { return p.Val()[1] }

// grant gives the first of the members what a command has brought for as many, and returns the others.
func (t *groupTurn) grant(members []*request, p *part) (left []*request) {
	t.room = p.remaining() / t.permits
	remaining := p.remaining() + p.asked*t.permits
	for _, r := range members[:p.asked] {
		remaining -= t.permits
		r.answer(p.Val(), remaining)
	}
	return members[p.asked:]
}

// answer ends a request with a reply of which it has its own remaining.
func (r *request) answer(reply []int64, remaining int64) {
	if r.ended || r.gone {
		return
	}
	r.shared, r.remaining = reply, remaining
	r.end(nil, nil)
}

func endAll(requests []*request, err error, raised *raised) {
	for _, r := range requests {
		r.end(err, raised)
	}
}

// endRest is for those who were granted nothing, nor charged.
func (t *groupTurn) endRest(left []*request, rest *part) {
	if rest == nil {
		left = slices.DeleteFunc(left, hasLeft)
		t.waiting = append(left, t.waiting...)
	}
	for _, r := range left {
		r.pipeline = nil
		if r.gone {
			continue
		}
		r.cmd.state.Store(waiting)
		switch {
		case rest == nil:
		case rest.err != nil:
			r.end(rest.err, nil)
		default:
			r.answer(rest.Val(), rest.remaining())
		}
	}
}

// endTurn has the group wait for its next turn, if there is anybody in it.
func (s *sharing) endTurn(l *line, g *group) {
	g.inFlight = false
	if len(g.waiting) == 0 {
		delete(s.groups, g.groupKey)
		return
	}
	next := g.waiting[0].line
	next.enqueue(g)
	if next != l {
		s.depart(next)
	}
}

// learn sets how far to reach next time, after so many were granted: further where all were, and no further than
// would have done.
func (g *group) learn(granted int64, all bool) {
	if all {
		g.reach = min(2*g.reach+1, 2*g.max)
		return
	}
	for g.reach > 0 && g.reach/2 >= granted {
		g.reach /= 2
	}
}

// share lets a call share its command with others who ask for as many permits.
func (c *call) share(permits, capacity int64) {
	most := c.script.Args[c.permitsAt-firstKey-c.keys].Max
	c.together = max(min(capacity, most)/permits, 1)
}

// errShortReply is of a reply that is no decision.
var errShortReply = errors.New("a reply without the fields of a decision")

// exceedsLimit reports whether a script refused a call for more permits than the limit that is stored.
func exceedsLimit(err error) bool {
	return isReply(err) && strings.HasPrefix(err.Error(), "BADARG permits: want up to")
}
