package loader

import (
	"context"
	"strconv"
)

// report charges n permits whatever the subject has left.
func (c core) report(ctx context.Context, subject string, n int64) (Decision, error) {
	return c.decide(ctx, subject, question{method: report, reported: n})
}

// checkReport returns what is wrong with a report of n permits.
func (c core) checkReport(n int64) error {
	if largest := c.algorithm.maxArgument("reported"); n < 0 || n > largest {
		return c.errArgument("n", n, "0 to "+strconv.FormatInt(largest, 10))
	}
	return nil
}
