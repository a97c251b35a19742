package lua51

import (
	"fmt"
	"math"
)

// power is C's pow, x^y, and whether all its digits are certain. The last digit of a power depends on the C library
// and on the processor, unless it is exact, infinite, no number or of 0.
func power(x, y float64) (z float64, certain bool) {
	plain := math.Pow(x, y)
	if math.IsNaN(x) && math.Signbit(x) && math.Abs(math.Mod(y, 2)) == 1 {
		return -x, true
	}
	if math.IsNaN(plain) {
		return nanOf(x, y), true
	}
	if plain == 0 || math.IsInf(plain, 0) || y == 0 || y == 1 || math.Abs(x) == 1 {
		return plain, true
	}
	if z, ok := exactPower(x, y); ok {
		return z, true
	}
	return plain, false
}

// nanOf is the NaN that an operation makes of two numbers: one that it was given, else a negative one.
func nanOf(x, y float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case math.IsNaN(y):
		return y
	}
	return math.Copysign(math.NaN(), -1)
}

// exactPower is a power that can be had by multiplying without rounding, or, of a power of 2, one divided by that.
func exactPower(x, y float64) (z float64, ok bool) {
	const smallest = 0x1p-900 // below it, the error that FMA finds may be too small for a number
	if y != math.Trunc(y) || math.Abs(y) > 1023 {
		return 0, false
	}
	z = 1
	for range int(math.Abs(y)) {
		product := z * x
		if math.Abs(product) < smallest || math.IsInf(product, 0) || math.FMA(z, x, -product) != 0 {
			return 0, false
		}
		z = product
	}
	if y > 0 {
		return z, true
	}
	fraction, _ := math.Frexp(math.Abs(z))
	return 1 / z, fraction == 0.5 && math.Abs(z) <= 0x1p1000
}

// power is ^ and math.pow.
func (r *run) power(x, y float64) float64 {
	z, certain := power(x, y)
	if !certain {
		r.doubt(fmt.Sprintf("%.17g ^ %.17g: the last digit depends on the C library", x, y))
	}
	return z
}
