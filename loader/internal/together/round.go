package together

import (
	"strconv"
)

// split makes the commands of a batch. A single member's own command is used as it is.
func (b *groupBatch) split() []*groupCommand {
	if len(b.members) == 1 {
		single := b.members[0]
		single.cmd.Compose(single.ctx)
		b.commands = []*groupCommand{{Command: single.cmd, batch: b, members: b.members}}
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
	c.Command = members[0].cmd.ComposeFor(members[0].ctx, (*writtenPermits)(c), func() { c.claimOnce.Do(c.claim) })
	return c
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
		if m.cmd.Claim() {
			c.asked++
		}
	}
	if c.asked == 0 {
		c.GiveUp()
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
