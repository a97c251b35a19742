package scripttest_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
)

var helperStart = regexp.MustCompile(`^local (?:function (\w+)|(struct) = )`)

// What two scripts both need is written in the same words, so that it is read once. Comments may differ. Those for many
// keys are left out: the generator writes them.
func TestHelpersAreAlike(t *testing.T) {
	first, uses, numbers := map[string]string{}, map[string]int{}, 0
	for _, script := range sluice.All() {
		if script.KeyGroup != nil {
			continue
		}
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
	if uses["integer"] != numbers || uses["struct"] != 6 {
		t.Errorf("found %v: want integer in the %d scripts with numbers, struct in 6", uses, numbers)
	}
}

// A passage is lines of a script, which others repeat in the same words, perhaps further to the right.
type passage struct {
	of          *sluice.Script
	first, last string // words of its first and of its last line
	in          []*sluice.Script
}

var passages = []passage{
	{&sluice.SliceRingV1, `return redis.error_reply("BADARG limit_"`, "want up to every limit", budgets[:1]},
	{&sluice.SliceRingV1, `local clock = redis.call("TIME")`, "local wrap = ", budgets},
	{&sluice.SliceRingV1, "local wanted = permits", "then wait_slices = ", budgets[:1]},
	{&sluice.SliceRingV1, "if fresh or current > last then", "last and total, in the header", budgets},
	{&sluice.SliceRingReturnV1, "-- The cells of slice_taken", "after = total_before(1) end", budgets[1:]},
	{&sluice.SliceRingReturnV1, "local lowered = {", "cells = table.concat(lowered)", budgets[1:]},
}

var budgets = []*sluice.Script{&sluice.BudgetV1, &sluice.BudgetSettleV1}

// Budgets count in the ring of slice_ring, and take from it what slice_ring_return would: by the same lines.
func TestPassagesAreAlike(t *testing.T) {
	for _, p := range passages {
		want := p.text(t, p.of)
		for _, script := range p.in {
			if got := p.text(t, script); got != want {
				t.Errorf("%s: it has\n%s\nwhere %s has\n%s", script.File, got, p.of.File, want)
			}
		}
	}
}

// text is the passage in a script, without the spaces before its lines, and without those that tell the generator how
// to make a script for many keys.
func (p passage) text(t *testing.T, script *sluice.Script) string {
	t.Helper()
	var lines []string
	for _, line := range strings.Split(script.Source, "\n") {
		line = strings.TrimLeft(line, " ")
		if !strings.HasPrefix(line, "-- MANY") && (len(lines) > 0 || strings.Contains(line, p.first)) {
			lines = append(lines, line)
		}
		if len(lines) > 0 && strings.Contains(line, p.last) {
			return strings.Join(lines, "\n")
		}
	}
	t.Errorf("%s has no lines from %q to %q", script.File, p.first, p.last)
	return ""
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
		tab.script = edited(t, tab.script, "\nif #ARGV", "\n"+checkedCalls+"if #ARGV")
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
