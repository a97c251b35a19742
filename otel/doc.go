// Package sluiceotel reports the decisions of package loader to OpenTelemetry, as metrics and traces.
//
//	observer, err := sluiceotel.New()
//	limits := loader.New(rdb, loader.Observe(observer))
//
// It is a separate module, so that the loader does not depend on OpenTelemetry. The providers are the global ones,
// unless options set others.
//
// Names that begin with db., and error.type, are from the semantic conventions 1.43.0; the schema URL of metrics
// and spans says so. Names for limiters and decisions begin with sluice. A decision is not a database operation: it may
// take several operations or none. So db.client.operation.duration is left to the instrumentation of the client.
//
// # Metrics
//
//	sluice.decisions          counter, {decision}   decisions with any outcome
//	sluice.decision.duration  histogram, s          how long callers waited for them, without their sleep
//	sluice.wait.duration      histogram, s          how long Wait and Acquire slept; 0 if they did not sleep
//	sluice.report.permits     counter, {permit}     permits that Report charged, and that an Ahead reported
//	sluice.report.age         histogram, s          how old the oldest of them was; it counts reports
//	sluice.report.over        histogram, {permit}   how much the fullest window was above its limit then
//
// The buckets are as the conventions recommend for databases, 1 ms to 10 s. For the sleep they end at ten
// minutes. The attributes of the metrics:
//
//	sluice.limiter.name        "send-code"; not set for a script that is called directly
//	sluice.script.name         "list_log_v1"
//	sluice.decision.method     Allow, Wait, Reserve, Peek, GiveBack, Report, Settle, Charge, TryAcquire, Acquire;
//	                           WaitN is Wait, and so on
//	sluice.decision.outcome    granted, denied, looked, error; settled: Settle and Charge; returned: GiveBack
//	sluice.decision.degraded   true if the limiter's fallback decided and not Redis
//	sluice.decision.ahead      true if an Ahead granted; not set otherwise
//	error.type                 with the outcome error only: see below
//
// The number of combinations is about limiters x methods x outcomes. Do not put subjects into the names of limiters.
// Subjects, keys and request IDs are in no metric and in no span, because they may be personal data.
//
// # Traces
//
// A decision is a span "Allow send-code" of kind CLIENT, with the metrics' attributes and
//
//	db.system.name             redis
//	db.operation.name          EVALSHA
//	db.stored_procedure.name   the script, as sluice.script.name
//	db.response.status_code    the code of the error that Redis answered: WRONGTYPE, OOM, BADARG
//	sluice.decision.permits    asked for, or to be given back
//	sluice.decision.attempts   commands sent: 1 unless something failed, 0 if no server was asked
//	sluice.script.loaded       true if the server lacked the script
//	sluice.decision.returned   permits given back, of a GiveBack
//	sluice.decision.remaining  permits left, if there is a decision
//	sluice.decision.wait       seconds until the permits may be used or come free; not set if never
//
// The span of a Wait or an Acquire is INTERNAL and has no db attributes. It includes the sleep and every call.
// Instrumentation of the client, such as redisotel, finds the span in the context and adds its commands below it,
// except for a Batch and shared round trips.
//
// A denial is not an error. The span's status is Error only if there was no decision. It has the error's text only if
// that names no key.
//
// # error.type
//
//	exceeds_limit      more permits asked for than could ever be granted
//	invalid_argument   *loader.ArgumentError
//	not_loaded         loader.ErrNotLoaded
//	not_reserved       loader.ErrNotReserved
//	breaker_open       loader.ErrBreakerOpen: the server was not asked
//	outcome_unknown    *loader.OutcomeUnknownError: it may have been charged
//	timeout            the context's deadline
//	canceled           the caller cancelled its context
//	WRONGTYPE, OOM ..  the code of what Redis answered
//	*net.OpError ..    the type of any other error
package sluiceotel
