package scripttest_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/layout"
	"github.com/sluice-redis/sluice/internal/proof/model"
)

// A machine is what sequences are played on.
type machine interface {
	target
	// reset empties it, and says whether it is to expire keys.
	reset(expire bool)
	// expired is told which keys are over by the model, after the clock was moved.
	expired(keys []string)
	// flush loses the scripts.
	flush()
	// differs is what it holds, if that is not the store of the model; else "".
	differs(store model.Store, keys []string) string
}

// player plays one sequence on a machine and on the model, and compares them after every step.
type player struct {
	subject subject
	on      machine
	expire  bool
	store   model.Store
	start   int64
	now     int64
	kinds   map[string]int // of steps, with how many there were

	// What edges of the clock are found by.
	replied, granted, newest, span int64
	wait, reset                    int64
	grants                         []int64 // the last times that permits were granted for

	calls  int      // so far, for ids
	ids    []string // the keys of ids that budgets have used
	rings  []string // the keys of rings that were named
	played []string // so far, as lines of a timeline
	failed string   // how the last of them was wrong
}

// play counts the steps it makes by their kinds, and returns the timeline up to where machine and model disagreed, or
// "".
func (s subject) play(on machine, seq sequence, kinds map[string]int) (failed string) {
	on.reset(seq.expire)
	p := &player{
		subject: s, on: on, expire: seq.expire, store: model.Store{}, kinds: kinds,
		start: seq.start, now: seq.start, replied: seq.start, granted: seq.start, newest: seq.start,
	}
	on.setTime(seq.start)
	for _, st := range seq.steps {
		c := seq.configs[st.config]
		p.span = max(p.span, s.span(c))
		for range st.often() {
			p.move(st, s.span(c))
			p.act(st, c)
			if p.failed != "" {
				return p.failure()
			}
		}
	}
	return ""
}

// often is how often a step is made: calls may come in groups.
func (st step) often() int {
	if st.do != "call" {
		return 1
	}
	return st.times
}

// yearsAway is how far the clock may get from where it started.
const yearsAway = 10

const year = int64(365 * 24 * time.Hour / time.Microsecond)

// move moves the clock as the step says.
func (p *player) move(st step, span int64) {
	to := p.now
	switch st.move {
	case "on by 1us":
		to++
	case "back by 1us":
		to--
	case "on within the window":
		to += span * st.share / 1000
	case "to an edge":
		edges := p.edges(span)
		to = edges[st.pick%int64(len(edges))] + st.off
	case "on by windows":
		to += span*(1+st.pick%4) + st.off
	case "on by years":
		to += year * st.share / 300
	case "back within the window and 60s":
		to -= (span + 60_000_000) * st.share / 1000
	case "back by hours":
		to -= span + 60_000_000 + 3_600_000_000*st.share/100
	case "back by years":
		to -= year * st.share / 300
	}
	if to < max(firstClock, p.start-yearsAway*year) || to > p.start+yearsAway*year {
		return
	}
	p.now = to
	p.on.setTime(to)
	if p.expire {
		over := p.store.Expired(to)
		p.store = p.store.Without(over...)
		p.on.expired(over)
		p.kinds["expired"] += len(over)
	}
}

// edges are times around which an answer changes: when permits come free, when nothing is live, and from which on a
// clock that stepped back finds the state void.
func (p *player) edges(span int64) []int64 {
	const minute = 60_000_000
	edges := []int64{
		p.replied + p.wait,
		p.replied + p.wait,
		p.replied + p.reset,
		p.newest,
		p.newest - span - minute,
		p.newest - span - 2*minute,
		p.newest - p.span - minute,
		p.granted - span - minute,
		p.granted - span - 2*minute,
	}
	for _, at := range p.grants {
		edges = append(edges, at+span)
	}
	return edges
}

