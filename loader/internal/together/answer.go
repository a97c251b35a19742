package together

import (
	"cmp"
	"errors"
	"slices"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// distribute gives the members their answers. Members without an answer stay in the group, before later callers.
func (b *groupBatch) distribute(err error, raised *wire.Raised) {
	left := wantedOf(b.members)
	if raised != nil {
		completeAll(left, nil, raised)
		return
	}
	asked := int64(len(left))
	var rest *groupCommand // its outcome is that of all who are left
	lastGranted := false
	for _, c := range b.commands {
		c.readOutcome(err)
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
		if m.cmd.Wanted() {
			wanted = append(wanted, m)
		}
	}
	return wanted
}

// readOutcome sets the command's error, and asked if the command was not written or is a single member's own.
func (c *groupCommand) readOutcome(err error) {
	c.err = c.Outcome(true, err)
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
	case c.asked > 1 && wire.ExceedsLimit(c.err): // the limit that is stored is lower than the callers' own
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
	m.shared = &wire.Answer{Reply: reply, Shared: true, Remaining: remaining}
	if !m.abandoned {
		m.complete(nil, nil)
	}
}

func completeAll(members []*member, err error, raised *wire.Raised) {
	for _, m := range members {
		m.complete(err, raised)
	}
}

// completeRest gives the members that are left the outcome of rest: it failed, or denied one caller alone. Each command
// that was granted, or may have been, has answered as many as it asked for: so nobody who is left was charged. If rest
// is nil, they wait for the next batch.
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
		m.cmd.Unclaim()
		switch {
		case rest == nil:
		case rest.err != nil:
			m.complete(rest.err, nil)
		default:
			m.answer(rest.Val(), rest.remaining())
		}
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

// errShortReply is the error of a reply that has too few fields.
var errShortReply = errors.New("a reply without the fields of a decision")
