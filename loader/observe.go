package loader

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-redis/sluice"
)

// Observer is told of every decision. Its methods are called by the goroutines that ask, at the same time,
// and hold them up for as long as they take. See Observe.
type Observer interface {
	// Begin is called before anything is asked, with the Event's Method, Script, Limiter, Subject and
	// Permits. The context that it returns, which must descend from ctx, is the one of the decision:
	// hooks of the client get it, except in a Batch and with ShareRoundTrips, and so does End.
	Begin(ctx context.Context, e Event) context.Context

	// End is called when the answer is there, or an error; also where a panic of the client's hook ends the decision.
	End(ctx context.Context, e Event)
}

// ObserverFunc is an Observer that is told of the end only.
type ObserverFunc func(ctx context.Context, e Event)

// Begin does nothing.
func (f ObserverFunc) Begin(ctx context.Context, _ Event) context.Context { return ctx }

// End calls f.
func (f ObserverFunc) End(ctx context.Context, e Event) { f(ctx, e) }

// Observe tells an observer of every decision: one Event for each call of Allow, AllowN, Peek, Wait, WaitN,
// Reserve and ReserveN, for each entry of a Batch, and for each direct call of a script that decides, by Call or
// its typed function. Of a Leased those are the calls in which it takes permits. What decides nothing (Reset,
// Cancel, SetLimit) has none. The last Observe counts. Module otel has an Observer for OpenTelemetry.
//
// Cost: none without an observer; with one, one allocation a decision and two looks at the clock, besides
// what it does itself.
func Observe(observer Observer) Option {
	return func(l *Loader) { l.observer = observer }
}

// Event is one decision, as its caller saw it.
type Event struct {
	Method  string // "Allow", "AllowN", "Peek", "Wait", "ReserveN"; "Call" for a script called directly
	Script  string // "list_log_v1"
	Limiter string // its name; "" for a script called directly
	Permits int64  // asked for; 0 looks

	// Subject is whom the decision is about; "" for a script called directly. It may be personal data, and
	// there may be millions: it belongs in no metric's label, and in a log or a trace only where
	// the law and the reader need it. Module otel leaves it out.
	Subject string

	// Decision is the answer, the last one of a Wait. It is the zero Decision if Err says why there is none.
	Decision Decision

	// Err is what the caller gets. A *WaitError comes with the Decision that it was made from: it denies
	// rather than fails.
	Err error

	// Latency is how long the caller waited for the answer: of an entry of a Batch, for that of the
	// whole batch. The time that a Wait sleeps is not in it but in Slept.
	Latency time.Duration
	Slept   time.Duration

	// Attempts is how many commands it took: 1 as a rule, even if that asked for others too (ShareRoundTrips), more
	// after failures and for a Wait that had to ask again, 0 where no server was asked.
	Attempts int

	// Loaded says that the server lacked the script, which was loaded or sent along.
	Loaded bool
}

// observation is an Event on its way. Nothing is done by a nil one, which stands for nobody watching.
type observation struct {
	Event
	observer Observer
	ctx      context.Context // that of the decision
	began    time.Time
	ended    bool
}

// watch makes the observation of one decision, nil if nobody watches.
func (c core) watch(subject string, q question) *observation {
	if c.settings == nil || c.limits.observer == nil {
		return nil
	}
	return &observation{observer: c.limits.observer, Event: Event{
		Method: q.method, Script: nameOf(c.kind.script), Limiter: c.name, Subject: subject, Permits: q.permits,
	}}
}

// begin returns the context of the decision.
func (o *observation) begin(ctx context.Context) context.Context {
	if o == nil {
		return ctx
	}
	o.began = time.Now()
	o.ctx = o.observer.Begin(ctx, o.Event)
	return o.ctx
}

func (o *observation) end(err error) {
	if o == nil {
		return
	}
	o.ended = true
	o.Err = err
	o.Latency = time.Since(o.began) - o.Slept
	o.observer.End(o.ctx, o.Event)
}

// errPanicked is the Err of an Event that a panic has ended.
var errPanicked = errors.New("loader: a hook, an observer or a handler panicked")

// abort is end for a decision that a panic has ended. It is for deferred functions.
func (o *observation) abort() {
	if o != nil && !o.ended {
		o.end(errPanicked)
	}
}

func (o *observation) decided(d Decision) {
	if o != nil {
		o.Decision = d
	}
}

// asked notes what the call of a script took.
func (o *observation) asked(c *call) {
	if o != nil {
		o.Attempts += c.sent
		o.Loaded = o.Loaded || c.reloads > 0 || c.source
	}
}

// sleep is sleep, as a part of Wait.
func (o *observation) sleep(ctx context.Context, d time.Duration) error {
	if o == nil {
		return sleep(ctx, d)
	}
	started := time.Now()
	err := sleep(ctx, d)
	o.Slept += time.Since(started)
	return err
}

// watch makes the observation of a script that is called directly, nil if nobody watches or it decides nothing.
func (c *call) watch() *observation {
	if c.limits.observer == nil || !decides(c.script) {
		return nil
	}
	return &observation{observer: c.limits.observer, Event: Event{
		Method: "Call", Script: nameOf(c.script), Permits: c.permits(),
	}}
}

// decides reports whether a script's reply is a decision.
func decides(script *sluice.Script) bool {
	return len(script.Reply) > 0 && script.Reply[0].Name == "granted"
}
