package lua51

import (
	"fmt"
	"math"
	"math/big"
	"sync"
)

// The C library rounds exp, log, pow and the trigonometric functions right but for results that lie nearly
// half way between two numbers, where it depends on the processor. So they are computed to many digits here,
// and what lies there is refused.

// precision is that of the computation, in bits.
const precision = 320

// largestAngle is the largest angle whose sine is computed.
const largestAngle = 1 << 60

// How near to half way a result may lie, in units of its last place, before it is refused: what the C
// library's authors prove of their errors, and some more.
const (
	doubtExp    = 0.01
	doubtLog    = 0.01
	doubtPow    = 0.01
	doubtArcsin = 0.03
	doubtSin    = 0.055
	doubtTan    = 0.13
)

// accurate is a function of the C library: its value to many digits, nil of what is out of reach, its value
// by Go, which is right where that is 0 or not finite, and the sign of the NaN that it makes of numbers.
type accurate struct {
	name   string
	digits func(x float64) *big.Float
	plain  func(x float64) float64
	doubt  float64
	nan    float64
}

var accurateFunctions = []accurate{
	{"acos", bigAcos, math.Acos, doubtArcsin, 1},
	{"asin", bigAsin, math.Asin, doubtArcsin, 1},
	{"atan", func(x float64) *big.Float { return arctan(number(x)) }, math.Atan, doubtSin, 1},
	{"cos", func(x float64) *big.Float { _, c := bigSinCos(x); return c }, math.Cos, doubtSin, -1},
	{"exp", bigExp, math.Exp, doubtExp, 1},
	{"log", bigLog, math.Log, doubtLog, -1},
	{"sin", func(x float64) *big.Float { s, _ := bigSinCos(x); return s }, math.Sin, doubtSin, -1},
	{"tan", bigTan, math.Tan, doubtTan, -1},
}

// mathAccurate is such a function for scripts.
func mathAccurate(f accurate) function {
	return func(c call) int {
		x := c.num(1)
		y, certain := f.at(x)
		if !certain {
			runOf(c.LState).doubt(fmt.Sprintf("math.%s(%.17g): the last digit depends on the C library", f.name, x))
		}
		c.pushNumber(y)
		return 1
	}
}

// at is the value, and whether all its digits are certain.
func (f accurate) at(x float64) (y float64, certain bool) {
	plain := f.plain(x)
	switch {
	case math.IsNaN(x):
		return x, true
	case math.IsNaN(plain):
		return math.Copysign(plain, f.nan), true
	case plain == 0 || math.IsInf(plain, 0) || math.IsInf(x, 0):
		return plain, true
	}
	digits := f.digits(x)
	if digits == nil {
		return plain, false
	}
	return rounded(digits, f.doubt)
}

// mathInexact is a function that the C library does not round right: only what is exact is certain.
func mathInexact(name string, f func(float64) float64, exact func(x float64) bool) function {
	return func(c call) int {
		x := c.num(1)
		if math.IsNaN(x) {
			c.pushNumber(x)
			return 1
		}
		if y := f(x); !exact(x) && !math.IsNaN(y) && !math.IsInf(y, 0) {
			runOf(c.LState).doubt(fmt.Sprintf("math.%s(%.17g): the last digit depends on the C library", name, x))
		}
		c.pushNumber(f(x))
		return 1
	}
}

