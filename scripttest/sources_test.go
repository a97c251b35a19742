package scripttest_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
)

var helperStart = regexp.MustCompile(`^local (?:function (\w+)|(struct) = )`)

// What two scripts both need is written in the same words, so that it is read once. Comments may differ.
func TestHelpersAreAlike(t *testing.T) {
	first, uses, numbers := map[string]string{}, map[string]int{}, 0
	for _, script := range sluice.All() {
		if slices.ContainsFunc(script.Args, func(arg sluice.Field) bool { return arg.Type != "str" }) {
			numbers++
		}
		for name, helper := range helpers(script.Source) {
			uses[name]++
			if first[name] == "" {
				first[name] = helper
			} else if helper != first[name] {
				t.Errorf("%s: %s is\n%s\nbut elsewhere\n%s", script.File, name, helper, first[name])
			}
		}
	}
	if uses["integer"] != numbers || uses["struct"] != 4 {
		t.Errorf("found %v: want integer in the %d scripts with numbers, struct in 4", uses, numbers)
	}
}

// helpers are those at the top level of a script, by name: from their first line to the next that is not indented.
func helpers(source string) map[string]string {
	found := map[string]string{}
	lines := strings.Split(source, "\n")
	for i := 0; i < len(lines); i++ {
		name := helperStart.FindStringSubmatch(lines[i])
		if name == nil {
			continue
		}
		from := i
		for i+1 < len(lines) && (strings.HasPrefix(lines[i+1], " ") || strings.HasPrefix(lines[i+1],
			"end") || lines[i+1] == "}") {
			i++
		}
		found[name[1]+name[2]] = strings.Join(lines[from:i+1], "\n")
	}
	return found
}

// checkedCalls shadows redis: a call may get no number of nine digits. Redis 7.2.0 to 7.2.4 and what was forked from
// them write 600000000 as 6e+8, which commands refuse, and which would be stored as that.
const checkedCalls = `local redis = (function(redis)
  local function checked(call)
    return function(...)
      for i = 1, select("#", ...) do
        local given = select(i, ...)
        if type(given) == "number" and given >= 100000000 then
          return redis.error_reply("a number of nine digits: " .. given .. " for " .. (...))
        end
      end
      return call(...)
    end
  end
  return {call = checked(redis.call), pcall = checked(redis.pcall), error_reply = redis.error_reply}
end)(redis)
`

// Every timeline passes with such calls refused, and with long windows, intervals and slices, which the timelines have.
func TestLargeNumbersAreText(t *testing.T) {
	eachTable(t, func(t *testing.T, tab table) {
		tab.script = edited(t, tab.script, "\nif #KEYS", "\n"+checkedCalls+"if #KEYS")
		tab.timelines = append(tab.timelines, longTimelines[tab.script.Name]...)
		tab.run(t, func(t *testing.T) target { return startHarness(t, false) })
	})
}

var longTimelines = map[string][]timeline{
	"token_bucket": {{"an interval of ten minutes", []line{
		{"0s", "3 10m 0 1 0", "1 2 0 10m 3 10m"},
		{"200s", "3 10m 0 1 0", "1 1 0 10m 3 10m"},
	}}},
	"token_bucket_set": {{"an interval of ten minutes", []line{{"0s", "3 10m 0", "3 10m 0"}}}},
	"gcra":             {{"two days to wait", []line{{"0s", "1 48h 1 1 0", "1 0 0 48h"}}}},
	"slice_ring":       {{"days", []line{{"0s", "24h 1 10 3", "1 2 0 240h 1"}}}},
}
