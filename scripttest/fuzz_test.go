package scripttest_test

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/model"
	"github.com/sluice-redis/sluice/scripttest"
)

// Whatever a caller sends and whatever stands under its key, a script answers: with an error that its header declares
// and the store as it was, or with a reply in the ranges of its header that grants no more than the limit. It never
// hangs, raises an error, or touches another key. `make fuzz` runs these for a time; `make test` runs their seeds and
// what is kept under testdata/fuzz.

// fuzzInstructions end a call that hangs. The dearest, a grant of 1000 permits, takes a quarter of it.
const fuzzInstructions = 100_000

// separator is the byte between arguments, and between the elements of a stored value.
const separator = "\xff"

// foreign is a key beside those of the call, with their hash tag.
const foreign = "t:x:{u}:foreign"

// A fuzzed is one script on an emulated server, which all inputs share.
type fuzzed struct {
	table
	compiled *scripttest.Script
	redis    *scripttest.Redis
}

// fuzzTB is a fuzz target's F, whose Helper must not be called while an input runs.
type fuzzTB struct{ testing.TB }

func (fuzzTB) Helper() {}

// fuzzedScripts are the scripts of the tables, on one server.
func fuzzedScripts(tb testing.TB, tables ...table) []fuzzed {
	redis := scripttest.Start(fuzzTB{tb})
	scripts := make([]fuzzed, len(tables))
	for i, tab := range tables {
		compiled := compile(tb, tab.script.File, tab.script.Source)
		compiled.Budget = fuzzInstructions
		scripts[i] = fuzzed{tab, compiled, redis}
	}
	return scripts
}

// begin empties the store but for a foreign key, and sets the clock.
func (z fuzzed) begin() {
	z.redis.FlushAll()
	z.redis.SetTime(epoch)
	_, _ = z.redis.Do("SET", foreign, "theirs")
}

// fuzzTime is the epoch and the step, within three years of it.
func fuzzTime(step int64) int64 {
	const threeYears = 3 * 365 * 24 * 3600 * 1_000_000
	return epoch + step%threeYears
}

// FuzzArguments calls a script with any arguments: twice at the same time on a store that begins empty, and once more
// when the clock has stepped.
func FuzzArguments(f *testing.F) {
	scripts := fuzzedScripts(f, tables...)
	for i, z := range scripts {
		for _, seed := range z.argumentSeeds() {
			f.Add(uint8(i), seed.more, int64(10_000_000), []byte(strings.Join(seed.args, separator)))
		}
		f.Add(uint8(i), uint8(1), int64(-1), []byte(strings.Join(z.valid(1), separator)))
	}
	f.Fuzz(func(t *testing.T, script, keys uint8, step int64, arguments []byte) {
		z := scripts[int(script)%len(scripts)]
		for _, failure := range z.arguments(keys, step, arguments) {
			t.Error(failure)
		}
	})
}

// An argumentSeed is the arguments of a call, for so many keys more than the script has.
type argumentSeed struct {
	more uint8
	args []string
}

// argumentSeeds are the calls of the script's timelines, and valid ones with one malformed argument.
func (z fuzzed) argumentSeeds() (seeds []argumentSeed) {
	for _, tl := range z.timelines {
		for _, l := range tl.lines {
			if tab, do := z.called(l.do); tab.script == z.script && !strings.HasPrefix(do, "!") {
				seeds = append(seeds, argumentSeed{uint8(len(tab.keys) - len(z.keys)), tab.arguments(do)})
			}
		}
	}
	for i, field := range z.fields(1) {
		for _, bad := range malformedValues(field) {
			args := z.valid(1)
			args[i] = bad
			seeds = append(seeds, argumentSeed{args: args})
		}
	}
	return seeds
}