func (p *player) act(st step, c config) {
	keys := p.keys(st)
	if p.subject.dated {
		c = append(slices.Clip(c), p.now)
	}
	stored := p.named(p.subject.script, keys, p.subject.args(c, 1, 0, ""))
	switch st.do {
	case "evict one":
		p.command("DEL", stored[st.pick%int64(len(stored))])
	case "evict all":
		p.command(append([]string{"DEL"}, p.allKeys()...)...)
	case "set":
		if p.subject.script.Name == "token_bucket" {
			p.call(&tokenBucketSetV1Script, keys[:1], decimals(c...), c)
		}
	case "remove":
		p.remove(keys[0], st.pick)
	case "return":
		p.giveBack(st, keys, c)
	case "flush":
		p.on.flush()
		p.kinds["flushed"]++
	case "wrap":
		p.wrap(stored[st.pick%int64(len(stored))], st.share)
	case "damage":
		damages := p.subject.damages(p.store, stored, st.pick)
		if len(damages) > 0 {
			p.command(damages[st.pick%int64(len(damages))]...)
		}
	default:
		script := p.subject.script
		if p.subject.one != nil && st.pick%3 == 0 {
			script, keys = p.subject.one, keys[:1]
		}
		permits := amount(st, p.subject.limit(c), script)
		if p.subject.settle != nil && p.besides(st, keys, c, permits) {
			return
		}
		p.call(script, keys, p.subject.args(c, permits, st.maxWait, p.id(st)), c)
	}
}

// named are the keys of a call, where those of rings follow from its windows.
func (p *player) named(script *sluice.Script, keys, args []string) []string {
	named := table{script: script, keys: keys}.keysOf(args)
	for _, key := range named {
		if strings.Contains(key, ":sr1:") && !slices.Contains(p.rings, key) {
			p.rings = append(p.rings, key)
		}
	}
	return named
}

// wrap moves all totals of a ring, as many charges would have, so that they wrap at the next permits.
func (p *player) wrap(ring string, share int64) {
	text := p.store[ring].Text
	if !strings.Contains(ring, ":sr1:") || len(text) < 19+6 {
		return
	}
	total := binary.BigEndian.Uint64([]byte("\x00\x00" + text[7:13]))
	moved := ""
	for at := 7; at+6 <= len(text); at += 6 {
		n := binary.BigEndian.Uint64([]byte("\x00\x00" + text[at:at+6]))
		moved += layout.Integer(6, n-total-1-uint64(share%7))
	}
	p.command("SETRANGE", ring, "7", moved)
}

// keys are those of a call. A budget's last one ends in an id: a new one, or one of the last that were used.
func (p *player) keys(st step) []string {
	keys := p.subject.keys[st.caller%len(p.subject.keys)]
	if p.subject.settle == nil {
		return keys
	}
	id := keys[1] + p.id(st)
	if n := int64(len(p.ids)); st.pick%8 > 2 && n > 0 {
		id = p.ids[n-1-st.pick%min(n, 3)]
	}
	if !slices.Contains(p.ids, id) {
		p.ids = append(p.ids, id)
	}
	return []string{keys[0], id}
}

// besides makes the calls of a budget's ring that are not budget's: it settles, and others ask slice_ring. What was
// used may be five times what was estimated.
func (p *player) besides(st step, keys []string, c config, permits int64) bool {
	switch st.pick % 8 {
	case 3, 4, 5:
		used := min(permits*(1+st.share%5), largestAmount(p.subject.settle))
		ttl := idTTLs[st.share%int64(len(idTTLs))]
		p.call(p.subject.settle, keys, append(decimals(ttl, used, min(st.maxWait, 1)), withoutLimits(c)...), c)
	case 6:
		reports := reported[st.maxWait%int64(len(reported))]
		p.call(&sliceRingV1Script, keys[:1], decimals(append([]int64{permits, reports}, c...)...), c)
	default:
		return false
	}
	return true
}

func (p *player) id(st step) string {
	if st.id != fresh {
		return st.id
	}
	p.calls++
	return fresh + strconv.Itoa(p.calls)
}

