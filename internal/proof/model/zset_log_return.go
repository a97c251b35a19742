package model

// zsetLogReturn is zset_log_return_v1: it removes members of one id, the highest numbers first.
func zsetLogReturn(c call) Outcome {
	stored, ok := c.holds(c.keys[0], "zset")
	if !ok {
		return c.fails(wrongType)
	}
	id := c.args.text["id"]
	at, held, bad := granted(stored.ZSet, id)
	if bad {
		return c.fails(badZSet)
	}
	if held == 0 {
		return Outcome{Reply: []int64{0}, After: c.store}
	}
	returned := min(c.args.number["permits"], held)
	var names []string
	for k := held; k > held-returned; k-- {
		names = append(names, member(id, k))
	}
	if ranked := stored.Ranked(); int64(len(ranked)) > returned {
		before, ok := parseScore(ranked[int64(len(ranked))-returned-1].Score)
		if !ok {
			return c.fails(badZSet)
		}
		stored.Expires = c.lowered(stored.Expires, at-before)
	}
	set := without(stored.ZSet, names)
	stored.ZSet = set
	return c.left(Outcome{Reply: []int64{returned}}, stored, len(set))
}