func (z fuzzed) arguments(keys uint8, step int64, arguments []byte) (failures []string) {
	z.begin()
	var args []string
	if len(arguments) > 0 {
		args = strings.Split(string(arguments), separator)
	}
	named := z.keysFor(keys, args)
	refused := z.refusal(len(named), args)
	budget := allowance{fuzzed: z, keys: len(named), args: args}
	for _, now := range []int64{epoch, epoch, fuzzTime(step)} {
		z.redis.SetTime(now)
		reply, failed, broken := z.call(named, args, now)
		failures = append(failures, broken...)
		switch {
		case failed != refused && refused != "":
			failures = append(failures, fmt.Sprintf("%q: got %q, want %q", args, failed, refused))
		case failed != "" && refused == "" && !z.contradicts(len(named), now, args):
			failures = append(failures, fmt.Sprintf("%q: %s, of valid arguments and a state of the script's own", args, failed))
		case failed == "" && refused == "" && z.contradicts(len(named), now, args):
			failures = append(failures, fmt.Sprintf("%q: %v, of arguments that contradict each other", args, reply))
		}
		if failed == "" && broken == nil && step >= 0 {
			failures = append(failures, budget.add(reply)...)
		}
	}
	return failures
}

// keysFor are keys for a call: mostly as many as it must have. more says how many subjects, or keys more.
func (z fuzzed) keysFor(more uint8, args []string) []string {
	if z.script.KeyGroup != nil {
		z.keys = slices.Repeat(z.keys, (1+int(more))%5)
	}
	named := z.keysOf(args)
	if z.script.KeyGroup == nil {
		for i := range more % 5 {
			named = append(named[:len(named):len(named)], fmt.Sprint("t:x:{u}:more", i))
		}
	}
	return named
}

// refusal is the error that a call must get by the header alone, "" if none.
func (z fuzzed) refusal(keys int, args []string) string {
	windows, others, least := 0, len(z.keys), len(z.fields(0))
	if group := z.script.Group; group != nil {
		windows, others = (len(args)-least)/(len(z.fields(1))-least), len(z.keys)-1
		if z.script.KeyGroup == nil {
			windows = keys - others
		}
	}
	fits := keys == windows+others && (z.script.Group == nil || windows >= z.script.Group.Min && windows <= z.script.Group.Max)
	if group := z.script.KeyGroup; group != nil {
		fits = keys >= group.Min && keys <= group.Max
	}
	if !fits {
		return model.WantedKeys(z.script)
	}
	if group := z.script.Group; group != nil && (windows < group.Min || windows > group.Max) {
		return model.WantedArgs(z.script)
	}
	fields := z.fields(windows)
	if len(args) != len(fields) {
		return model.WantedArgs(z.script)
	}
	if z.script.KeyGroup != nil && windows > 0 && keys%windows > 0 {
		return "BADARG KEYS: want one for each window of each subject"
	}
	for i, field := range fields {
		missing := field.Type == "str" && args[i] == "" && (field.Min > 0 || z.named(args, "permits") > 0)
		if missing || !accepts(field, args[i]) {
			return fmt.Sprintf("BADARG %s: want %s", field.Name, model.Wanted(field))
		}
	}
	return ""
}

func accepts(field sluice.Field, arg string) bool {
	if field.Type == "str" {
		return model.TextFits(field, arg)
	}
	if len(arg) == 0 || len(arg) > 16 || strings.Trim(arg, "0123456789") != "" {
		return false
	}
	n, _ := strconv.ParseInt(arg, 10, 64)
	return field.Min <= n && n <= field.Max
}

// named is an argument of valid ones, by its name; 0 if the script has none.
func (z fuzzed) named(args []string, name string) int64 {
	at := slices.IndexFunc(z.script.Args, func(field sluice.Field) bool { return field.Name == name })
	if at < 0 {
		return 0
	}
	n, _ := strconv.ParseInt(args[at], 10, 64)
	return n
}

// algorithm is the script's name, of a script for many keys that of the script for one.
func (z fuzzed) algorithm() string { return strings.TrimSuffix(z.script.Name, "_many") }

