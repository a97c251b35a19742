package together

import (
	"slices"
	"sync"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
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
	question   *wire.Question // of each of them
	maxCallers int64          // for how many callers one command may ask

	waiting   []*member // in order of arrival
	abandoned int       // members of waiting whose callers have left
	queued    bool
	inFlight  bool
	room      int64
	reach     int64
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
	*wire.Command
	batch   *groupBatch
	members []*member

	claimOnce sync.Once
	written   bool
	asked     int64 // for how many members it asked

	err error // set when the pipeline has ended
}

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
