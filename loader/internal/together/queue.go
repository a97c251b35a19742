package together

import "github.com/redis/go-redis/v9"

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
