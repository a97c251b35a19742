package scripttest

import (
	"math"
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
	n, err := strconv.ParseInt(ttl, 10, 64)
	if milliseconds {
		return err == nil && n > maxTTL
	}
	return err == nil && n > maxTTL/1000
}

// refusedNumber is the error of a command with a number that miniredis would take and Redis does not: NaN
// for a score, NaN or an infinity to add.
func refusedNumber(words []string) (ErrorReply, bool) {
	switch name := strings.ToLower(words[0]); {
	case name == "zadd":
		for i := len(words) - 2; i >= 2; i -= 2 {
			if x, ok := parseNumber(words[i]); ok && math.IsNaN(x) {
				return "ERR value is not a valid float", true
			}
		}
	case name == "zincrby" && len(words) == 4:
		x, ok := parseNumber(words[2])
		return "ERR value is not a valid float", ok && math.IsNaN(x)
	case name == "hincrbyfloat" && len(words) == 4:
		x, ok := parseNumber(words[3])
		return "ERR value is NaN or Infinity", ok && (math.IsNaN(x) || math.IsInf(x, 0))
	}
	return "", false
}

// instead is the command to run in the place of one that miniredis gets wrong: SETRANGE of nothing only
// tells the length.
func instead(words []string) []string {
	if len(words) == 4 && strings.EqualFold(words[0], "setrange") && words[3] == "" {
		if offset, err := strconv.Atoi(words[2]); err == nil && offset >= 0 {
			return []string{"STRLEN", words[1]}
		}
	}
	return words
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
		if hasWord(words[1:], "withscores") {
			return scores(reply, 1, 2)
		}
	}
	return reply
}

func hasWord(words []string, want string) bool {
	for _, w := range words {
		if strings.EqualFold(w, want) {
			return true
		}
	}
	return false
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
		if _, err := strconv.ParseInt(words[3], 10, 64); err == nil {
			return "ERR hash value is not an integer"
		}
	}
	return text
}
