package lua51

import (
	"fmt"
	"math"

	lua "github.com/yuin/gopher-lua"
)

// The last digit of exp, log, pow and the trigonometric functions depends on the C library and on the processor. Here
// they answer where it does not: what is exact, infinite or no number, and what is given 0. All else is refused.

// A transcendental is such a function of one number.
type transcendental struct {
	name  string
	plain func(x float64) float64
	nan   float64              // the sign of the NaN that it makes of numbers
	exact func(x float64) bool // where its value is right beside 0; nil: nowhere
}

var transcendentals = []transcendental{
	{"acos", math.Acos, 1, nil},
	{"asin", math.Asin, 1, nil},
	{"atan", math.Atan, 1, nil},
	{"cos", math.Cos, -1, nil},
	{"cosh", math.Cosh, 1, nil},
	{"exp", math.Exp, 1, nil},
	{"log", math.Log, -1, nil},
	{"log10", log10, 1, isPowerOf10},
	{"sin", math.Sin, -1, nil},
	{"sinh", math.Sinh, 1, nil},
	{"tan", math.Tan, -1, nil},
	{"tanh", math.Tanh, 1, func(x float64) bool { return math.Abs(x) > 22 }},
}

// mathTranscendental is such a function for scripts.
func mathTranscendental(f transcendental) function {
	return func(c call) int {
		x := c.num(1)
		y, certain := f.at(x)
		if !certain {
			runOf(c.LState).doubt(fmt.Sprintf("math.%s(%.17g): the last digit depends on the C library", f.name, x))
		}
		return c.push(lua.LNumber(y))
	}
}

// at is the value, and whether all its digits are certain.
func (f transcendental) at(x float64) (y float64, certain bool) {
	y = f.plain(x)
	switch {
	case math.IsNaN(x):
		return x, true
	case math.IsNaN(y):
		return math.Copysign(y, f.nan), true
	case y == 0 || math.IsInf(y, 0) || x == 0 || math.IsInf(x, 0):
		return y, true
	}
	return y, f.exact != nil && f.exact(x)
}

// log10 is right where the logarithm is whole.
func log10(x float64) float64 {
	if isPowerOf10(x) {
		return math.Round(math.Log10(x))
	}
	return math.Log10(x)
}

func isPowerOf10(x float64) bool {
	return x > 0 && x < 1e23 && math.Pow10(int(math.Round(math.Log10(x)))) == x && x >= 1
}

// power is C's pow: x^y.
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

// atan2 is the angle of a point: on the axes it is certain.
func (r *run) atan2(y, x float64) float64 {
	angle := math.Atan2(y, x)
	switch {
	case math.IsNaN(angle):
		return nanOf(x, y)
	case x == 0 || y == 0 || angle == 0 || math.IsInf(x, 0) || math.IsInf(y, 0):
	default:
		r.doubt(fmt.Sprintf("math.atan2(%.17g, %.17g): the last digit depends on the C library", y, x))
	}
	return angle
}
