// Package loader is a distributed rate limiter for Redis. It runs the Lua scripts of Sluice.
//
//	limits := loader.New(rdb)
//	codes := limits.ListLog("send-code", loader.PerMinute(3))
//
//	d, err := codes.Allow(ctx, "ada@example.com") // one permit now, or a denial
//	err = codes.Wait(ctx, "ada@example.com")      // sleeps until a permit may be used
//
// A limiter has a name, a limit and an algorithm. A subject is what the limit applies to: a user, an address, a route.
// Use Allow to refuse what is over the limit, and Wait in workers that would rather be late than refused. Limiters are
// small values: copy them, keep them in variables or make them when needed, and use them from any number of goroutines.
// Limiters of the same name and algorithm share their state in all processes.
//
// # Which limiter
//
//   - [Loader.ListLog], if you are not sure. It is exact: no interval of one window ever holds more than the limit.
//   - [Loader.ZSetLog], if a retry must not be charged twice. It is as exact as ListLog.
//   - [Loader.GCRA], for a smooth rate with a burst. It takes a few bytes, whatever the limit.
//   - [Loader.SliceRing], for several windows at once ("1000 a minute and 10000 an hour"), or limits in the millions.
//   - [Loader.Quota], if a contract names a period of the calendar: "10,000 a month in Berlin". Around its end up to
//     twice as many may be granted at once.
//   - [Loader.TokenBucket], if operators change the rate in Redis, for all processes at once.
//   - [Loader.Budget], if a cost is known only afterwards, such as the tokens of a language model.
//   - [Loader.Concurrency], to limit how many run at once, however often they start. It has TryAcquire and Acquire in
//     place of Allow and Wait, and a [Slot] that renews itself until its Release.
//
// ListLog, ZSetLog, SliceRing and Quota take permits back that were not used (GiveBack, and Cancel of a reservation).
//
// # Errors
//
// A denial is not an error: Decision.Granted is false. An error means that there is no decision.
//
// Constructors of a Loader return no error. If a name, a limit or an option is wrong, every call returns an
// [*ArgumentError]. Call Check once, when the program starts, to find it. (Ahead returns its own.)
//
// If a call was sent and no reply came, the error is an [*OutcomeUnknownError]: the call was charged once or not at
// all. The loader sends a decision again only if the first one cannot have run, or if it has a request id, as with
// ZSetLog and Budget.
//
// # Contexts
//
// A call returns as soon as its context ends, and after one second at the latest ([Timeout] changes that), whatever the
// timeouts of the client are. To do so, it runs the round trip in a goroutine. If a hook of the client panics there,
// the panic is raised again in the caller's goroutine.
//
// No goroutine is needed if the client keeps deadlines itself (ContextTimeoutEnabled). A call then returns at its
// context's deadline, and after the timeout at the latest. It notices a cancellation only when the reply is there, and
// returns the reply.
//
// # Waiting
//
// Wait books permits with one round trip and sleeps until they are due. Permits are booked in the order in which calls
// reach Redis, across all processes; of two that are due closely either worker may wake up first. A SliceRing or Quota,
// which cannot book, and waits of more than 60 s sleep and ask again, in no order.
//
// The limit holds for the times of grants; workers act a little later. Where a partner counts strictly, take a window
// that is longer by the longest delay (50 in 1.05 s for 50 a second), or a GCRA with a Burst of 1.
//
// If the context ends first, ListLog, ZSetLog, SliceRing and Quota give back in the background what was booked or
// granted, also if the reply comes later: see [Loader.Flush]. If no reply ever comes, only ZSetLog can, because its
// calls have ids; an id of the caller's own (WithID) stays booked. With GCRA and TokenBucket the booking is lost.
//
// With a deadline or [MaxWait] it asks again during an outage: while Redis is down, loading or read-only, or a Breaker
// is open. It pauses 10 to 250 ms between attempts, and returns the last error when the time is up. Otherwise it
// returns the first error. After a lost reply only ZSetLog can ask again. The others return an [*OutcomeUnknownError],
// and their booking may be lost: use ZSetLog for workers that must not lose capacity in an outage.
//
// If Redis loses its state (eviction, failover, a restart without persistence), callers who have booked ahead still use
// their permits, and new callers are granted permits as well: up to twice the limit for as long as the longest booking,
// at most 60 s. MaxWait bounds that.
//
// # Giving back
//
// GiveBack is for permits that were certainly not used. Give it context.WithoutCancel of a request's context: if the
// customer has left, the permits would stay charged. The limiter's Timeout bounds it all the same. It returns 0 for
// what Redis did not grant (a denial, a fallback) or has removed already. A decision of another limiter or subject, and
// more permits than it granted, are an [*ArgumentError].
//
// Do not give back the same permits twice: ListLog, SliceRing and Quota would give back another caller's. For the same
// reason it is sent once; after an [*OutcomeUnknownError] do not repeat it. ZSetLog finds the permits by their id: it
// repeats the return of all of them after a lost reply, and so may you.
//
// # Many at once
//
// A [Batch] sends decisions about many subjects and limiters in one round trip. Goroutines that know nothing of each
// other share round trips by themselves. A decision then takes a third of the processor time in this process and three
// quarters in the server; a twentieth if the callers ask for the same. Two connections to a near node are enough for
// all callers. All guarantees of single calls hold in both cases. [WithoutSharing] switches it off.
//
// A caller who finds nothing on its way to the node is sent directly, the next one in a pipeline of its own. While two
// round trips are on their way, further calls are collected for the next pipeline, up to 256. One that takes longer
// than an eighth of the timeout delays no other: far from Redis up to 16 are on their way, each on a connection, and
// the order of asking holds within each. The parts of an [All] are collected as calls are.
//
// Callers who ask for the same number of permits of the same subject under the same limit share commands too: the next
// command asks for the permits of as many callers as Redis can grant, and each caller gets the answer of a single call
// at that time, in the order of asking. (Only a GCRA tells all of them the ResetAfter of the last.) ZSetLog, whose
// calls have ids, and calls that book share pipelines only.
//
// If a caller leaves before its command is written, no decision is made for it. What differs for those that are
// collected: the client's hooks see pipelines, and contexts without the callers' values. If a command for a group
// fails, all its callers get the error. If a hook panics, it does so in every caller of the pipeline.
//
// On a single server both decide several subjects of one GCRA, ListLog or SliceRing, under the same limit and for as
// many permits, with one run of a script for many keys. That takes about half the server's time. In a cluster and a
// Ring, subjects lie on different nodes, and every decision is a run of its own. If the server has no such script and
// the loader may not load it ([PreloadedOnly]), single runs are sent.
//
// An [All] asks several limiters in one round trip too, and charges all of them or none: an address, an account and the
// whole service.
//
// # A limit for each customer
//
// Every limiter has the method With. It returns a copy with another limit:
//
//	d, err := codes.With(limitOf(user)).Allow(ctx, user)
//
// In a SliceRing, windows that both limits have go on with what they have counted. A window that is new to a subject
// begins empty.
//
// To change one subject's limit in all processes, use [TokenBucket] and its SetRate.
//
// # Without asking Redis
//
// [SliceRing.Ahead] grants in the process and tells Redis later. [RememberDenials] answers callers who were denied and
// ask again too early.
//
// # When Redis fails
//
// Without further options a limiter fails closed: the call returns an error. With [FailOpen] or [FailLocal] the limiter
// answers in place of Redis, and marks the Decision Degraded. Every call has a time limit: 1 s, or 100 ms with one
// of these fallbacks; [Timeout] sets another. A server that has answered nobody for that long, while five calls
// failed, is not asked. Only one call at a time is sent, 250 ms after the one before, until one is answered: [Breaker]
// and [WithoutBreaker] change that.
//
// If no server listens on the address, a call takes its whole time to fail: the loader makes up to four attempts, and
// go-redis dials five times in each, 100 ms apart. With DialerRetries: 1 in the client's options it takes 0.15 s. After
// PoolSize failed dials go-redis dials an address only once a second. So with Sentinel, decisions may begin again up to
// a second after a failover; in a cluster the new master has its own pool, and there is no such delay.
//
// # What operators see
//
// [Observe] passes every decision to an [Observer], for metrics and traces; module otel has one for OpenTelemetry.
// [Logger] logs rare events. Without these options nothing is measured or logged.
package loader
