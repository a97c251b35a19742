package scripttest_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/layout"
)

// epoch is when the timelines begin: 2100-01-01 in microseconds, so that no TTL that a script sets on them fires on a
// server whose clock is ours.
const epoch = 4102444800000000

// A line is one step of a timeline. do is a call's arguments, where @1s is the epoch + 1 s; behind the name of another
// script, those of that one; behind #b, those of a call whose last key ends in b; behind $2 $1, with these keys. Or it
// is "!" and a command, in which $1 is KEYS[1], $1/1sx3 a ring of 3 slices of 1 s, ~ a space, and bucket:.. and entry:..
// are stored values (see layouts).
type line struct {
	at   string // since the epoch, "1.5s" or "-1h"; "" is when the line before was
	do   string
	want string // the reply without now, or the error; of a command its reply, "" if it does not matter
}

type timeline struct {
	name  string
	lines []line
}

// A table is what a script must answer.
type table struct {
	script    *sluice.Script
	keys      []string // of rings the subject: see keysOf
	timelines []timeline
	more      []string // keys of other subjects, for a script that decides about many
	repeated  int      // how many timelines, the first ones, are those of the script for one key
}

// lookArg is the argument that makes a call a look, and its value then; -1 if no call of the script is one.
func lookArg(script *sluice.Script) (i int, look string) {
	name := "permits"
	if script.Name == "concurrency" {
		name = "id"
	} else {
		look = "0"
	}
	return slices.IndexFunc(script.Args, func(arg sluice.Field) bool { return arg.Name == name }), look
}

// A target is something that runs scripts: the harness, miniredis, a real server.
type target interface {
	setTime(us int64)
	// call returns the reply, or the error as the server words it.
	call(script *sluice.Script, look bool, keys, args []string) ([]int64, string)
	do(args ...string) string
}

// run plays every timeline on a target; each gets a target of its own from start.
func (tab table) run(t *testing.T, start func(t *testing.T) target) {
	for _, tl := range tab.timelines {
		t.Run(tl.name, func(t *testing.T) {
			for _, failure := range tab.play(start(t), tl) {
				t.Error(failure)
			}
		})
	}
}

// play runs one timeline and returns what was not as the lines want it.
func (tab table) play(on target, tl timeline) (failures []string) {
	now := int64(epoch)
	for i, l := range tl.lines {
		if l.at != "" {
			now = epoch + microseconds(l.at)
		}
		on.setTime(now)
		if got, ok := tab.step(on, l, now); !ok {
			failures = append(failures, fmt.Sprintf("line %d, at %s: %s\n got  %s\n want %s", i+1, l.at, l.do, got, l.want))
		}
	}
	return failures
}

func (tab table) step(on target, l line, now int64) (got string, ok bool) {
	if command, isCommand := strings.CutPrefix(l.do, "!"); isCommand {
		got = relative(on.do(tab.commandWords(command)...))
		want := l.want
		if kind, _, ok := strings.Cut(want, ":"); ok && layouts[kind] != nil {
			want = tab.commandWords(want)[0]
		}
		return got, want == "" || got == want
	}
	tab, do := tab.called(l.do)
	args := tab.arguments(do)
	reply, failed := on.call(tab.script, looks(tab.script, args), tab.keysOf(args), args)
	if failed != "" {
		return failed, failed == l.want
	}
	return tab.compare(reply, l.want, now)
}

// called is the table of the script that a line calls, on the keys of this one or those that it names, and its
// arguments.
func (tab table) called(do string) (table, string) {
	all := slices.Concat(tab.keys, tab.more)
	for named := tab.keys[:0:0]; strings.HasPrefix(do, "$"); tab.keys = named {
		at, rest, _ := strings.Cut(do[1:], " ")
		n, _ := strconv.Atoi(at)
		named, do = append(named, all[n-1]), rest
	}
	name, args, _ := strings.Cut(do, " ")
	for _, other := range tables {
		if other.script.Name == name {
			other.keys = tab.keys
			if other.script.KeyGroup == nil {
				other.keys = tab.keys[:min(len(tab.keys), len(other.script.Keys))]
			}
			tab, do = other, args
		}
	}
	if id, args, _ := strings.Cut(do, " "); strings.HasPrefix(id, "#") {
		last := len(tab.keys) - 1
		tab.keys = append(tab.keys[:last:last], tab.keys[last]+id[1:])
		return tab, args
	}
	return tab, do
}

// arguments are the words of a line; those of type us may be written as durations.
func (tab table) arguments(do string) []string {
	words := strings.Fields(timesWritten.ReplaceAllStringFunc(do, absolute))
	once, fields := len(tab.fields(0)), tab.fields(1)
	for i, word := range words {
		if word == `""` {
			words[i] = ""
		} else if at := min(i, once+(i-once)%max(len(fields)-once, 1)); fields[at].Type == "us" {
			words[i] = inMicroseconds(word)
		}
	}
	return words
}

