package loader

import (
	"context"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// do sends entries, and sets what became of them. Where no two ask about one key (unordered), they may share a round
// trip with other callers.
func (l *Loader) do(ctx context.Context, entries []*entry, unordered bool) {
	ctx = wire.NotNil(ctx)
	calls, sent := make([]*wire.Call, 0, len(entries)), make([]*entry, 0, len(entries))
	for _, e := range entries {
		e.start(ctx)
		defer e.observation.abort()
		if !e.isLocal {
			calls, sent = append(calls, e.call), append(sent, e)
		}
	}
	for i, result := range l.client.AskAll(ctx, calls, unordered) {
		sent[i].answer, sent[i].err = result.Answer, result.Err
	}
	for _, e := range entries {
		e.finish(ctx)
	}
}

// entry is one request of a Batch or an All.
type entry struct {
	request
	result *Result // of a Batch
	index  int     // of an All
}

// ask sets what the entry asks of a limiter.
func (e *entry) ask(c core, subject string, q question) {
	if q.permits > 0 {
		q.id = c.callID()
	}
	if q.method == reserve {
		q.maxWait = c.maxAhead()
	}
	e.request = c.request(subject, q)
	e.observation = c.watch(subject, q)
}

// Result is the decision of one entry of a Batch, unless Err is set. Before Do returns, Err is always set.
type Result struct {
	Decision
	Err error

	// Reservation is the booking of Reserve. It is nil for other entries, and if Err is set.
	Reservation *Reservation
}
