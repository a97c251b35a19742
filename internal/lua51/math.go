package lua51

import (
	"maps"
	"math"

	lua "github.com/yuin/gopher-lua"
)

func mathFunctions() map[string]function {
	// The last digit of these depends on the C library and on the processor.
	functions := refusedAll("math", "acos", "asin", "atan", "atan2", "cos", "cosh", "exp", "log", "log10", "sin", "sinh",
		"tan", "tanh")
	maps.Copy(functions, map[string]function{
		"abs":        mathOne(math.Abs),
		"ceil":       mathOne(math.Ceil),
		"deg":        mathOne(func(x float64) float64 { return x / radiansPerDegree }),
		"floor":      mathOne(math.Floor),
		"fmod":       mathTwo(math.Mod),
		"frexp":      mathFrexp,
		"ldexp":      mathLdexp,
		"max":        mathBest(func(x, best float64) bool { return x > best }),
		"min":        mathBest(func(x, best float64) bool { return x < best }),
		"mod":        mathTwo(math.Mod),
		"modf":       mathModf,
		"pow":        mathTwo(math.Pow),
		"rad":        mathOne(func(x float64) float64 { return x * radiansPerDegree }),
		"random":     mathRandom,
		"randomseed": mathRandomSeed,
		"sqrt":       mathOne(math.Sqrt),
	})
	return functions
}

const radiansPerDegree = math.Pi / 180

func mathConstants() map[string]lua.LValue {
	return map[string]lua.LValue{"pi": lua.LNumber(math.Pi), "huge": lua.LNumber(math.Inf(1))}
}

func mathOne(f func(float64) float64) function {
	return func(c call) int {
		return c.push(lua.LNumber(f(c.num(1))))
	}
}

// mathTwo looks at its second argument first, as C compilers let the C library do.
func mathTwo(f operation) function {
	return func(c call) int {
		b := c.num(2)
		return c.push(lua.LNumber(f(c.num(1), b)))
	}
}

func mathFrexp(c call) int {
	fraction, exponent := math.Frexp(c.num(1))
	return c.push(lua.LNumber(fraction), lua.LNumber(exponent))
}

func mathLdexp(c call) int {
	exponent := c.int(2)
	return c.push(lua.LNumber(math.Ldexp(c.num(1), exponent)))
}

func mathModf(c call) int {
	x := c.num(1)
	whole := math.Trunc(x)
	rest := x - whole
	if math.IsInf(x, 0) {
		rest = 0
	}
	return c.push(lua.LNumber(whole), lua.LNumber(math.Copysign(rest, x)))
}

// mathBest makes max or min: better says whether x comes before the best one so far.
func mathBest(better func(x, best float64) bool) function {
	return func(c call) int {
		best := c.num(1)
		for i := 2; i <= c.GetTop(); i++ {
			if x := c.num(i); better(x, best) {
				best = x
			}
		}
		return c.push(lua.LNumber(best))
	}
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
		return c.push(lua.LNumber(r))
	case 1:
		high := c.int(1)
		if high < 1 {
			c.argError(1, "interval is empty")
		}
		return c.push(lua.LNumber(math.Floor(r*float64(high)) + 1))
	case 2:
		low, high := c.int(1), c.int(2)
		if low > high {
			c.argError(2, "interval is empty")
		}
		return c.push(lua.LNumber(math.Floor(r*float64(high-low+1)) + float64(low)))
	}
	c.fail("wrong number of arguments")
	return 0
}

func mathRandomSeed(c call) int {
	run := runOf(c.LState)
	run.random, run.seeded = newRand48(uint32(c.int(1))), true
	return 0
}