// rounded is the number nearest to z, and whether z is far enough from half way to the next one.
func rounded(z *big.Float, doubt float64) (x float64, certain bool) {
	x, _ = z.Float64()
	if math.IsInf(x, 0) || math.Abs(x) < 0x1p-1000 {
		return x, false
	}
	ulp := math.Nextafter(math.Abs(x), math.Inf(1)) - math.Abs(x)
	off, _ := new(big.Float).Sub(z, number(x)).Float64()
	return x, math.Abs(off)/ulp < 0.5-doubt
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
	if z, ok := integerPower(x, y); ok {
		return z, true
	}
	digits := exponential(new(big.Float).Mul(number(y), bigLog(math.Abs(x))))
	if plain < 0 {
		digits.Neg(digits)
	}
	return rounded(digits, doubtPow)
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

// integerPower is a power that can be had by multiplying, without rounding.
func integerPower(x, y float64) (z float64, ok bool) {
	if y < 0 || y > 60 || y != math.Trunc(y) || x != math.Trunc(x) {
		return 0, false
	}
	z = 1
	for range int(y) {
		if z *= x; math.Abs(z) > 1<<53 {
			return 0, false
		}
	}
	return z, true
}

// power is ^ and math.pow.
func (r *run) power(x, y float64) float64 {
	z, certain := power(x, y)
	if !certain {
		r.doubt(fmt.Sprintf("%.17g ^ %.17g: the last digit depends on the C library", x, y))
	}
	return z
}

func number(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

func bigExp(x float64) *big.Float { return exponential(number(x)) }

// exponential is e^x: x is cut down by a multiple of ln 2 and by 2^32, and the result squared again.
func exponential(x *big.Float) *big.Float {
	quotient, _ := new(big.Float).Quo(x, ln2()).Float64()
	k := math.Round(quotient)
	r := new(big.Float).Sub(x, new(big.Float).Mul(number(k), ln2()))
	const halvings = 32
	r.SetMantExp(r, -halvings)
	sum, term := number(1), number(1)
	for i := 1; i < 12; i++ {
		term.Mul(term, r)
		term.Quo(term, number(float64(i)))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum.SetMantExp(sum, int(k))
}

// bigLog improves Go's logarithm by one step of Halley's method, which trebles its digits.
func bigLog(x float64) *big.Float {
	fraction, exponent := math.Frexp(x)
	y := number(math.Log(fraction))
	e := exponential(y)
	m := number(fraction)
	step := new(big.Float).Quo(new(big.Float).Sub(m, e), new(big.Float).Add(m, e))
	y.Add(y, step.Mul(step, number(2)))
	return y.Add(y, new(big.Float).Mul(number(float64(exponent)), ln2()))
}

// bigSinCos takes an angle to within an eighth of a turn of 0, and cuts it down by 2^16.
func bigSinCos(x float64) (sin, cos *big.Float) {
	if math.Abs(x) > largestAngle {
		return nil, nil
	}
	return sinCos(number(x))
}

func sinCos(x *big.Float) (sin, cos *big.Float) {
	half := new(big.Float).Quo(pi(), number(2))
	turns, _ := new(big.Float).Quo(x, half).Int(nil)
	r := new(big.Float).Sub(x, new(big.Float).Mul(new(big.Float).SetPrec(precision).SetInt(turns), half))
	sin, cos = number(0), number(1)
	sin.Set(r)
	square := new(big.Float).Mul(r, r)
	odd, even := number(0).Set(r), number(1)
	for i := 1; i < 50; i++ {
		even.Quo(even.Mul(even, square), number(float64((2*i-1)*2*i))).Neg(even)
		odd.Quo(odd.Mul(odd, square), number(float64(2*i*(2*i+1)))).Neg(odd)
		cos.Add(cos, even)
		sin.Add(sin, odd)
	}
	switch new(big.Int).And(turns, big.NewInt(3)).Int64() {
	case 1:
		sin, cos = cos, sin.Neg(sin)
	case 2:
		sin.Neg(sin)
		cos.Neg(cos)
	case 3:
		sin, cos = cos.Neg(cos), sin
	}
	return sin, cos
}

func bigTan(x float64) *big.Float {
	sin, cos := bigSinCos(x)
	if sin == nil {
		return nil
	}
	return sin.Quo(sin, cos)
}

// arctan improves Go's by what is left between x and the tangent of that.
func arctan(x *big.Float) *big.Float {
	near, _ := x.Float64()
	y := number(math.Atan(near))
	sin, cos := sinCos(y)
	rest := new(big.Float).Sub(new(big.Float).Mul(x, cos), sin)
	rest.Quo(rest, new(big.Float).Add(cos, new(big.Float).Mul(x, sin)))
	cube := new(big.Float).Mul(rest, new(big.Float).Mul(rest, rest))
	return y.Add(y, rest.Sub(rest, cube.Quo(cube, number(3))))
}

func bigAsin(x float64) *big.Float {
	if math.Abs(x) == 1 {
		return new(big.Float).Quo(pi(), number(2*x))
	}
	square := new(big.Float).Mul(number(x), number(x))
	root := new(big.Float).Sqrt(square.Sub(number(1), square))
	return arctan(new(big.Float).Quo(number(x), root))
}

func bigAcos(x float64) *big.Float {
	half := new(big.Float).Quo(pi(), number(2))
	return half.Sub(half, bigAsin(x))
}

// atan2 is the angle of a point.
func (r *run) atan2(y, x float64) float64 {
	plain := math.Atan2(y, x)
	if math.IsNaN(plain) {
		return nanOf(x, y)
	}
	if plain == 0 || x == 0 || math.IsInf(x, 0) || math.IsInf(y, 0) {
		return plain // multiples of an eighth of a turn
	}
	angle := pi()
	if y != 0 {
		angle = arctan(new(big.Float).Quo(number(y), number(x)))
		if x < 0 {
			angle.Add(angle, new(big.Float).Mul(pi(), number(math.Copysign(1, y))))
		}
	}
	z, certain := rounded(angle, doubtSin)
	if y == 0 {
		return math.Copysign(z, y)
	}
	if !certain {
		r.doubt(fmt.Sprintf("math.atan2(%.17g, %.17g): the last digit depends on the C library", y, x))
	}
	return z
}

// ln2 is 2 artanh(1/3), and pi is 16 arctan(1/5) - 4 arctan(1/239): new ones each time.
func ln2() *big.Float { return new(big.Float).Set(constants().ln2) }
func pi() *big.Float  { return new(big.Float).Set(constants().pi) }

type bigConstants struct{ ln2, pi *big.Float }

var constants = sync.OnceValue(func() bigConstants {
	ln2 := series(3, 1)
	ln2.Mul(ln2, number(2))
	a, b := series(5, -1), series(239, -1)
	return bigConstants{ln2, a.Sub(a.Mul(a, number(16)), b.Mul(b, number(4)))}
})

// series is the sum of sign^i / ((2i + 1) n^(2i + 1)).
func series(n float64, sign float64) *big.Float {
	sum := number(0)
	power := new(big.Float).Quo(number(1), number(n))
	for i := 0.0; i < precision; i++ {
		sum.Add(sum, new(big.Float).Quo(power, number(2*i+1)))
		power.Quo(power, number(sign*n*n))
	}
	return sum
}
