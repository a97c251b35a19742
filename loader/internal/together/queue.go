package together

import "github.com/redis/go-redis/v9"

// nodeQueue is the queue of one node. A node that does not answer does not delay the others.
type nodeQueue struct {
	node      *redis.Client
	inFlight  int      // pipelines and direct calls, or goroutines about to make a pipeline
	items     []queued // for the next pipeline
	abandoned int      // items whose callers have left
	starting  bool     // a goroutine has been started that will make the next pipeline
}

// queued is one member, or a group in place of all its waiting members.
type queued struct {
	single *member
	group  *group
}

// queueOf returns the queue of a node.
func (s *sharing) queueOf(node *redis.Client) *nodeQueue {
	if q := s.queues[node]; q != nil {
		return q
	}
	return s.addQueue(node)
}

func (s *sharing) addQueue(node *redis.Client) *nodeQueue {
	q := &nodeQueue{node: node}
	s.queues[node] = q
	return q
}

// release frees the place of a pipeline.
func (s *sharing) release(q *nodeQueue) {
	q.inFlight--
	if q.inFlight == 0 && len(q.items) == 0 && q.node != nil {
		s.forget(q)
	}
}

// forget removes a queue that is not in use, because nodes come and go.
func (s *sharing) forget(q *nodeQueue) {
	if s.queues[q.node] == q {
		delete(s.queues, q.node)
	}
}
