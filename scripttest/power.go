package scripttest

import "math"

func power(a, b float64) (float64, bool) { return math.Pow(a, b), true }

func (r *run) power(a, b float64) float64 {
	x, _ := power(a, b)
	return x
}
