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