func (p *player) allKeys() []string {
	var keys []string
	for _, some := range p.subject.keys {
		keys = append(keys, some...)
	}
	keys = slices.Concat(keys, p.ids, p.rings)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// amount is how many permits a step asks for.
func amount(st step, limit int64, script *sluice.Script) int64 {
	limit = min(limit, largestAmount(script))
	switch st.permits {
	case "all":
		return limit
	case "all but 1":
		return max(limit-1, 1)
	case "some":
		return 1 + (limit-1)*st.share/1000
	case "too many":
		return limit + 1
	}
	n, _ := strconv.ParseInt(st.permits, 10, 64)
	return n
}

func largestAmount(script *sluice.Script) int64 {
	for _, arg := range script.Args {
		if arg.Name == "permits" {
			return arg.Max
		}
	}
	return 0
}

// remove gives a grant of zset_log back: all members of an id.
func (p *player) remove(key string, pick int64) {
	if p.subject.script.Name != "zset_log" || len(p.store[key].ZSet) == 0 {
		return
	}
	members := p.store[key].Ranked()
	id, _, _ := strings.Cut(members[pick%int64(len(members))].Name, "|")
	names := []string{"ZREM", key}
	for _, m := range members {
		if m.Name == id || strings.HasPrefix(m.Name, id+"||") {
			names = append(names, m.Name)
		}
	}
	p.command(names...)
}

// giveBack calls the script that gives permits back.
func (p *player) giveBack(st step, keys []string, c config) {
	if p.subject.back != nil {
		p.call(p.subject.back, keys[:1], p.subject.returns(p, st, keys[0], c), c)
	}
}

// released is a holder whose slot is to be freed: mostly one that is stored.
func (p *player) released(st step, key string) string {
	members := p.store[key].Ranked()
	if n := int64(len(members)); st.off == 0 && n > 0 {
		return members[st.pick%n].Name
	}
	return p.id(st)
}

// moment is the time that permits of a list_log are given back for: the newest, or one of those that it holds, or one
// beside them or of an earlier grant.
func (p *player) moment(st step, key string) int64 {
	held, pick := p.store[key].List, st.pick/10
	if st.pick%2 == 0 && len(held) > 0 {
		held = held[len(held)-1:]
	}
	if st.pick%10 == 9 || len(held) == 0 {
		held = decimals(append(slices.Clone(p.grants), p.now+st.off)...)
	}
	n, _ := strconv.ParseInt(held[pick%int64(len(held))], 10, 64) // of a damaged one, 0
	if st.pick%10 == 7 {
		n += st.off
	}
	return min(max(n, 0), 1<<53-1)
}

// holder is the id that gives permits of a zset_log back: that of the newest, or of one of those that it holds, or any.
func (p *player) holder(st step, key string) string {
	members, pick := p.store[key].Ranked(), st.pick/10
	if len(members) == 0 || st.pick%10 == 9 {
		return cmp.Or(st.id, fresh)
	}
	if st.pick%2 == 0 {
		members = members[len(members)-1:]
	}
	id, _, _ := strings.Cut(members[pick%int64(len(members))].Name, "|")
	return id
}

// taken is the time that permits of a ring are given back for: of one of its last grants, or of a slice around now or
// where the ring ends.
func (p *player) taken(st step, c config) int64 {
	if n := int64(len(p.grants)); st.pick%4 > 0 && n > 0 {
		return p.grants[st.pick%n]
	}
	switch st.pick % 3 {
	case 0:
		return max(p.granted-p.subject.span(c), 0)
	case 1:
		return max(p.granted-p.span, 0)
	}
	return max(p.now+(st.pick%5-3)*c[0]+st.off, 0)
}

// command changes what is stored, here and there.
func (p *player) command(words ...string) {
	after, err := p.store.Do(p.now, words...)
	if err != nil {
		panic(err)
	}
	p.store = after
	p.on.do(words...)
	p.line("!", words, "")
	p.compare(words[0])
}

// call makes a call on the machine and on the model, and compares reply and state. Of rings it is told the subjects.
func (p *player) call(script *sluice.Script, subjects, args []string, c config) {
	keys := p.named(script, subjects, args)
	want := model.Call(script, p.store, p.now, keys, args)
	reply, failed := p.on.call(script, looks(script, args), keys, args)
	words := args
	if script.KeyGroup != nil {
		words = slices.Concat(subjects, args)
	}
	p.line("", words, expected(script, len(keys), want))
	switch {
	case failed != "" && (failed == want.Err || want.Or != "" && strings.HasPrefix(failed, want.Or)):
	case failed == "" && want.Any && plausible(script, len(keys), reply, args, p.now):
		// What it has made of a damaged state does not matter.
		p.on.do(append([]string{"DEL"}, keys...)...)
		p.store = p.store.Without(keys...)
	case failed == "" && want.Err == "" && !want.Any && slices.Equal(reply, want.Reply):
		p.remember(script, reply, c)
	default:
		p.failed = fmt.Sprintf("got %v %s", reply, failed)
		return
	}
	kind := kindOf(script, keys, args, reply, failed)
	if failed == "" && !want.Any {
		again := script.Name == "zset_log" || script.Name == "budget"
		if kind == "granted" && again && want.After.String() == p.store.String() {
			kind = "asked again"
		}
		p.store = want.After
	}
	p.compare(kind)
}

// kindOf is what became of a call.
func kindOf(script *sluice.Script, keys, args []string, reply []int64, failed string) string {
	switch {
	case failed != "":
		return strings.Join(strings.Fields(failed)[:2], " ")
	case returns(script) && reply[0] == 0:
		return script.Name + " of none"
	case !decides(script) && reply[0] == 0:
		return script.Name + " of nothing"
	case !decides(script):
		return script.Name
	case looks(script, args):
		return "look"
	case script.KeyGroup != nil:
		return fmt.Sprintf("%d keys", len(keys))
	case reply[0] == 0:
		return "denied"
	case reply[2] > 0:
		return "booked"
	}
	return "granted"
}

// compare compares the state with the model's.
func (p *player) compare(kind string) {
	p.kinds[kind]++
	if found := p.on.differs(p.store, p.allKeys()); found != "" {
		p.failed = fmt.Sprintf("afterwards there is\n%swant\n%s", found, p.store)
	}
}

// remember keeps what edges of the clock are found by.
func (p *player) remember(script *sluice.Script, reply []int64, c config) {
	if !decides(script) {
		return
	}
	reply = table{script: script}.first(reply)
	p.replied, p.wait, p.reset = p.now, reply[2], reply[3]
	p.newest = p.now + p.reset - p.subject.span(c)
	if reply[0] > 0 {
		p.granted = p.now
		p.grants = append(p.grants[max(len(p.grants)-7, 0):], p.now+p.wait)
	}
}

func looks(script *sluice.Script, args []string) bool {
	i, look := lookArg(script)
	return decides(script) && i < len(args) && args[i] == look && !reports(script, args)
}

// expected is the reply, without now, or the error; of a damaged state both may be.
func expected(script *sluice.Script, keys int, want model.Outcome) string {
	if want.Err != "" {
		return want.Err
	}
	words := []string{}
	each := (len(want.Reply) - 1) / subjectsOf(script, keys, len(want.Reply))
	for i, n := range want.Reply {
		if (table{script: script}).field(i, each).Name != "now" {
			words = append(words, strconv.FormatInt(n, 10))
		}
	}
	if want.Any {
		words = append(words, "anything")
	}
	if want.Or != "" {
		words = append(words, "or", want.Or)
	}
	return strings.Join(words, " ")
}

// plausible reports whether a reply keeps to the ranges.
func plausible(script *sluice.Script, keys int, reply []int64, args []string, now int64) bool {
	if !decides(script) {
		return slices.Min(reply) >= 0
	}
	i, _ := lookArg(script)
	for one := range oneByOne(script, keys, reply) {
		unread := script.KeyGroup != nil && one[0] < 0
		if len(one) < 5 || slices.Min(one[1:]) < 0 || one[4] != now ||
			!unread && one[0] != 0 && strconv.FormatInt(one[0], 10) != args[i] {
			return false
		}
	}
	return true
}

// line notes a step as a line of a timeline.
func (p *player) line(mark string, words []string, want string) {
	at := time.Duration(p.now-epoch) * time.Microsecond
	written := make([]string, len(words))
	for i, word := range words {
		if written[i] = strings.ReplaceAll(word, " ", "~"); word == "" {
			written[i] = `""`
		}
		if n := slices.Index(p.allKeys(), word); n >= 0 {
			written[i] = "$" + strconv.Itoa(n+1)
		}
		if _, window, isRing := strings.Cut(word, ":sr1:"); isRing {
			written[i] = "$1/" + strings.Replace(window, "x", "usx", 1)
		}
	}
	p.played = append(p.played, fmt.Sprintf("{%q, %q, %q},", at.String(), mark+strings.Join(written, " "), want))
}

func (p *player) failure() string {
	return fmt.Sprintf("expire %v, keys %q\n%s\n%s", p.expire, p.allKeys(), strings.Join(p.played, "\n"), p.failed)
}