// contradicts tells whether valid arguments may not be together, or not at this time.
func (z fuzzed) contradicts(keys int, now int64, args []string) bool {
	switch z.algorithm() {
	case "token_bucket_set", "list_log_return", "zset_log_return", "slice_ring_return", "budget_settle", "quota_return":
		return false
	case "quota":
		first, second := z.named(args, "first"), z.named(args, "second")
		third, after := z.named(args, "third"), z.named(args, "after")
		if first >= second || second >= third || third >= after || now < first || now >= after {
			return true
		}
	case "list_log":
		if z.script.KeyGroup != nil && int64(keys)*z.named(args, "permits") > 1000 {
			return true
		}
	case "gcra":
		depth := new(big.Int).Mul(big.NewInt(z.named(args, "burst")), big.NewInt(z.named(args, "window")))
		most := new(big.Int).Lsh(big.NewInt(z.named(args, "limit")), 52)
		return depth.Cmp(most) > 0 || z.named(args, "permits") > z.most(args)
	}
	return z.named(args, "permits") > z.most(args)
}

// most is what valid arguments allow at once.
func (z fuzzed) most(args []string) int64 {
	switch z.algorithm() {
	case "gcra":
		return z.named(args, "burst")
	case "token_bucket", "token_bucket_set":
		return z.named(args, "rate")
	case "slice_ring", "budget":
		least := int64(1_000_000_000)
		for i := len(z.fields(1)) - 1; i < len(args); i += 3 {
			limit, _ := strconv.ParseInt(args[i], 10, 64)
			least = min(least, limit)
		}
		return least
	}
	return z.named(args, "limit")
}

// call makes one call and checks what every script promises.
func (z fuzzed) call(keys, args []string, now int64) (reply []int64, failed string, broken []string) {
	fail := func(format string, values ...any) {
		broken = append(broken, fmt.Sprintf("%s %q at %d: ", z.script.Name, args, now)+fmt.Sprintf(format, values...))
	}
	run := z.compiled.Run
	i, look := lookArg(z.script)
	if !reports(z.script, args) && decides(z.script) && i < len(args) &&
		(args[i] == look || look == "0" && strings.Trim(args[i], "0") == "") {
		run = z.compiled.RunRO
	}
	before := z.redis.Snapshot()
	result := run(z.redis, keys, args)
	after := z.redis.Snapshot()
	if result.Err != nil {
		if !z.declared(result.Err) {
			fail("%v, which the header does not declare", result.Err)
		}
		if after != before {
			fail("%v, and changed the store from %s to %s", result.Err, before, after)
		}
		return nil, result.Err.Error(), broken
	}
	reply, ok := z.numbers(result.Reply, len(keys), args, now)
	if !ok {
		fail("reply %v, want one in the ranges of the header", result.Reply)
	}
	if charged(z.script, keys, args, result) == 0 && after != before {
		fail("granted nothing, and changed the store from %s to %s", before, after)
	}
	for _, lost := range z.otherKeys(keys, before, after) {
		fail("%s", lost)
	}
	return reply, "", broken
}

// declared tells whether an error is a reply that the header lists.
func (z fuzzed) declared(err error) bool {
	text, isReply := err.(scripttest.ErrorReply)
	code, _, _ := strings.Cut(string(text), " ")
	return isReply && !strings.Contains(string(text), "user_script") &&
		slices.ContainsFunc(z.script.Errors, func(e sluice.ErrorReply) bool { return e.Code == code })
}

