package loader

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// Observer is told of every decision: see Observe. Its methods are called by the goroutines that ask, concurrently, and
// delay them.
type Observer interface {
	// Begin is called before anything is sent, with the Event's Method, Script, Limiter, Subject and
	// Permits. It returns the context of the decision, which must descend from ctx: End gets it, and so do the
	// client's hooks, except in a Batch and in shared round trips.
	Begin(ctx context.Context, e Event) context.Context

	// End is called when there is an answer or an error, also if a panic of the client's hook ends the decision.
	End(ctx context.Context, e Event)
}

// ObserverFunc is an Observer for the end of decisions only.
type ObserverFunc func(ctx context.Context, e Event)

// Begin does nothing.
func (f ObserverFunc) Begin(ctx context.Context, _ Event) context.Context { return ctx }

// End calls f, unless it is nil.
func (f ObserverFunc) End(ctx context.Context, e Event) {
	if f != nil {
		f(ctx, e)
	}
}

// observers is two observers: of more, the first is two again.
type observers struct{ first, second Observer }

// observersContext is the context of the second observer. Each End gets what its own Begin has made.
type observersContext struct {
	context.Context
	first context.Context
}

func (o observers) Begin(ctx context.Context, e Event) context.Context {
	first := o.first.Begin(ctx, e)
	return observersContext{o.second.Begin(first, e), first}
}

func (o observers) End(ctx context.Context, e Event) {
	both := ctx.(observersContext)
	o.first.End(both.first, e)
	o.second.End(both.Context, e)
}

// Event is one decision, as its caller saw it, or one return of permits.
type Event struct {
	// Method is the limiter's, without an N at its end: "Allow", "Wait", "Reserve", "Peek", "GiveBack", "Report",
	// "Settle", "Charge", "TryAcquire" or "Acquire".
	Method  string
	Script  string // "list_log_v1"
	Limiter string // its name
	Permits int64  // asked for, or to be given back; 0 for Peek; the actual cost for Settle and Charge

	// Subject may be personal data, and there may be millions of them: do not use it as a metric's label. Module otel
	// leaves it out.
	Subject string

	// Decision is the answer, for a Wait the last one. It is the zero Decision if there is none: see Err. Of Settle and
	// Charge it has Granted (true) and Now. A GiveBack has none.
	Decision Decision

	// Returned is how many permits a GiveBack gave back.
	Returned int64

	// Reported is how many permits were charged whatever the windows held: of a Report, and of an Ahead that had
	// granted them before. ReportAge is how long ago it had granted the first of them. ReportOver is by how much the
	// fullest window is above its limit since.
	Reported   int64
	ReportAge  time.Duration
	ReportOver int64

	// Err is the caller's error. With a *WaitError, Decision is the denial that caused it; with ErrExceedsLimit it has
	// the limit.
	Err error

	// Latency is how long the caller waited for the answer; for an entry of a Batch, for the whole batch. It does not
	// include Slept, the time that a Wait or an Acquire slept.
	Latency time.Duration
	Slept   time.Duration

	// Attempts is how many commands were sent: usually 1, more after failures and for a Wait that asked again, 0 if no
	// server was asked. A command that asked for other callers too counts as 1.
	Attempts int

	// Loaded is true if the server did not have the script and it was sent.
	Loaded bool
}

// observation is an Event that has not ended. A nil observation does nothing: there is no observer.
type observation struct {
	Event
	observer Observer
	ctx      context.Context // that of the decision
	began    time.Time
	ended    bool
}

// begin calls Observer.Begin, and returns the context of the decision.
func (o *observation) begin(ctx context.Context) context.Context {
	if ctx == nil {
		ctx = wire.NilContext
	}
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

// errPanicked is the Err of an Event whose decision panicked.
var errPanicked = errors.New("loader: a hook, an observer or a handler panicked")

// abort ends the observation if it has not ended, because of a panic. It is for deferred functions.
func (o *observation) abort() {
	if o != nil && !o.ended {
		o.end(errPanicked)
	}
}

// addSlept adds a time in which nothing was asked.
func (o *observation) addSlept(d time.Duration) {
	if o != nil {
		o.Slept += d
	}
}

func (o *observation) setDecision(d Decision) {
	if o != nil {
		o.Decision = d
	}
}

// setScript sets the script of a call that does not run the limiter's own.
func (o *observation) setScript(script *sluice.Script) {
	if o != nil {
		o.Script = wire.NameOf(script)
	}
}

// setReport sets what a request of an Ahead charges besides, and how old it is.
func (o *observation) setReport(reported int64, age time.Duration) {
	if o != nil && reported > 0 {
		o.Reported, o.ReportAge = reported, age
	}
}

func (o *observation) setOver(permits int64) {
	if o != nil {
		o.ReportOver = permits
	}
}

func (o *observation) setReturned(permits int64) {
	if o != nil {
		o.Returned = permits
	}
}

// addCall adds a call's figures to the event.
func (o *observation) addCall(c *wire.Call) {
	if o != nil {
		o.Attempts += c.Sent
		o.Loaded = o.Loaded || c.Loaded
	}
}

// sleep sleeps, and adds the time to Slept.
func (o *observation) sleep(ctx context.Context, d time.Duration) error {
	if o == nil {
		return wire.Sleep(ctx, d)
	}
	started := time.Now()
	err := wire.Sleep(ctx, d)
	o.addSlept(time.Since(started))
	return err
}
