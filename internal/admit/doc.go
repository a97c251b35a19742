// Package admit decides whether a request may go on: it is the part that all doors of this project have in common. A
// door (httplimit, grpclimit, policy, sluiced) says which limiters are asked about which subjects, and writes the
// answer in its protocol: status, headers, details. [Door] makes the charges of a program's options; where subjects
// are known already, a door fills in a [Request]:
//
//	q := admit.Request{Limits: limits, Charges: charges}
//	defer q.Release()
//	q.Decide(ctx)
//	if q.Outcome != admission.Allowed {
//		return refusal(q.Result)
//	}
//	err := handler(q.Context())
//	_ = q.Finish(ctx, statusOf(err))
//
// Read door.go, which finds the charges; request.go, the way of a request; together.go, several limiters at once; then
// ban.go, delay.go, slot.go, budget.go and wait.go.
//
// # Rules
//
// All doors have the same rules.
//
//   - Enforced limiters are asked together, all or none, in one round trip; one limiter by itself needs no more than
//     the interface. Then estimates of budgets are reserved, limiters in shadow are asked, and slots are taken. A
//     client (Request.Wait) takes slots first and waits for its permits last, because the other side counts the call
//     when it is made.
//   - One limiter twice about one subject is one charge of the sum, reported once, so that the time to wait and what
//     remains are true. CountIf still counts each of them. Under two limits it is Misconfigured.
//   - What was charged for a refused request is given back where the limiter can, and so is what CountIf does not
//     count. A panic of the handler counts. Slots are released whatever happens. A budget is settled with what the
//     handler said (Settle), keeps its estimate if it said nothing, and gets it back if the handler did not run.
//   - A caller who leaves does not stop a decision, so that what was charged is known and given back. The outcome is
//     CallerGone, also if the deadline of the context passed; Err is then context.DeadlineExceeded.
//   - A cost above the limit is a denial without RetryAfter. Result.Err and Decision.Err are loader.ErrExceedsLimit.
//   - No limiter (nil) is no decision: Undecided, and Err is admission.ErrNoLimiter. A cost of 0, or charges that are
//     empty but not nil, say that the request is not limited.
//   - A request in shadow is never refused, unless Check would have said that the program is wrong.
//   - Check finds what is wrong at start: no charges, a nil limiter, wrong limits and keys, limiters that cannot be
//     asked together or that another Loader made, CountIf where nothing can be given back, a name that is not printable
//     ASCII.
//   - A look charges nothing and denies if no permit is left; a report is charged whatever the limit says. A quota
//     denies only if all quotas of the request do. These are asked by themselves, at the same time as the others.
//   - Observers add up: all of them are told.
//   - A result is degraded if the fallback of a limiter that is enforced decided.
//   - Of several denials the one with the longest wait decides, of grants the one with the fewest permits remaining.
//
// A new door fills in a [Door], calls Init once, and for each request Decide and, after the handler, Finish and
// Release: httplimit/middleware.go shows it. The door's own are RetryAfter in the units and with the
// jitter of its protocol, observers, and how much of Err a client may see. A cost that a client chooses is checked by
// the door: 0 is not limited, and below 0 is a wrong program.
//
// # Compatibility
//
// Nested modules import this package, and Go's choice of versions may combine an old one with a new core. So it changes
// only in ways with which the last release of each nested module still compiles and behaves as before.
package admit
