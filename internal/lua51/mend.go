package lua51

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxTTL is the longest TTL that miniredis can hold, in milliseconds.
const maxTTL = 290 * 365 * 86_400_000

// tooLongTTL reports whether a command sets a TTL that miniredis would take for a negative one.
func tooLongTTL(words []string) bool {
	switch name := strings.ToLower(words[0]); name {
	case "expire", "pexpire", "setex", "psetex":
		return len(words) > 2 && exceeds(words[2], name[0] == 'p')
	case "set", "getex":
		for i := 2; i+1 < len(words); i++ {
			option := strings.ToLower(words[i])
			if (option == "ex" || option == "px") && exceeds(words[i+1], option == "px") {
				return true
			}
		}
	}
	return false
}

func exceeds(ttl string, milliseconds bool) bool {
	n, ok := integer(ttl)
	if milliseconds {
		return ok && n > maxTTL
	}
	return ok && n > maxTTL/1000
}

// tooLongString reports whether a command writes so far behind a string's end that it would only test the
// memory. Redis refuses twice as much.
func tooLongString(words []string) bool {
	if len(words) != 4 {
		return false
	}
	offset, ok := integer(words[2])
	switch strings.ToLower(words[0]) {
	case "setrange":
		return ok && offset > maxString-int64(len(words[3]))
	case "setbit":
		return ok && offset/8 >= maxString
	}
	return false
}

// refusedNumber is the error of a command with a score that miniredis would take and Redis does not.
func refusedNumber(words []string) (ErrorReply, bool) {
	switch name := strings.ToLower(words[0]); {
	case name == "zadd":
		for i := len(words) - 2; i >= 2; i -= 2 {
			if isNaN(words[i]) {
				return notAFloat, true
			}
		}
	case name == "zincrby" && len(words) == 4:
		return notAFloat, isNaN(words[2])
	}
	return "", false
}

const notAFloat = "ERR value is not a valid float"

func isNaN(s string) bool {
	x, ok := ParseNumber(s)
	return ok && math.IsNaN(x)
}

// replacement returns the command to run for one that miniredis gets wrong; it replies the same, and
// changes as little: nothing.
func replacement(words []string) []string {
	switch name := strings.ToLower(words[0]); {
	case name == "setrange" && len(words) == 4 && words[3] == "":
		if offset, ok := integer(words[2]); ok && offset >= 0 {
			return []string{"STRLEN", words[1]}
		}
	case name == "getrange" && len(words) == 4:
		start, okStart := integer(words[2])
		end, okEnd := integer(words[3])
		if okStart && okEnd && start < 0 && end < start {
			return []string{"GETRANGE", words[1], "1", "0"}
		}
	case (name == "zpopmin" || name == "zpopmax") && len(words) == 3:
		if count, ok := integer(words[2]); ok && count == 0 {
			return []string{"ZRANGE", words[1], "1", "0"}
		}
	}
	return words
}

// integer reads an integer as commands do.
func integer(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// mend makes of miniredis's reply what Redis 7.0 replies, where the two differ: scores have 17 digits,
// and some errors are worded otherwise.
func mend(words []string, reply any) any {
	if text, ok := reply.(ErrorReply); ok {
		return mendError(words, text)
	}
	switch strings.ToLower(words[0]) {
	case "zscore", "zincrby":
		return score(reply)
	case "zadd":
		if _, isCount := reply.(int64); !isCount {
			return score(reply)
		}
	case "zmscore":
		return scores(reply, 0, 1)
	case "zpopmin", "zpopmax":
		return scores(reply, 1, 2)
	case "zrange", "zrevrange", "zrangebyscore", "zrevrangebyscore", "zinter", "zunion", "zdiff", "zrandmember":
		if slices.ContainsFunc(words[1:], func(w string) bool { return strings.EqualFold(w, "withscores") }) {
			return scores(reply, 1, 2)
		}
	}
	return reply
}

// scores mends every step-th item of an array, from the first on.
func scores(reply any, first, step int) any {
	items, _ := reply.([]any)
	for i := first; i < len(items); i += step {
		items[i] = score(items[i])
	}
	return reply
}

func score(reply any) any {
	text, ok := reply.(string)
	if !ok {
		return reply
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(x, 0) {
		return reply
	}
	return formatG(x, 17)
}

func mendError(words []string, text ErrorReply) ErrorReply {
	const expire = "ERR invalid expire time in "
	if name, ok := strings.CutPrefix(string(text), expire); ok && !strings.HasPrefix(name, "'") {
		return ErrorReply(expire + "'" + strings.ToLower(words[0]) + "' command")
	}
	if strings.EqualFold(words[0], "hincrby") && strings.HasPrefix(string(text), "ERR value is not an integer") {
		if _, ok := integer(words[3]); ok {
			return "ERR hash value is not an integer"
		}
	}
	return text
}
