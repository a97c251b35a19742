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

// groupKey is what all callers in a group ask for.
type groupKey struct {
	key     string
	permits int64
}

// group is the callers who ask for the same number of permits of the same subject, under the same limit. While commands
// of a group are in flight, new callers wait; then one command asks for the permits of many. Each caller gets the
// answer that a single call would have got at that time.
//
// How many callers Redis can grant permits to is not known in advance, so a group keeps two numbers. room is the number
// of callers for whom permits remained after the last reply. More permits may have become free since; reach is the
// number of callers beyond room that are tried in the next pipeline: see sizes and learn.
type group struct {
	groupKey
	script     *sluice.Script
	keys       int
	verb       []any // the first words of their commands: EVALSHA and SHA1, or FCALL and name
	words      []any // of each of their commands, from the first key on
	permitsAt  int   // index of permits in the words of a whole command
	maxCallers int64 // for how many callers one command may ask

	waiting   []*member // in order of arrival
	abandoned int       // members of waiting whose callers have left
	queued    bool
	inFlight  bool
	room      int64
	reach     int64
}

// groupOf returns the group that a call joins, nil if its command cannot be shared: it may book, it has an id, or
// it asks under another limit than the group.
func (s *sharing) groupOf(c *call) *group {
	if !c.mayJoin() {
		return nil
	}
	key := groupKey{c.key(), c.permitCount()}
	g := s.groups[key]
	switch {
	case g == nil:
		g = &group{
			groupKey: key, script: c.script, keys: c.keys,
			verb: c.words[:keyCountAt], words: c.words[firstKey:], permitsAt: c.permitsAt, maxCallers: c.maxGroup,
		}
		s.groups[key] = g
	case g.script != c.script || !slices.Equal(g.words, c.words[firstKey:]):
		return nil
	}
	return g
}

// enqueue adds a group to the queue, unless it is queued or in flight.
func (q *nodeQueue) enqueue(g *group) {
	if !g.queued && !g.inFlight {
		g.queued = true
		q.items = append(q.items, queued{group: g})
	}
}

// pruneAbandoned counts one more abandoned member, and removes all of them once they are more than half of the group.
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

// groupBatch is a group's part of one pipeline.
type groupBatch struct {
	*group
	members  []*member       // all who waited
	commands []*groupCommand // for the first of them
}

// groupCommand is one command of a batch. It asks for the permits of those of its members who still wait when it is
// written.
type groupCommand struct {
	*command
	batch   *groupBatch
	members []*member

	claimOnce sync.Once
	written   bool
	asked     int64 // for how many members it asked

	err error // set when the pipeline has ended
}

// addGroup adds the commands of a group to a pipeline.
func (s *sharing) addGroup(p *pipeline, g *group) {
	g.queued = false
	b := &groupBatch{group: g, members: slices.DeleteFunc(g.waiting, isAbandoned)}
	g.waiting, g.abandoned = nil, 0
	if len(b.members) == 0 {
		delete(s.groups, g.groupKey)
		return
	}
	g.inFlight = true
	for _, m := range b.members {
		p.addMember(m)
	}
	for _, c := range b.split() {
		p.cmds = append(p.cmds, c.command)
	}
	p.batches = append(p.batches, b)
}

// split makes the commands of a batch. A single member's own command is used as it is.
func (b *groupBatch) split() []*groupCommand {
	if len(b.members) == 1 {
		single := b.members[0]
		single.cmd.setWords(single.ctx, b.commandWords())
		b.commands = []*groupCommand{{command: single.cmd, batch: b, members: b.members}}
		return b.commands
	}
	left := b.members
	for _, size := range b.sizes(int64(len(left))) {
		b.commands = append(b.commands, b.newCommand(left[:size]))
		left = left[size:]
	}
	return b.commands
}

// newCommand makes one command for several members.
func (b *groupBatch) newCommand(members []*member) *groupCommand {
	c := &groupCommand{batch: b, members: members}
	words := b.commandWords()
	words[b.permitsAt] = (*writtenPermits)(c)
	c.command = newCommand(members[0].ctx, words, b.keys)
	c.command.group, c.command.piped = c, true
	return c
}

// commandWords returns the words of one member's command; newCommand sets the number of keys.
func (g *group) commandWords() []any {
	return slices.Concat(g.verb, []any{nil}, g.words)
}

// sizes returns for how many of k callers each command asks, in this order:
//
//   - the callers for whom there was room at the last reply, in as few commands as possible;
//   - up to reach more callers, in commands of falling size (4, 2, 1), so that Redis grants as many as it can;
//   - one caller alone: if that one is denied, so are all who are left.
func (g *group) sizes(k int64) (sizes []int64) {
	add := func(size int64) {
		if size > 0 {
			sizes = append(sizes, size)
			k -= size
		}
	}
	for room := min(g.room, k); room > 0; room -= g.maxCallers {
		add(min(room, g.maxCallers))
	}
	for half := min(g.reach+1, g.maxCallers*2) / 2; half > 0; half /= 2 {
		add(min(half, k-1))
	}
	add(min(1, k))
	return sizes
}

