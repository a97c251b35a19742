package loader

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-redis/sluice"
)

// groupKey is what the callers in a group ask for, under the same limit.
type groupKey struct {
	key     string
	permits int64
}

// group is the callers who ask the same at the same time. At most one pipeline at a time has commands of a group; callers
// who come in the meantime wait for the next, in which one command asks for the permits of many. Each gets the answer
// that a single call would have got when Redis ran the command.
type group struct {
	groupKey
	script     *sluice.Script
	keys       int
	words      []any // of each of their commands, from the first key on
	permitsAt  int   // in the words
	maxCallers int64 // how many of them one command may ask for

	waiting   []*member // in the order in which they came
	abandoned int       // of those, how many have left
	queued    bool
	inFlight  bool
	room      int64 // for how many there was room when Redis answered last
	reach     int64 // how many more than that are tried
}

// groupOf is the group of those who ask the same as a call, nil where it shares its command with nobody: it
// may book, carries an id, or asks under another limit than those who are there.
func (s *sharing) groupOf(c *call) *group {
	if !c.mayJoin() {
		return nil
	}
	key := groupKey{c.key(), c.permitCount()}
	g := s.groups[key]
	switch {
	case g == nil:
		g = &group{groupKey: key, script: c.script, keys: c.keys, words: c.words[firstKey:], permitsAt: c.permitsAt, maxCallers: c.maxGroup}
		s.groups[key] = g
	case g.script != c.script || !slices.Equal(g.words, c.words[firstKey:]):
		return nil
	}
	return g
}

// enqueue puts a group into the queue, unless it is there or in flight.
func (q *nodeQueue) enqueue(g *group) {
	if !g.queued && !g.inFlight {
		g.queued = true
		q.items = append(q.items, queued{group: g})
	}
}

// pruneAbandoned removes abandoned members from the group, once they are more than half of it.
func (g *group) pruneAbandoned() {
	if g.abandoned++; 2*g.abandoned > len(g.waiting) {
		g.waiting, g.abandoned = slices.DeleteFunc(g.waiting, isAbandoned), 0
	}
}

// isAbandoned reports whether a member's caller has left, or its deadline has passed.
func isAbandoned(m *member) bool {
	deadline, _ := m.ctx.Deadline()
	return m.abandoned || m.ctx.Err() != nil || !time.Now().Before(deadline)
}

// groupBatch is what a group has in a pipeline.
type groupBatch struct {
	*group
	members  []*member       // all who waited
	commands []*groupCommand // for the first of them
}

// groupCommand is one command of a turn. It asks for the permits of those of its members who still wait when it is written.
type groupCommand struct {
	*command
	batch   *groupBatch
	members []*member

	claimOnce sync.Once
	written   bool
	asked     int64 // for how many members

	err error // when the pipeline has ended
}

// addGroup puts those who wait in a group into a pipeline, in as many commands as split says.
func (s *sharing) addGroup(p *pipeline, g *group) {
	g.queued = false
	t := &groupBatch{group: g, members: slices.DeleteFunc(g.waiting, isAbandoned)}
	g.waiting, g.abandoned = nil, 0
	if len(t.members) == 0 {
		delete(s.groups, g.groupKey)
		return
	}
	g.inFlight = true
	for _, m := range t.members {
		p.addMember(m)
	}
	for _, part := range t.split() {
		p.cmds = append(p.cmds, part.command)
	}
	p.batches = append(p.batches, t)
}

// split makes the commands of a turn. A lone member has one already.
func (t *groupBatch) split() []*groupCommand {
	if len(t.members) == 1 {
		alone := t.members[0]
		alone.cmd.setWords(alone.ctx, append([]any{"evalsha", t.script.SHA1, nil}, t.words...))
		t.commands = []*groupCommand{{command: t.members[0].cmd, batch: t, members: t.members}}
		return t.commands
	}
	left := t.members
	for _, size := range t.sizes(int64(len(left))) {
		t.commands = append(t.commands, t.command(left[:size]))
		left = left[size:]
	}
	return t.commands
}

// command is one command for several members.
func (t *groupBatch) command(members []*member) *groupCommand {
	p := &groupCommand{batch: t, members: members}
	words := append([]any{"evalsha", t.script.SHA1, nil}, t.words...)
	words[t.permitsAt] = (*writtenPermits)(p)
	p.command = newCommand(members[0].ctx, words, t.keys)
	p.command.group, p.command.piped = p, true
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
	for room := min(g.room, k); room > 0; room -= g.maxCallers {
		take(min(room, g.maxCallers))
	}
	for half := min(g.reach+1, g.maxCallers*2) / 2; half > 0; half /= 2 {
		take(min(half, k-1))
	}
	take(min(1, k))
	return sizes
}

// claim asks for the members who still wait. It is called when the command is written.
func (p *groupCommand) claim() {
	for _, m := range p.members {
		if m.cmd.state.CompareAndSwap(waiting, sent) {
			p.asked++
		}
	}
	if p.asked == 0 {
		p.giveUp()
	}
	p.written = true
}

