package play

import (
	"math/bits"
	"math/rand/v2"
	"slices"
)

// arrival is a request as it comes for the first time, the same for every lane.
type arrival struct {
	at      int64 // microseconds since the start
	client  int64 // from 0
	permits int64

	process      int64 // to which it comes, from 0
	hold         int64 // how long it works, once it is granted
	actual       int64 // permits that it costs in the end
	dies, unused bool  // it never ends in order; it gives its permits back
}

// The numbers of the random streams. Each has its own, so that a change of one parameter leaves what does not depend
// on it as it is.
const (
	streamTimes = iota + 1
	streamBunches
	streamClients
	streamCosts
	streamSkews
	streamHolds
	streamActuals
	streamDeaths
	streamUnused
	streamProcesses
)

func (s *Scenario) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(s.Seed, stream)) }

// arrivals returns the first of the requests, at most so many, in the order of their times. All is computed in whole
// numbers, so that it is the same on every machine.
func (s *Scenario) arrivals(most int) []arrival {
	times := slices.Concat(s.steady(most), s.bunches(most), s.Calls)
	times = slices.DeleteFunc(times, func(at int64) bool { return at < 0 || at >= s.For })
	slices.Sort(times)
	times = times[:min(len(times), most)]
	clients, costs, holds := s.random(streamClients), s.random(streamCosts), s.random(streamHolds)
	actuals, deaths, unused := s.random(streamActuals), s.random(streamDeaths), s.random(streamUnused)
	processes := s.random(streamProcesses)
	all := make([]arrival, len(times))
	for i, at := range times {
		a := arrival{at: at, client: s.client(clients), permits: between(costs, s.Cost, s.CostMax)}
		a.hold, a.actual = between(holds, s.Hold, s.HoldMax), divideUp(a.permits*between(actuals, s.Actual, s.ActualMax), 100)
		a.dies, a.unused = below(deaths, 100) < s.Lost, below(unused, 100) < s.Unused
		a.process = below(processes, s.Processes)
		all[i] = a
	}
	return all
}

// between returns a random number from least to most.
func between(r *rand.Rand, least, most int64) int64 { return least + below(r, most-least+1) }

// below returns a random number from 0 to n - 1.
func below(r *rand.Rand, n int64) int64 { return int64(r.Uint64N(uint64(n))) }

// client returns whose request it is. With noisy, so many percent are the first client's.
func (s *Scenario) client(r *rand.Rand) int64 {
	isNoisy := below(r, 100) < s.Noisy
	switch {
	case s.Noisy == 0:
		return below(r, s.Clients)
	case isNoisy || s.Clients == 1:
		return 0
	}
	return 1 + below(r, s.Clients-1)
}

// skews returns how far each client's clock is ahead.
func (s *Scenario) skews() []int64 {
	r, skews := s.random(streamSkews), make([]int64, s.Clients)
	for i := range skews {
		skews[i] = between(r, -s.Skew, s.Skew)
	}
	return skews
}

// bunchReach is how far before and after a multiple of the period the calls of a bunch come.
const bunchReach = 20_000

// bunches returns the calls around the multiples of a period after the start: half of them before, half after.
func (s *Scenario) bunches(most int) (times []int64) {
	if s.Bunch == 0 {
		return nil
	}
	r := s.random(streamBunches)
	for edge := s.BunchEvery; edge-bunchReach < s.For && len(times) < most; edge += s.BunchEvery {
		for i := range s.Bunch {
			at := edge + below(r, bunchReach)
			if i < s.Bunch/2 {
				at -= bunchReach
			}
			times = append(times, at)
		}
	}
	return times
}

// steady returns the calls that come at the rate. They are in order unless they come in bursts.
func (s *Scenario) steady(most int) (times []int64) {
	if s.Rate == 0 {
		return nil
	}
	r, flow := s.random(streamTimes), &flow{rate: s.Rate, bins: s.Paint, length: s.For}
	size, amount := int64(1), uint64(perCall/2)
	for len(times) < most {
		if s.Burstiness > 0 {
			amount = exponential(r, perCall*max(uint64(s.Burstiness), 1))
		}
		at, ok := flow.after(amount)
		if !ok {
			break
		}
		if s.Burstiness > 1 {
			size = geometric(r, s.Burstiness)
		}
		for range size {
			times = append(times, at)
			at += below(r, burstGap)
		}
		amount = perCall
	}
	return times
}

// burstGap is the longest time between two calls of a burst, in microseconds.
const burstGap = 2000

// geometric returns a number from 1 on, the mean on average.
func geometric(r *rand.Rand, mean int64) int64 {
	n := int64(1)
	for below(r, mean) > 0 {
		n++
	}
	return n
}

// exponential returns an amount that is the mean on average, exponentially distributed, by von Neumann's method, which
// only compares random numbers: no logarithm, whose last digit depends on the machine.
func exponential(r *rand.Rand, mean uint64) uint64 {
	for whole := uint64(0); ; whole++ {
		first := r.Uint64()
		falling := 1
		for last, next := first, r.Uint64(); next <= last; last, next = next, r.Uint64() {
			falling++
		}
		if falling%2 == 1 {
			part, _ := bits.Mul64(first, mean)
			return whole*mean + part
		}
	}
}

// perCall is the amount of traffic that is one call. The rate, in calls in 1000 s, times the tenths of a bin is the
// amount that comes in a microsecond.
const perCall = 10_000_000_000

// flow is the traffic that comes over time: at a rate that bins of equal length multiply.
type flow struct {
	rate   int64
	bins   []int64 // tenths; none: the rate all the time
	length int64

	at    int64 // microseconds
	bin   int64
	spare uint64 // the amount of the last microsecond that is not used
}

// after returns when so much more traffic has come, or false if it ends before.
func (f *flow) after(amount uint64) (at int64, ok bool) {
	if amount <= f.spare {
		f.spare -= amount
		return f.at, true
	}
	amount, f.spare = amount-f.spare, 0
	for f.at < f.length {
		end, each := f.current()
		if each > 0 {
			if wait := (amount + each - 1) / each; wait <= uint64(end-f.at) {
				f.at, f.spare = f.at+int64(wait), wait*each-amount
				return f.at, f.at < f.length
			}
			amount -= each * uint64(end-f.at)
		}
		f.at = end
	}
	return 0, false
}

// current returns the end of the current bin, and how much comes in each of its microseconds.
func (f *flow) current() (end int64, each uint64) {
	n := int64(len(f.bins))
	if n == 0 {
		return f.length, uint64(f.rate) * 10
	}
	for f.bin < n-1 && (f.bin+1)*f.length/n <= f.at {
		f.bin++
	}
	return (f.bin + 1) * f.length / n, uint64(f.rate * f.bins[f.bin])
}
