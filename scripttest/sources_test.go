package scripttest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
)

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
		checks, _, _ := strings.Cut(tab.script.Source[strings.Index(tab.script.Source, "\nif #KEYS"):], " then")
		tab.script = edited(t, tab.script, checks, "\n"+checkedCalls+checks)
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
	"slice_ring":       {{"days", []line{{"0s", "1 0 24h 10 3", "1 2 0 240h 1"}}}},
}

// Every call has one slot of a cluster.
func TestKeysOfACallShareTheirSlot(t *testing.T) {
	tag := regexp.MustCompile(`\{[^{}]+\}`)
	for _, script := range sluice.All() {
		for _, key := range script.Keys {
			if got := tag.FindString(key.Pattern); got != "{<subject>}" {
				t.Errorf("%s: the tag of %s is %q, want {<subject>}", script.File, key.Pattern, got)
			}
		}
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}
