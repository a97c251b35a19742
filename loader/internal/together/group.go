package together

import (
	"slices"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// groupOf returns the group that a call joins, nil if its command cannot be shared: it may book, it has an id, or
// it asks under another limit than the group.
func (s *sharing) groupOf(c *wire.Call) *group {
	if !c.MayJoin() {
		return nil
	}
	key := groupKey{c.Key, c.Permits}
	g := s.groups[key]
	switch {
	case g == nil:
		g = &group{groupKey: key, question: &c.Question, maxCallers: c.MaxGroup}
		s.groups[key] = g
	case g.question.Script != c.Script || !slices.Equal(g.question.Keys, c.Keys) || !slices.Equal(g.question.Args, c.Args):
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