func (tab table) commandWords(command string) []string {
	words := strings.Fields(command)
	for i, word := range words {
		word = ringsWritten.ReplaceAllStringFunc(word, tab.ringKey)
		for k, key := range slices.Concat(tab.keys, tab.more) {
			word = strings.ReplaceAll(word, "$"+strconv.Itoa(k+1), key)
		}
		word = strings.ReplaceAll(strings.ReplaceAll(word, `""`, ""), "~", " ")
		words[i] = timesWritten.ReplaceAllStringFunc(word, absolute)
		words[i] = packed(words[i])
	}
	return words
}

// absolute is the time @1s in microseconds since 1970.
func absolute(at string) string { return strconv.FormatInt(epoch+microseconds(at[1:]), 10) }

// layouts make the bytes of stored values that a timeline writes as numbers: bucket:tat:numerator:limit:written:widest,
// entry:at:before:permits, ring:at:total:oldest:cell:cell.., charge:at:permits:slice:size.. with the windows charged, and
// settled:at:permits.
var layouts = map[string]func(fields ...uint64) string{
	"bucket":  layout.GCRA,
	"entry":   func(f ...uint64) string { return layout.TokenBucketEntry(f[0], f[1], f[2]) },
	"ring":    func(f ...uint64) string { return inWidths(f, 7, 6, 6, 6) },
	"charge":  func(f ...uint64) string { return inWidths(append([]uint64{f[0], 2 * f[1]}, f[2:]...), 7, 4, 5, 2) },
	"settled": func(f ...uint64) string { return inWidths([]uint64{f[0], 2*f[1] + 1}, 7, 4) },
}

// inWidths are big-endian integers of so many bytes; the last two widths take turns.
func inWidths(numbers []uint64, widths ...int) (bytes string) {
	for i, n := range numbers {
		for i >= len(widths) {
			i -= 2
		}
		bytes += layout.Integer(widths[i], n)
	}
	return bytes
}

// packed is a word of a command, as bytes if it is a stored value in numbers.
func packed(word string) string {
	if kind, fields, ok := strings.Cut(word, ":"); ok && layouts[kind] != nil {
		return layouts[kind](unsigned(fields)...)
	}
	return word
}

// unsigned are the numbers between colons; lengths of time may be written as durations.
func unsigned(fields string) []uint64 {
	words := strings.Split(fields, ":")
	numbers := make([]uint64, len(words))
	for i, word := range words {
		n, err := strconv.ParseUint(inMicroseconds(word), 10, 64)
		if err != nil {
			panic(err)
		}
		numbers[i] = n
	}
	return numbers
}

// compare compares a reply with the wanted words. now is not among them: it must be the clock.
func (tab table) compare(reply []int64, want string, now int64) (got string, ok bool) {
	var words []string
	wanted := strings.Fields(want)
	ok = true
	for i, n := range reply {
		field := tab.field(i, (len(reply)-1)/len(tab.keys))
		if field.Name == "now" {
			ok = ok && n == now
			continue
		}
		word := strconv.FormatInt(n, 10)
		at := len(words)
		if at < len(wanted) && field.Type == "us" && inMicroseconds(wanted[at]) == word {
			word = wanted[at]
		}
		if at < len(wanted) && timesWritten.ReplaceAllStringFunc(wanted[at], absolute) == word {
			word = wanted[at]
		}
		ok = ok && at < len(wanted) && wanted[at] == word
		words = append(words, word)
	}
	return strings.Join(words, " "), ok && len(words) == len(wanted)
}

// field is the reply's i-th; the last one of a group stands for all that follow, and those of many keys come in turn,
// so many for each.
func (tab table) field(i, each int) sluice.Field {
	if tab.script.KeyGroup != nil && i > each {
		i = 1 + (i-1)%each
	}
	return tab.script.Reply[min(i, len(tab.script.Reply)-1)]
}

func inMicroseconds(word string) string {
	d, err := time.ParseDuration(word)
	if err != nil {
		return word
	}
	return strconv.FormatInt(d.Microseconds(), 10)
}

func microseconds(at string) int64 {
	d, err := time.ParseDuration(at)
	if err != nil {
		panic(err)
	}
	return d.Microseconds()
}

var (
	timesWritten = regexp.MustCompile(`@-?([0-9.]+(h|ms|us|m|s))+`)
	sixteenDigit = regexp.MustCompile(`\d{16}`)
	roundScore   = regexp.MustCompile(`\d\.\d+e\+15`)
)

// relative rewrites the times in a rendered reply as @ and the time since the epoch, also those that miniredis and
// later versions of Redis print with an exponent.
func relative(rendered string) string {
	rendered = roundScore.ReplaceAllStringFunc(rendered, func(score string) string {
		us, _ := strconv.ParseFloat(score, 64)
		return strconv.FormatInt(int64(us), 10)
	})
	return sixteenDigit.ReplaceAllStringFunc(rendered, func(digits string) string {
		us, _ := strconv.ParseInt(digits, 10, 64)
		return "@" + (time.Duration(us-epoch) * time.Microsecond).String()
	})
}

// rendered is a reply as one line of text.
func rendered(reply any) string {
	switch r := reply.(type) {
	case nil:
		return "nil"
	case error:
		return r.Error()
	case []any:
		words := make([]string, len(r))
		for i, element := range r {
			words[i] = rendered(element)
		}
		return "[" + strings.Join(words, " ") + "]"
	case []byte:
		return string(r)
	default:
		return fmt.Sprint(r)
	}
}
