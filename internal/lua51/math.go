package lua51

import (
	"maps"
	"math"

	lua "github.com/yuin/gopher-lua"
)

func mathFunctions() map[string]function {
	// The last digit of some depends on the C library and on the processor; limiters need none of them.
	functions := refusedAll("math", "acos", "asin", "atan", "atan2", "cos", "cosh", "deg", "exp", "frexp", "ldexp", "log",
		"log10", "modf", "rad", "random", "randomseed", "sin", "sinh", "tan", "tanh")
	maps.Copy(functions, map[string]function{
		"abs":   mathOne(math.Abs),
		"ceil":  mathOne(math.Ceil),
		"floor": mathOne(math.Floor),
		"fmod":  mathTwo(math.Mod),
		"max":   mathBest(func(x, best float64) bool { return x > best }),
		"min":   mathBest(func(x, best float64) bool { return x < best }),
		"mod":   mathTwo(math.Mod),
		"pow":   mathTwo(math.Pow),
		"sqrt":  mathOne(math.Sqrt),
	})
	return functions
}

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
