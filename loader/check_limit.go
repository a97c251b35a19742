package loader

import (
	"fmt"
	"strconv"
	"time"
)

// checkLimit returns what is wrong with a limit for this limiter.
func (s *settings) checkLimit(l Limit) error {
	switch upper, burst := s.algorithm.maxArgument("limit", "rate", "limit_i"), s.algorithm.maxArgument("burst"); {
	case l.Permits < 0:
		return s.errArgument("permits", l.Permits, "0 or more")
	case l.Permits > upper:
		return &ArgumentError{
			Limiter: s.name, Argument: "permits", Value: fmt.Sprint(l.Permits), Want: fmt.Sprintf("%d or less", upper),
			text: fmt.Sprintf("%d permits: %s holds %d%s", l.Permits, s.algorithm.name, upper, s.algorithm.largerLimiters),
		}
	case l.Burst > 0 && !s.algorithm.hasBurst:
		return &ArgumentError{
			Limiter: s.name, Argument: "burst", Value: strconv.FormatInt(l.Burst, 10), Want: "0",
			text: fmt.Sprintf("burst %d: %s has none, GCRA has", l.Burst, s.algorithm.name),
		}
	case l.Burst < 0:
		return s.errArgument("burst", l.Burst, "0 or more")
	case l.Burst > burst:
		return s.errArgument("burst", l.Burst, fmt.Sprintf("up to %d", burst))
	case l.Permits == 0: // nothing is asked for: it needs no window
		return nil
	}
	if err := s.checkWindow(l.Window); err != nil {
		return err
	}
	return s.checkBurst(l)
}

// checkBurst returns an error if a burst takes too long to be refilled.
func (s *settings) checkBurst(l Limit) error {
	upper := maxBurst(l)
	if l.Burst <= upper {
		return nil
	}
	permits := "1 permit"
	if l.Permits > 1 {
		permits = fmt.Sprintf("%d permits", l.Permits)
	}
	return s.errArgument("burst", l.Burst, fmt.Sprintf("up to %d with %s in %s", upper, permits, span(l.Window)))
}

// checkWindow returns what is wrong with the length of a window.
func (s *settings) checkWindow(d time.Duration) error {
	switch longest := s.algorithm.longestWindow(); {
	case d < minWindow || d > longest:
		return s.errArgument("window", d, fmt.Sprintf("%v to %s", minWindow, span(longest)))
	case d%time.Microsecond != 0:
		return s.errArgument("window", d, "whole microseconds")
	}
	return nil
}
