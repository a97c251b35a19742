package main

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

const subjectFile = `
limits:
  login:
    by: ip(request.ip, 64)
    rates: 2/1m
    overrides:
      - {subject: '2001:db8:9::1', rates: 9/1m, until: 2999-01-01T00:00:00Z, reason: he called}
      - {subject: '2001:db8:9:9::1', rates: 0/1m, until: 2999-01-01T00:00:00Z}
      - {subject: '2001:db8:1:2::', rates: 9/1m, until: 2001-01-01T00:00:00Z}
  api: {by: user.key, plan: user.plan, plans: {free: 60/1m, pro: [90/1m, 900/1h]}}
  sms: {by: user.key, rates: 2/1m, script: gcra, mode: shadow,
    overrides: [{subject: ada, rates: 9/1m, until: 2999-01-01T00:00:00Z}]}
  pair: {by: ['ip(request.ip, 64)', user.key], rates: 2/1m, script: slice_ring}
  banned: {by: user.key, rates: [2/1h, 5/month], ban: 2/1h}
  ring: {by: user.key, rates: [2/1m, 9/1h], ban: 2/1h}
  daily: {by: user.key, rates: 2/day}
  both: {by: user.key, plan: user.plan, plans: {free: [60/1m, 9/month]}}
`

// TestServerNamed names subjects as people know them, of the limits of a policy file.
func TestServerNamed(t *testing.T) {
	rdb, env := started(t)
	limits := loader.New(rdb)
	must(t, limits.Preload(background))
	two := loader.PerMinute(2)
	for _, one := range []struct {
		loader.Limiter
		subject string
	}{
		{limits.ListLog("login", two), "2001:db8:1:2::/64"}, {limits.ListLog("login", two), "2001:db8:9::/64"},
		{limits.ListLog("login", two), "2001:db8:9:9::/64"}, {limits.GCRA("sms", two), "ada"},
		{limits.SliceRing("api", []loader.Limit{two}), "ada@example.com"}, {limits.ListLog("pair", two), "192.0.2.7|ada"},
		{limits.ListLog("banned", loader.PerHour(2)), "ada"},
		{limits.ListLog("banned-ban", loader.PerHour(2)), "ada"},
		{limits.Quota("banned-month", 5, loader.Monthly(time.UTC)), "ada"},
		{limits.ListLog("ring-ban", loader.PerHour(2)), "ada"}, {limits.Quota("daily-day", 2, loader.Daily(time.UTC)), "ada"},
		{limits.Quota("both-month", 9, loader.Monthly(time.UTC)), "ada"},
	} {
		_, err := one.AllowN(background, one.subject, 2)
		must(t, err)
	}
	file, long := inFile(t, "limits.yaml", subjectFile), strings.Repeat("x", 129)
	grants(t, rdb, "long", httplimit.Subject(long, "ada"))
	for _, test := range []struct {
		line string
		want int
		says string
	}{
		{"inspect login 2001:db8:1:2:3::4", exitNothing,
			`stored are:\n  login 2001:db8:1:2::/64 \(list_log_v1\)\n--policy FILE makes the subject`},
		{"inspect --policy FILE login 2001:db8:1:2:3::4", exitDone, // its override has ended
			`limit      2/1m, \S+limits.yaml: Redis does not store it\n  now        refused: .* \(..:..:.. UTC\)\n` +
				`(.|\n)*note: an override in the file has ended: 9/1m until 2001-`},
		{"inspect --policy FILE login 2001:db8:9::7", exitDone, `limit      9/1m, (.|\n)*a permit is granted now\n` +
			`(.|\n)*note: the file has an override: 9/1m until 2999-01-01 00:00:00 UTC \(he called\); then 2/1m\n`},
		{"inspect --policy FILE login 2001:db8:9:9::7", exitDone,
			`note: every call is refused: the limit is 0/1m; a reset does not help\n`},
		{"inspect --policy FILE login 2001:db8:9::7 --limit 2/1m", exitUsage,
			"the file has the limit 9/1m: leave --limit out"},
		{"inspect --policy FILE api ada@example.com", exitDone,
			`note: the limit is that of the plan, free: 60/1m; pro: 90/1m, 900/1h: add it by --limit\n`},
		{"inspect --policy FILE sms ada", exitDone, `  now        refused(.|\n)*note: the limit is in shadow`},
		{"inspect --policy FILE pair 192.0.2.7 ada", exitFailed,
			`doubt      the policy file has slice_ring, which does not read this key\n$`},
		{"inspect --policy FILE logni 192.0.2.7", exitUsage, `no limit "logni": want one of login, api, sms, pair, banned`},
		{"inspect --policy FILE banned-month ada", exitDone,
			`^sluice:banned-month:(.|\n)*limit      5/month, (.|\n)*remaining  3\n(.|\n)*\n\nsluice:banned-ban:`},
		{"inspect --policy FILE banned-ban ada", exitDone, `^sluice:banned:(.|\n)*\nsluice:banned-month:(.|\n)*` +
			`\nsluice:banned-ban:(.|\n)*refused: (.|\n)*\nnote: banned-ban counts refusals by banned: while it is full`},
		{"inspect --policy FILE ring ada", exitDone,
			`^sluice:ring-ban:(.|\n)* refused: (.|\n)*note: nothing is stored of ring\n`},
		{"inspect --policy FILE daily ada", exitDone, `^sluice:daily-day:(.|\n)* refused: `},
		{"inspect --policy FILE both ada --limit 60/1m --limit 9/month", exitDone,
			`^sluice:both-month:(.|\n)*remaining  7\n`},
		{"inspect --policy FILE daily-ban ada", exitUsage, `no limit "daily-ban"`},
		{"reset --policy FILE banned ada", exitDone,
			`:\{ada\}:ll1 (.|\n)*banned-month:(.|\n)*banned-ban:.*\nremoved 3 keys\n`},
		{"reset --policy FILE banned ada", exitNothing, `nothing is stored`},
		{"inspect --policy FILE login ada", exitUsage, `the subject is "ada": want an address, for ip\(request.ip, 64\)`},
		{"inspect --policy FILE sluice:login:{ada}:ll1", exitUsage, "wants a limiter and a subject, not a key"},
		{"inspect --policy FILE login 192.0.2.7", exitNothing, `of limiter login 3 keys are stored, for no similar`},
		{"inspect logni 192.0.2.7", exitNothing, `nothing is stored of limiter logni. Limiters are:\n  login\n  api\n`},
		{"inspect sms ada@example.com", exitNothing, `stored are:\n  api ada@example.com \(slice_ring_v1\)\n  sms ada`},
		{"reset login 2001:db8:1:2:3::4", exitNothing, `stored are:\n  login 2001:db8:1:2::/64`},
		{"reset --policy FILE --dry-run login 2001:db8:1:2:3::4", exitDone, `would go  sluice:login:\{2001:db8:1:2::/64\}`},
		{"reset --policy FILE login 2001:db8:1:2:3::4", exitDone, `removed   sluice:login:\{2001:db8:1:2::/64\}:ll1`},
		{"reset --policy FILE login 2001:db8:1:2:3::4", exitNothing,
			`^nothing is stored under .*\nnothing is refused there`},
		{"reset login 2001:db8:9:9::/64", exitDone, "removed 1 key"},
		{"inspect --policy FILE login 2001:db8:9:9::7", exitNothing,
			`nothing is stored .*\nnote: the file has (.|\n)*every call`},
		{"reset --policy FILE login 2001:db8:9:9::7", exitNothing,
			`nothing is stored .*\nnote: the file has (.|\n)*every call`},
		{"inspect long " + long + "|ada", exitNothing,
			`look for (~2\S+\|ada)\nstored are:\n  long ~2\S+\|ada \(list_log_v1\)\n`},
		{"inspect --prefix shop login ada", exitNothing, `nothing is stored that begins with shop: are --prefix`},
	} {
		wantText(t, runLine(env, strings.ReplaceAll(test.line, "FILE", file)), test.want, test.says)
	}
}

func TestSimilar(t *testing.T) {
	for _, test := range []struct {
		meant, stored string
		want          bool
	}{
		{"ada@example.com", "Ada@Example.com", true}, {"ada", "192.0.2.7|ada", true},
		{"ada@exmaple.com", "ada@example.com", true}, {"ada@example.co", "ada@example.com", true},
		{"2001:db8::7", "2001:DB8::/64", true}, {"2001:db8:1::7", "2001:db8:2::/64", false},
		{"ada", "eve", false}, {"ad", "ada@example.com", false}, {"ada", "a", false}, {"abcd", "abxy", false},
	} {
		if got := isSimilar(test.meant, test.stored); got != test.want {
			t.Errorf("%s and %s: %v", test.meant, test.stored, got)
		}
	}
}