// numbers are the reply's, if there are as many as the header says, each in its range, and those that a decision must
// keep to are kept to.
func (z fuzzed) numbers(reply any, keys int, args []string, now int64) (numbers []int64, ok bool) {
	fields, ok := reply.([]any)
	want := len(z.script.Reply)
	if z.script.Group != nil && z.script.Reply[want-1].Repeated {
		windows := (len(args) - len(z.fields(0))) / (len(z.fields(1)) - len(z.fields(0)))
		want += windows - 1
	}
	subjects := subjectsOf(z.script, keys, len(fields))
	want += (subjects - 1) * (want - 1)
	ok = ok && len(fields) == want
	for i, field := range fields {
		n, isNumber := field.(int64)
		of := z.field(i, (want-1)/subjects)
		ok = ok && isNumber && n >= of.Min && (of.Max < 0 || n <= of.Max) && (of.Name != "now" || n == now)
		numbers = append(numbers, n)
	}
	if !ok || !decides(z.script) {
		return numbers, ok
	}
	if z.script.Name == "concurrency" {
		look, taken := args[3] == "", numbers[0] == 1
		waits := !look && args[2] == "0" // a renewal may be denied while slots are free
		return numbers, taken && !look && numbers[2] == 0 || !taken && (!waits || numbers[2] > 0 && numbers[1] == 0)
	}
	for one := range oneByOne(z.script, keys, numbers) {
		ok = ok && (z.decided(one, args) || z.script.KeyGroup != nil && one[0] < 0)
	}
	return numbers, ok
}

// decided tells whether a decision keeps to what it must.
func (z fuzzed) decided(numbers []int64, args []string) bool {
	asked := z.named(args, "permits")
	waits := int64(0)
	switch {
	case z.script.Name == "zset_log":
		waits = numbers[2] // asked again by its id, it waits for what was booked, also when the clock has stepped back
	case z.script.Group == nil:
		waits = z.named(args, "max_wait")
	}
	return numbers[0] == 0 && (asked == 0 || numbers[2] > 0) || numbers[0] == asked && numbers[2] <= waits
}

// otherKeys tells what changed in a store beside the keys of the script, and what it left without a TTL.
func (z fuzzed) otherKeys(keys []string, before, after string) (failures []string) {
	if !strings.Contains(after, fmt.Sprintf("0 %q string \"theirs\"\n", foreign)) {
		failures = append(failures, "the foreign key is lost or changed: "+after)
	}
	for row := range strings.Lines(after) {
		ours := slices.ContainsFunc(keys,
			func(key string) bool { return strings.HasPrefix(row, fmt.Sprintf("0 %q ", key)) })
		if !ours && !strings.HasPrefix(row, fmt.Sprintf("0 %q ", foreign)) {
			failures = append(failures, "a key that is not the script's: "+row)
		}
		if ours && !strings.Contains(before, row) && !strings.Contains(row,
			" expires ") && z.script.Name != "token_bucket_set" {
			failures = append(failures, "written without a TTL: "+row)
		}
	}
	return failures
}

// An act is permits that were granted for a time, in microseconds.
type act struct{ at, permits int64 }

// An allowance sums up what was granted, by the times it was granted for.
type allowance struct {
	fuzzed
	keys int
	args []string
	acts []act
}

// add says whether more than the limit is granted for one time, or within a window of a log.
func (a *allowance) add(reply []int64) (failures []string) {
	for one := range oneByOne(a.script, a.keys, reply) {
		failures = append(failures, a.addOne(one)...)
	}
	return failures
}

func (a *allowance) addOne(reply []int64) []string {
	ids := []string{"zset_log", "budget", "concurrency"} // ask again without being charged
	if !decides(a.script) || reply[0] <= 0 || slices.Contains(ids, a.script.Name) {
		return nil // an id is charged once, whenever it asks
	}
	a.acts = append(a.acts, act{reply[4] + reply[2], reply[0]})
	window, most := int64(1), a.most(a.args)
	switch a.algorithm() {
	case "list_log":
		window = a.named(a.args, "window")
	case "token_bucket":
		window, most = reply[6], reply[5]
	}
	held := int64(0)
	for _, other := range a.acts {
		if latest := a.acts[len(a.acts)-1].at; other.at > latest-window {
			held += other.permits
		}
	}
	if held > most {
		return []string{fmt.Sprintf("%s %q: %d permits within %d us, want at most %d", a.script.Name, a.args, held, window,
			most)}
	}
	return nil
}

