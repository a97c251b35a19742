// Package sluiceotel tells OpenTelemetry about the decisions of package loader.
//
//	observer, err := sluiceotel.New()
//	limits := loader.New(rdb, loader.Observe(observer))
//
// It is a module of its own, so that the loader does without OpenTelemetry's dependencies. The providers are the
// global ones unless options say otherwise.
//
// Names are those of the semantic conventions 1.43.0, which the schema URL of metrics and spans names, wherever these
// have one: those that begin with db., and error.type. What they do not know, which is
// limiters and decisions, begins with sluice, after their rules for names of one's own. A decision is no database
// operation, it may take several or none: db.client.operation.duration is left to what instruments the client.
//
// # Metrics
//
//	sluice.decisions          counter, {decision}   decisions, whatever became of them
//	sluice.decision.duration  histogram, s          how long callers waited for them, the sleep of a Wait not included
//	sluice.wait.duration      histogram, s          how long Wait and WaitN slept, 0 for those that need not
//
// Buckets are those that the conventions recommend for databases, 1 ms to 10 s; for the sleep they end at ten
// minutes. What a metric is counted by:
//
//	sluice.limiter.name        "send-code"; not set for a script that is called directly
//	sluice.script.name         "list_log_v1"
//	sluice.decision.method     Allow, AllowN, Peek, Wait, ReserveN, Call
//	sluice.decision.outcome    granted, denied, looked, error
//	sluice.decision.degraded   whether the limiter's policy decided, for Redis did not
//	error.type                 with the outcome error only: see below
//
// These are few: of the order of limiters times methods times outcomes, as long as limiters are not named after
// what they limit. Subjects, keys and request ids are in no metric and in no span: they may be personal data.
//
// # Traces
//
// A decision is a span "Allow send-code" of kind CLIENT, with the metrics' attributes and
//
//	db.system.name             redis
//	db.operation.name          EVALSHA
//	db.stored_procedure.name   the script, as sluice.script.name
//	db.response.status_code    the code of the error that Redis answered: WRONGTYPE, OOM, BADARG
//	sluice.decision.permits    asked for
//	sluice.decision.attempts   commands sent: 1 unless something failed, 0 where no server was asked
//	sluice.script.loaded       true where the server lacked the script
//	sluice.decision.remaining  permits left, where there is a decision
//	sluice.decision.wait       seconds until the permits may be used, or come free; not set where they never do
//
// The span of a Wait is INTERNAL and without db attributes: it holds the sleep as well, and every call that it
// makes. What instruments the client itself, such as redisotel, finds the span in its context and puts its
// commands below it, except those of a Batch and of ShareRoundTrips.
//
// A denial is an answer. The span's status is Error, with the error's text only where that names no key, if there was
// no decision.
//
// # error.type
//
//	exceeds_limit      more permits asked for than could ever be granted
//	invalid_argument   *loader.ArgumentError
//	not_loaded         loader.ErrNotLoaded
//	breaker_open       loader.ErrBreakerOpen: the server was not asked
//	outcome_unknown    *loader.OutcomeUnknownError: it may have been charged
//	timeout            the context's deadline
//	canceled           the caller cancelled its context
//	WRONGTYPE, OOM ..  the code of what Redis answered
//	*net.OpError ..    the type of any other error
package sluiceotel