// claim fixes for which members the command asks: those who still wait. It is called when the command is written.
func (c *groupCommand) claim() {
	for _, m := range c.members {
		if m.cmd.state.CompareAndSwap(waiting, sent) {
			c.asked++
		}
	}
	if c.asked == 0 {
		c.giveUp()
	}
	c.written = true
}

// writtenPermits is the number of permits that a group command asks for.
type writtenPermits groupCommand

// MarshalBinary is called by go-redis when it writes the command, after the number of keys.
func (p *writtenPermits) MarshalBinary() ([]byte, error) { return []byte(p.String()), nil }

// String is for hooks that log commands. Before the command is written it counts all members.
func (p *writtenPermits) String() string {
	asked := int64(len(p.members))
	if p.written {
		asked = p.asked
	}
	return strconv.FormatInt(asked*p.batch.permits, 10)
}

// distribute gives the members their answers. Members without an answer stay in the group, before later callers.
func (b *groupBatch) distribute(p *pipeline) {
	left := wantedOf(b.members)
	if p.raised != nil {
		completeAll(left, nil, p.raised)
		return
	}
	asked := int64(len(left))
	var rest *groupCommand // its outcome is that of all who are left
	lastGranted := false
	for _, c := range b.commands {
		c.readOutcome(p.err)
		lastGranted = c.asked > 0 && c.granted()
		left, rest = b.applyOutcome(c, left, rest)
	}
	b.learn(asked-int64(len(left)), len(left) > 0 && lastGranted)
	b.completeRest(left, rest)
}

// wantedOf returns the members whose callers had not left before their command was written.
func wantedOf(members []*member) []*member {
	wanted := make([]*member, 0, len(members))
	for _, m := range members {
		if m.cmd.wanted() {
			wanted = append(wanted, m)
		}
	}
	return wanted
}

// readOutcome sets the command's error, and asked if the command was not written or is a single member's own.
func (c *groupCommand) readOutcome(err error) {
	c.err = c.outcome(true, err)
	if !c.written {
		c.asked = int64(len(wantedOf(c.members)))
	}
	if c.err == nil && len(c.Val()) < 2 {
		c.err = errShortReply
	}
}

func (c *groupCommand) granted() bool    { return c.err == nil && c.Val()[0] > 0 }
func (c *groupCommand) remaining() int64 { return c.Val()[1] }

// applyOutcome answers the members for whom a command asked. It returns the members that are left without an answer,
// and the command whose outcome is theirs, nil if there is none yet.
func (b *groupBatch) applyOutcome(c *groupCommand, left []*member, rest *groupCommand) ([]*member, *groupCommand) {
	switch {
	case c.asked == 0:
	case c.granted():
		left = b.distributeGrant(left, c)
	case c.err == nil:
		b.room = c.remaining() / b.permits
		if c.asked == 1 { // if one is denied, all others are
			rest = c
		}
	case c.asked > 1 && exceedsLimit(c.err): // the limit that is stored is lower than the callers' own
		b.room = 0
	default:
		completeAll(left[:c.asked], c.err, nil)
		left, rest = left[c.asked:], cmp.Or(rest, c)
	}
	return left, rest
}

// distributeGrant answers the first members, for whom a command was granted permits, and returns the others.
func (b *groupBatch) distributeGrant(members []*member, c *groupCommand) (left []*member) {
	b.room = c.remaining() / b.permits
	remaining := c.remaining() + c.asked*b.permits
	for _, m := range members[:c.asked] {
		remaining -= b.permits
		m.answer(c.Val(), remaining)
	}
	return members[c.asked:]
}

// answer gives a member a shared reply, with the number of permits that remained after its own. If its caller has left,
// the reply is kept: see lateReply.
func (m *member) answer(reply []int64, remaining int64) {
	if m.completed {
		return
	}
	m.shared, m.remaining = reply, remaining
	if !m.abandoned {
		m.complete(nil, nil)
	}
}

func completeAll(members []*member, err error, raised *raised) {
	for _, m := range members {
		m.complete(err, raised)
	}
}

// completeRest gives the members that are left the outcome of rest. If it is nil, they wait for the next batch: they
// were charged nothing.
func (b *groupBatch) completeRest(left []*member, rest *groupCommand) {
	if rest == nil {
		left = slices.DeleteFunc(left, isAbandoned)
		b.waiting = append(left, b.waiting...)
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

// endBatch puts the group into the queue again if callers wait in it, and forgets it otherwise.
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

// learn sets reach for the next batch. If all commands were granted and callers are left, it is doubled. Otherwise it
// is halved as long as it stays enough for the number that was granted.
func (g *group) learn(granted int64, all bool) {
	if all {
		g.reach = min(2*g.reach+1, 2*g.maxCallers)
		return
	}
	for g.reach > 0 && g.reach/2 >= granted {
		g.reach /= 2
	}
}

// allowGroup allows a call to share its command with others who ask for as many permits.
func (c *call) allowGroup(permits, capacity int64) {
	maxPermits := c.script.Args[c.permitsAt-firstKey-c.keys].Max
	c.maxGroup = max(min(capacity, maxPermits)/permits, 1)
}

// errShortReply is the error of a reply that has too few fields.
var errShortReply = errors.New("a reply without the fields of a decision")