// FuzzStored puts any value under a key of a script, and calls it four times at the same time, a step from the epoch,
// and once more after some seconds. which chooses the key, kind the value's type, choice the arguments and the seconds.
func FuzzStored(f *testing.F) {
	scripts := fuzzedScripts(f, tables...)
	for i, z := range scripts {
		seeds := z.storedSeeds()
		for _, seed := range slices.Sorted(maps.Keys(seeds)) {
			s := seeds[seed]
			f.Add(uint8(i), s.which, s.kind, uint8(1), s.step, []byte(seed))
			f.Add(uint8(i), s.which, s.kind, uint8(6|5<<4), s.step+9_500_000, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, script, which, kind, choice uint8, step int64, value []byte) {
		z := scripts[int(script)%len(scripts)]
		for _, failure := range z.stored(which, kind, choice, step, value) {
			t.Error(failure)
		}
	})
}

// kinds are the types of stored values: how they are written and read.
var kinds = []struct{ name, write, read string }{
	{"string", "SET", "GET"}, {"list", "RPUSH", "LRANGE"}, {"zset", "ZADD", "ZRANGE"}, {"hash", "HSET",
		"HGETALL"}, {"set", "SADD", "SMEMBERS"},
}

// A storedSeed says of a value under which key, of which kind and when it was there.
type storedSeed struct {
	which, kind uint8
	step        int64
}

// storedSeeds are the values that the script's timelines leave, and some that are damaged.
func (z fuzzed) storedSeeds() map[string]storedSeed {
	seeds := map[string]storedSeed{}
	for kind, value := range []string{"", "x", "x\xff1", "rate\xff1", "y"} {
		for which := range z.storedKeys() {
			seeds[value+strings.Repeat(separator, which)] = storedSeed{uint8(which), uint8(kind), 0}
		}
	}
	if strings.Contains(z.script.State, "sr/1") { // more than was ever charged
		seeds[packed("ring:"+absolute("@0s")+":281474976710655:0:0:0:0")] = storedSeed{}
		seeds[packed("charge:"+absolute("@0s")+":2147483647:1s:3")] = storedSeed{which: 1}
		seeds[packed("settled:"+absolute("@0s")+":2147483647")] = storedSeed{which: 1}
	}
	for _, tl := range z.timelines {
		z.begin()
		for _, l := range tl.lines {
			z.take(l)
			for which := range z.storedKeys() {
				z.addSeed(seeds, which)
			}
		}
	}
	return seeds
}

// storedKeys are those of a call with the chosen arguments.
func (z fuzzed) storedKeys() []string { return z.keysOf(z.chosen(1)) }

// take takes one step of a timeline.
func (z fuzzed) take(l line) {
	if l.at != "" {
		z.redis.SetTime(epoch + microseconds(l.at))
	}
	command, ok := strings.CutPrefix(l.do, "!")
	if tab, do := z.called(l.do); !ok {
		script := z.compiled
		if tab.script != z.script {
			script, _ = scripttest.Compile(tab.script.File, tab.script.Source)
		}
		args := tab.arguments(do)
		script.Run(z.redis, tab.keysOf(args), args)
		return
	}
	_, _ = z.redis.Do(anys(z.commandWords(command))...)
}

func (z fuzzed) addSeed(seeds map[string]storedSeed, which int) {
	key := z.storedKeys()[which]
	name, _ := z.redis.Do("TYPE", key)
	for kind, k := range kinds {
		if fmt.Sprint(name) != k.name {
			continue
		}
		read := []any{k.read, key}
		switch k.name {
		case "list":
			read = append(read, 0, -1)
		case "zset":
			read = append(read, 0, -1, "WITHSCORES")
		}
		reply, _ := z.redis.Do(read...)
		elements, isArray := reply.([]any)
		if !isArray {
			elements = []any{reply}
		}
		words := make([]string, len(elements))
		for i, element := range elements {
			words[i] = fmt.Sprint(element)
		}
		if seed := strings.Join(words, separator); len(seed) < 1000 {
			seeds[seed] = storedSeed{uint8(which), uint8(kind), z.redis.Now() - epoch}
		}
	}
}

func (z fuzzed) stored(which, kind, choice uint8, step int64, value []byte) (failures []string) {
	z.begin()
	keys := z.storedKeys()
	key := keys[int(which)%len(keys)]
	z.store(key, kinds[int(kind)%len(kinds)].write, value)
	_, _ = z.redis.Do("PEXPIRE", key, 600_000)
	args := z.chosen(choice)
	budget := allowance{fuzzed: z, keys: len(keys), args: args}
	now := fuzzTime(step)
	z.redis.SetTime(now)
	for range 4 {
		reply, failed, broken := z.call(keys, args, now)
		failures = append(failures, broken...)
		if failed == "" && broken == nil {
			failures = append(failures, budget.add(reply)...)
		}
	}
	now += int64(choice>>4) * 1_000_000
	z.redis.SetTime(now)
	_, _, broken := z.call(keys, args, now)
	return append(failures, broken...)
}

// store writes a value: a string whole, of the other kinds what the separator separates, in pairs where it takes pairs.
// A sorted set's come member first; what is no score is 0.
func (z fuzzed) store(key, write string, value []byte) {
	if write == "SET" {
		_, _ = z.redis.Do("SET", key, value)
		return
	}
	elements := bytes.Split(value, []byte(separator))
	words := []any{write, key}
	for i := range elements {
		switch {
		case write == "RPUSH" || write == "SADD":
			words = append(words, elements[i])
		case i%2 == 0:
			continue
		case write == "HSET":
			words = append(words, elements[i-1], elements[i])
		default:
			score, err := strconv.ParseFloat(string(elements[i]), 64)
			if err != nil || score != score {
				score = 0
			}
			words = append(words, score, elements[i-1])
		}
	}
	if len(words) > 2 {
		_, _ = z.redis.Do(words...)
	}
}

// chosen are arguments of 3 in 10 s: up to three permits, of which none only looks, booking or not, and where
// there are ids one of two.
func (z fuzzed) chosen(choice uint8) []string {
	permits, maxWait, id := strconv.Itoa(int(choice%4)), "0", "b"
	if choice&4 != 0 {
		maxWait = "60000000"
	}
	if choice&8 != 0 {
		id = "a"
	}
	switch z.algorithm() {
	case "gcra":
		return []string{"3", "10000000", "3", permits, maxWait}
	case "token_bucket":
		return []string{"3", "10000000", strconv.Itoa(int(choice >> 3 & 1)), permits, maxWait}
	case "token_bucket_set":
		return []string{"3", "10000000", "0"}
	case "slice_ring_return":
		return []string{strconv.Itoa(epoch + int(choice>>2&3)*1_000_000), permits, "1000000", "3"}
	case "list_log_return":
		return []string{strconv.Itoa(epoch + int(choice>>2&3)*1_000_000), permits}
	case "zset_log_return":
		return []string{[]string{"a", "b"}[choice>>3&1], permits}
	case "quota":
		return append([]string{"3", permits, []string{"0", "0", "0", "2"}[choice>>2&3]},
			decimals(epoch-10_000_000, epoch, epoch+2_000_000, 1<<53-1)...)
	case "quota_return":
		return []string{strconv.Itoa(epoch + int(choice>>2&1)*2_000_000), permits}
	case "slice_ring":
		return []string{permits, []string{"0", "0", "0", "2"}[choice>>2&3], "1000000", "3", "3"}
	case "concurrency":
		switch {
		case permits == "0":
			id = ""
		case id == "b":
			id = "stranger"
		}
		return []string{"3", "10000000", strconv.Itoa(int(choice >> 2 & 1)), id}
	case "concurrency_release":
		return []string{id}
	case "budget":
		return []string{"10000000", permits, "1000000", "3", "3"}
	case "budget_settle":
		return []string{"10000000", strconv.Itoa(int(choice & 7)), strconv.Itoa(int(choice & 1)), "1000000", "3"}
	case "zset_log":
		return []string{"3", "10000000", permits, maxWait, id}
	case "list_log":
		return []string{"3", "10000000", permits, maxWait}
	}
	panic("no arguments for " + z.script.File + ": add it to chosen (fuzz_test.go)")
}

// Copies of scripts that are broken in what the fuzz targets are for fail on a seed already.
func TestFuzzCatches(t *testing.T) {
	for _, c := range []struct {
		table                 table
		fault, old, new, says string
	}{
		{listLogV1, "digits and more are a number", `"^%d+$"`, `"^%d+"`, "want \"BADARG limit"},
		{listLogV1, "a hang", "last, step = last + step, step * 2", "last, step = last, step", "is still running"},
		{listLogV1, "a foreign key", `local kept =`, `redis.call("DEL", "` + foreign + `") local kept =`, "the foreign key"},
		{listLogV1, "a key that is not the script's", `local kept =`, `redis.call("SET", "other", 1) local kept =`,
			"a key that is not the script's"},
		{listLogV1, "a key of another type raises an error", `redis.pcall("LINDEX"`, `redis.call("LINDEX"`,
			"which the header does not declare"},
		{zsetLogV1, "no TTL", `redis.pcall("PEXPIREAT", log, string.format("%d%03d", (expires - ms) / 1000, ms))`, "1",
			"without a TTL"},
		{tokenBucketV1, "reads an entry of any length", "if #entry == 20 then", "if true then",
			"which the header does not declare"},
		{listLogManyV1, "more keys than it answers for", "for k = 1, #KEYS do", "for k = 2, #KEYS do",
			"in the ranges of the header"},
		{gcraV1, "a denial that writes", "if granted > 0 then\n  if before", "if permits > 0 then\n  if before",
			"granted nothing, and changed the store"},
		{gcraV1, "drops what it cannot read", `    return redis.error_reply("BADSTATE`,
			`    redis.call("DEL", bucket) return redis.error_reply("BADSTATE`, "and changed the store"},
		{gcraV1, "a burst of one more", "local wait = after - depth", "local wait = after - depth - interval",
			"want at most"},
		{gcraV1, "no check of what may not be together", "if depth > max_depth", "if depth > 2 * max_depth",
			"contradict each other"},
		{sliceRingV1, "a reply below its range", "math.max(remaining, 0)", "math.max(remaining, 0) - 1",
			"in the ranges of the header"},
	} {
		t.Run(c.table.script.Name+"/"+c.fault, func(t *testing.T) {
			c.table.script = edited(t, c.table.script, c.old, c.new)
			z := fuzzedScripts(t, c.table)[0]
			var failures []string
			for failure := range z.playSeeds() {
				if strings.Contains(failure, c.says) {
					return
				}
				failures = append(failures, failure)
			}
			t.Errorf("no seed says %q, but %.200q", c.says, failures)
		})
	}
}

// playSeeds gives both fuzz targets' functions the script's seeds, and yields what fails.
func (z fuzzed) playSeeds() iter.Seq[string] {
	return func(yield func(string) bool) {
		tell := func(failures []string) bool {
			return !slices.ContainsFunc(failures, func(failure string) bool { return !yield(failure) })
		}
		if !tell(z.arguments(1, 0, []byte(strings.Join(z.valid(1), separator)))) {
			return
		}
		for _, seed := range z.argumentSeeds() {
			if !tell(z.arguments(seed.more, 10_000_000, []byte(strings.Join(seed.args, separator)))) {
				return
			}
		}
		for seed, s := range z.storedSeeds() {
			if !tell(z.stored(s.which, s.kind, 1, s.step, []byte(seed))) ||
				!tell(z.stored(s.which, s.kind, 6, s.step+9_500_000, []byte(seed))) {
				return
			}
		}
	}
}