// writtenPermits is how many permits a part asks for.
type writtenPermits groupCommand

// MarshalBinary is what go-redis calls when it writes the command, after the number of keys.
func (p *writtenPermits) MarshalBinary() ([]byte, error) { return []byte(p.String()), nil }

// String is for hooks that log commands: all that may be asked for, until it is written.
func (p *writtenPermits) String() string {
	asked := int64(len(p.members))
	if p.written {
		asked = p.asked
	}
	return strconv.FormatInt(asked*p.batch.permits, 10)
}

// countWanted is how many members have not given up before the command was written.
func (p *groupCommand) countWanted() (n int64) {
	for _, m := range p.members {
		if m.cmd.wanted() {
			n++
		}
	}
	return n
}

// distribute gives the members their answers. Those who get none stay in the group, before those who came later.
func (t *groupBatch) distribute(p *pipeline) {
	left := make([]*member, 0, len(t.members))
	for _, m := range t.members {
		if m.cmd.wanted() {
			left = append(left, m)
		}
	}
	if p.raised != nil {
		completeAll(left, nil, p.raised)
		return
	}
	asked := int64(len(left))
	var rest *groupCommand // whose outcome is that of all who are left
	lastGranted := false
	for _, part := range t.commands {
		part.readOutcome(p.err)
		lastGranted = false
		switch {
		case part.asked == 0:
		case part.granted():
			lastGranted = true
			left = t.distributeGrant(left, part)
		case part.err == nil:
			t.room = part.remaining() / t.permits
			if part.asked == 1 { // then of one more as well
				rest = part
			}
		case part.asked > 1 && exceedsLimit(part.err): // a lower one is stored than the callers know
			t.room = 0
		default:
			completeAll(left[:part.asked], part.err, nil)
			left, rest = left[part.asked:], cmp.Or(rest, part)
		}
	}
	t.learn(asked-int64(len(left)), len(left) > 0 && lastGranted)
	t.completeRest(left, rest)
}

// readOutcome reads what became of the command. One that was not written was to ask for all of its members.
func (p *groupCommand) readOutcome(err error) {
	p.err = p.outcome(true, err)
	if !p.written { // or it is the command of its only member
		p.asked = p.countWanted()
	}
	if p.err == nil && len(p.Val()) < 2 {
		p.err = errShortReply
	}
}

func (p *groupCommand) granted() bool    { return p.err == nil && p.Val()[0] > 0 }
func (p *groupCommand) remaining() int64 { return p.Val()[1] }

// distributeGrant gives the first of the members what a command has brought for as many, and returns the others.
func (t *groupBatch) distributeGrant(members []*member, p *groupCommand) (left []*member) {
	t.room = p.remaining() / t.permits
	remaining := p.remaining() + p.asked*t.permits
	for _, m := range members[:p.asked] {
		remaining -= t.permits
		m.answer(p.Val(), remaining)
	}
	return members[p.asked:]
}

// answer ends a request with a reply of which it has its own remaining.
func (m *member) answer(reply []int64, remaining int64) {
	if m.completed || m.abandoned {
		return
	}
	m.shared, m.remaining = reply, remaining
	m.complete(nil, nil)
}

func completeAll(requests []*member, err error, raised *raised) {
	for _, m := range requests {
		m.complete(err, raised)
	}
}

// completeRest is for those who were granted nothing, nor charged.
func (t *groupBatch) completeRest(left []*member, rest *groupCommand) {
	if rest == nil {
		left = slices.DeleteFunc(left, isAbandoned)
		t.waiting = append(left, t.waiting...)
	}
	for _, m := range left {
		m.pipeline = nil
		if m.abandoned {
			continue
		}
		m.cmd.state.Store(waiting)
		switch {
		case rest == nil:
		case rest.err != nil:
			m.complete(rest.err, nil)
		default:
			m.answer(rest.Val(), rest.remaining())
		}
	}
}

// endBatch has the group wait for its next turn, if there is anybody in it.
func (s *sharing) endBatch(q *nodeQueue, g *group) {
	g.inFlight = false
	if len(g.waiting) == 0 {
		delete(s.groups, g.groupKey)
		return
	}
	next := g.waiting[0].queue
	next.enqueue(g)
	if next != q {
		s.startNext(next)
	}
}

// learn sets how far to reach next time, after so many were granted: further where all were, and no further than
// would have done.
func (g *group) learn(granted int64, all bool) {
	if all {
		g.reach = min(2*g.reach+1, 2*g.maxCallers)
		return
	}
	for g.reach > 0 && g.reach/2 >= granted {
		g.reach /= 2
	}
}

// allowGroup lets a call share its command with others who ask for as many permits.
func (c *call) allowGroup(permits, capacity int64) {
	permitsMax := c.script.Args[c.permitsAt-firstKey-c.keys].Max
	c.maxGroup = max(min(capacity, permitsMax)/permits, 1)
}

// errShortReply is of a reply that is no decision.
var errShortReply = errors.New("a reply without the fields of a decision")
