package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-redis/sluice"
)

// many is a script for many subjects: the script for one, called for each of them. That a call of list_log_many gives
// up after long searches is not in the model.
func many(script *sluice.Script, store Store, now int64, keys, args []string) Outcome {
	all, bad := read(script, keys, args)
	if bad != "" {
		return Outcome{After: store, Err: bad}
	}
	sum := Outcome{Reply: []int64{now}, After: store}
	undecided := make([]int64, 4+all.groups) // a count for each window
	for own := range slices.Chunk(keys, max(all.groups, 1)) {
		one := Call(single(script), sum.After, now, own, args)
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
	if most := mostTogether(script); int64(len(keys))*all.number["permits"] > most {
		return Outcome{After: store, Err: fmt.Sprintf("BADARG permits: want keys * permits up to %d", most)}
	}
	return sum
}

// single is the script for one subject.
func single(script *sluice.Script) *sluice.Script {
	for _, other := range sluice.All() {
		if other.Name+"_many" == script.Name && other.Version == script.Version {
			return &other
		}
	}
	return script
}

// mostTogether is how many permits a call may ask for, for all subjects.
func mostTogether(script *sluice.Script) int64 {
	if script.Name == "list_log_many" {
		return 1000
	}
	return 1 << 53
}
