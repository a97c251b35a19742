package lua51

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

func mathFunctions() map[string]function {
	functions := map[string]function{
		"atan2":      mathTwo((*run).atan2),
		"deg":        mathOne(func(x float64) float64 { return x / radiansPerDegree }),
		"fmod":       mathTwo(fmod),
		"frexp":      mathFrexp,
		"ldexp":      mathLdexp,
		"max":        mathMax,
		"min":        mathMin,
		"mod":        mathTwo(fmod),
		"modf":       mathModf,
		"pow":        mathTwo((*run).power),
		"rad":        mathOne(func(x float64) float64 { return x * radiansPerDegree }),
		"random":     mathRandom,
		"randomseed": mathRandomSeed,
	}
	for name, f := range map[string]func(float64) float64{
		"abs": math.Abs, "ceil": math.Ceil, "floor": math.Floor, "sqrt": math.Sqrt,
	} {
		functions[name] = mathOne(f)
	}
	for _, f := range transcendentals {
		functions[f.name] = mathTranscendental(f)
	}
	return functions
}

const radiansPerDegree = math.Pi / 180

func mathConstants() map[string]lua.LValue {
	return map[string]lua.LValue{"pi": lua.LNumber(math.Pi), "huge": lua.LNumber(math.Inf(1))}
}

func mathOne(f func(float64) float64) function {
	return func(c call) int {
		c.pushNumber(f(c.num(1)))
		return 1
	}
}

// mathTwo looks at its second argument first, as C compilers let the C library do.
func mathTwo(f operation) function {
	return func(c call) int {
		b := c.num(2)
		c.pushNumber(f(runOf(c.LState), c.num(1), b))
		return 1
	}
}

// fmod is C's.
func fmod(_ *run, a, b float64) float64 {
	if r := math.Mod(a, b); !math.IsNaN(r) {
		return r
	}
	return nanOf(a, b)
}

func mathFrexp(c call) int {
	fraction, exponent := math.Frexp(c.num(1))
	c.pushNumber(fraction)
	c.pushNumber(float64(exponent))
	return 2
}

func mathLdexp(c call) int {
	exponent := c.int(2)
	c.pushNumber(math.Ldexp(c.num(1), exponent))
	return 1
}

func mathModf(c call) int {
	x := c.num(1)
	whole := math.Trunc(x)
	c.pushNumber(whole)
	if math.IsInf(x, 0) {
		c.pushNumber(math.Copysign(0, x))
	} else {
		c.pushNumber(math.Copysign(x-whole, x))
	}
	return 2
}

func mathMax(c call) int {
	best := c.num(1)
	for i := 2; i <= c.GetTop(); i++ {
		if x := c.num(i); x > best {
			best = x
		}
	}
	c.pushNumber(best)
	return 1
}

func mathMin(c call) int {
	best := c.num(1)
	for i := 2; i <= c.GetTop(); i++ {
		if x := c.num(i); x < best {
			best = x
		}
	}
	c.pushNumber(best)
	return 1
}

// rand48 is the generator that Redis gives to scripts, a copy of drand48's.
type rand48 uint64

func newRand48(seed uint32) rand48 { return rand48(uint64(seed)<<16 | 0x330e) }

// next returns 31 random bits.
func (r *rand48) next() uint32 {
	*r = (*r*0x5deece66d + 0xb) & (1<<48 - 1)
	return uint32(*r >> 17)
}

// mathRandom needs a seed of the script's own: Redis 7 goes on from one script to the next.
func mathRandom(c call) int {
	run := runOf(c.LState)
	if !run.seeded {
		run.refuse(c.LState, "math.random without math.randomseed before it")
	}
	const largest = math.MaxInt32
	r := float64(run.random.next()%largest) / largest
	switch c.GetTop() {
	case 0:
		c.pushNumber(r)
	case 1:
		high := c.int(1)
		if high < 1 {
			c.argError(1, "interval is empty")
		}
		c.pushNumber(math.Floor(r*float64(high)) + 1)
	case 2:
		low, high := c.int(1), c.int(2)
		if low > high {
			c.argError(2, "interval is empty")
		}
		c.pushNumber(math.Floor(r*float64(high-low+1)) + float64(low))
	default:
		c.fail("wrong number of arguments")
	}
	return 1
}

func mathRandomSeed(c call) int {
	run := runOf(c.LState)
	run.random, run.seeded = newRand48(uint32(c.int(1))), true
	return 0
}
