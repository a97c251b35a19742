package loader

import (
	"context"
	"strconv"
)

// report charges n permits whatever the subject has left.
func (c core) report(ctx context.Context, subject string, n int64) (Decision, error) {
	q := question{method: report, reported: n}
	made := c.request(subject, q)
	if largest := c.algorithm.maxArgument("reported"); made.argumentErr == nil && (n < 0 || n > largest) {
		made.argumentErr = c.errArgument("n", n, "0 to "+strconv.FormatInt(largest, 10))
	}
	made.observation = c.watch(subject, q)
	return made.do(ctx)
}

// judgeReport completes the decision of a question that charges permits in any case.
func (r *request) judgeReport() {
	over := max(r.limiter.algorithm.over(r.limiter, r.answer.Reply), 0)
	if r.question.reported > 0 {
		r.observation.setOver(over)
	}
	if r.question.method == report {
		r.decision.Granted = over == 0
		if r.decision.Granted {
			r.decision.Wait = 0 // of a look
		}
	}
}
