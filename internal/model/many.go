package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-redis/sluice"
)

// many is a script for many keys: the script for one, called for each of them. That a call gives up after long searches
// or much work is not in the model.
func many(script *sluice.Script, store Store, now int64, keys, args []string) Outcome {
	if n, want := len(keys), script.KeyGroup; n < want.Min || n > want.Max {
		return Outcome{After: store, Err: fmt.Sprintf("BADARG KEYS: want %d to %d", want.Min, want.Max)}
	}
	sum := Outcome{Reply: []int64{now}, After: store}
	undecided := make([]int64, fieldsOf(script, args))
	for _, key := range keys {
		one := Call(single(script), sum.After, now, []string{key}, args)
		code, _, _ := strings.Cut(one.Err, " ")
		switch code {
		case "BADARG":
			return Outcome{After: store, Err: one.Err}
		case "BADSTATE":
			one.Reply = slices.Concat([]int64{-1}, undecided)
		case "WRONGTYPE":
			one.Reply = slices.Concat([]int64{-2}, undecided)
		}
		if one.Any && one.Reply == nil { // a damaged ring
			one.Reply = slices.Concat([]int64{0}, undecided)
		}
		sum.Reply = append(sum.Reply, slices.Delete(one.Reply, 4, 5)...) // without now
		sum.After, sum.Any = one.After, sum.Any || one.Any || one.Or != ""
	}
	if most := mostTogether(script); int64(len(keys))*permitsOf(script, args) > most {
		return Outcome{After: store, Err: fmt.Sprintf("BADARG permits: want keys * permits up to %d", most)}
	}
	return sum
}

// fieldsOf is how many fields a reply of the script for one has behind granted, with counts for the windows.
func fieldsOf(script *sluice.Script, args []string) int {
	if script.Group == nil {
		return 4
	}
	return 4 + len(args)/3 // one argument, and three for each window
}

// single is the script for one key.
func single(script *sluice.Script) *sluice.Script {
	for _, other := range sluice.All() {
		if other.Name+"_many" == script.Name && other.Version == script.Version {
			return &other
		}
	}
	return script
}

// mostTogether is how many permits a call may ask for, for all keys.
func mostTogether(script *sluice.Script) int64 {
	if script.Name == "list_log_many" {
		return 1000
	}
	return 1 << 53
}

func permitsOf(script *sluice.Script, args []string) int64 {
	return number(args[slices.IndexFunc(script.Args, func(f sluice.Field) bool { return f.Name == "permits" })])
}
