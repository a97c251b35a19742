package loader

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// Bounds on commands for many keys.
const (
	minTogether = 4           // keys: fewer save little
	manyPause   = time.Minute // without commands for many keys, after an answer that shows that they do not work here
)

// manyScript is a script for many keys, and what one call of it may ask for.
type manyScript struct {
	*sluice.Script
	permitsAt int   // index of permits in its arguments
	permits   int64 // maximum of subjects times permits; 0: none
}

// manyScripts are the scripts for many keys, by what calls the script for one: its SHA1 and its name as a function.
var manyScripts = func() map[string]manyScript {
	all := map[string]manyScript{}
	for one, many := range map[*sluice.Script]manyScript{
		&gcraV1:      {Script: &gcraManyV1},
		&listLogV1:   {Script: &listLogManyV1, permitsAt: 2, permits: 1000},
		&sliceRingV1: {Script: &sliceRingManyV1},
	} {
		all[one.SHA1], all[nameOf(one)] = many, many
	}
	return all
}()

// maxSubjects returns how many subjects, of so many keys each, one call may ask about.
func (s manyScript) maxSubjects(keys int, args []any) int {
	most := s.KeyGroup.Max / keys
	if permits, _ := args[s.permitsAt].(int64); s.permits > 0 && permits > 0 {
		most = min(most, int(s.permits/permits))
	}
	return most
}

// manyCommand asks about the keys of several commands that have the same script and arguments. go-redis writes and
// reads it in their place; each of them gets its own outcome.
//
// If a caller leaves before the command is written, it is written with 0 keys, as a single one is: nothing is decided,
// and the other callers ask again, each by itself.
type manyCommand struct {
	*redis.IntSliceCmd
	limits  *Loader
	script  manyScript
	args    []any // of the first of the commands
	members []*command

	claimOnce sync.Once
	whole     bool // set when it is written: all callers were still there
}

// NoRetry keeps go-redis from sending the command a second time.
func (m *manyCommand) NoRetry() bool { return true }

// Clone returns a copy, which go-redis does not retry either.
func (m *manyCommand) Clone() redis.Cmder {
	clone, _ := m.IntSliceCmd.Clone().(*redis.IntSliceCmd) // it is one
	return &command{IntSliceCmd: clone}
}

// setWords makes the words of the command.
func (m *manyCommand) setWords() {
	words := append(make([]any, 0, firstKey+m.keys()+len(m.args)),
		m.limits.verb(), m.limits.nameFor(m.script.Script), (*writtenMany)(m))
	for _, c := range m.members {
		words = append(words, c.Args()[firstKey:firstKey+c.keys]...)
	}
	m.IntSliceCmd = redis.NewIntSliceCmd(m.members[0].ctx, append(words, m.args...)...)
	m.SetFirstKeyPos(firstKey)
	m.SetStepCount(1)
}

// keys returns the number of keys: each subject has the same.
func (m *manyCommand) keys() int { return len(m.members) * m.members[0].keys }

// writtenMany is the number of keys of a manyCommand.
type writtenMany manyCommand

// MarshalBinary is called by go-redis when it writes the command.
func (k *writtenMany) MarshalBinary() ([]byte, error) {
	k.claimOnce.Do(func() {
		k.whole = true
		for _, c := range k.members {
			k.whole = c.startWrite() && k.whole
		}
	})
	if !k.whole {
		return digits[:1], nil
	}
	return []byte(k.String()), nil
}

// String is for hooks that log commands.
func (k *writtenMany) String() string { return strconv.Itoa((*manyCommand)(k).keys()) }

// SetErr is called by go-redis, with nil when the reply has been read. It gives each command its outcome.
func (m *manyCommand) SetErr(err error) {
	m.IntSliceCmd.SetErr(err)
	if err != nil {
		m.fail(m.meaning(err))
		return
	}
	reply := m.Val()
	each := (len(reply) - 1) / len(m.members)
	switch {
	case reply == nil: // not read yet
	case len(reply) != 1+each*len(m.members) || each < len(m.script.Reply)-1:
		m.fail(errShortReply)
	default:
		for i, c := range m.members {
			c.answer(reply[0], reply[1+i*each:1+(i+1)*each])
		}
	}
}

// answer gives a command its part of a reply for many keys, in the order of the script for one: now comes fifth.
func (c *command) answer(now int64, reply []int64) {
	if reply[0] < 0 { // WRONGTYPE, BADSTATE, or not decided: asked by itself, it gets its own error
		c.SetErr(&askAgainError{alone: true})
		return
	}
	c.SetVal(slices.Insert(reply[:len(reply):len(reply)], minReplyFields-1, now))
	c.SetErr(nil)
}

// fail gives all commands that have no reply an error.
func (m *manyCommand) fail(err error) {
	for _, c := range m.members {
		if c.state.Load() != answered {
			c.SetErr(err)
		}
	}
}

// meaning is the error of each command, by that of the command for many keys.
func (m *manyCommand) meaning(err error) error {
	code, f := codeOf(err), classify(err)
	switch {
	case failedInScript(err.Error()):
		return err
	case f == scriptMissing && !m.limits.preloadedOnly:
		return &askAgainError{missing: m.script.Script}
	case code == "BADARG":
		return &askAgainError{alone: true}
	case f == scriptMissing, code == "CROSSSLOT", f == refused:
		m.limits.pauseMany()
		return &askAgainError{alone: true}
	}
	return err
}

// askAgainError is the outcome of a command that was not decided as one of many, and can be asked again at once.
type askAgainError struct {
	missing *sluice.Script // load this before
	alone   bool           // ask by itself
}

// RedisError says that the server has answered.
func (*askAgainError) RedisError() {}

func (*askAgainError) Error() string { return codeAskAgain + " not decided together with other keys" }

const codeAskAgain = "ASKAGAIN"

// pauseMany sends single commands only, for some time.
func (l *Loader) pauseMany() { l.manyPaused.Store(time.Now().Add(manyPause).UnixNano()) }

// sendsMany reports whether commands for many keys may be sent: to a client of one server, where they are not known not
// to work. Keys of a cluster and of a Ring lie on several servers.
func (l *Loader) sendsMany() bool {
	_, single := l.nodes.(singleClient)
	paused := l.manyPaused.Load()
	return single && (paused == 0 || time.Now().UnixNano() > paused)
}

// together replaces commands that have the same script and arguments by commands for many keys. Commands about the same
// key keep their order.
func (l *Loader) together(cmds []redis.Cmder) []redis.Cmder {
	if len(cmds) < minTogether || !l.sendsMany() {
		return cmds
	}
	p := packing{limits: l, last: make(map[any]int, len(cmds))}
	for _, cmd := range cmds {
		p.add(cmd)
	}
	return p.commands()
}

// packing is the commands of a pipeline while they are put together.
type packing struct {
	limits *Loader
	places []*manyCommand // with one member: a command by itself
	others []redis.Cmder  // in place of those that are nil
	open   []int          // places that may get more members
	last   map[any]int    // the last place that has a key
}

func (p *packing) add(cmd redis.Cmder) {
	c, ok := cmd.(*command)
	words := cmd.Args()
	sha, _ := words[1].(string)
	script, known := manyScripts[sha]
	if !ok || !known || c.alone || c.group != nil || words[0] != p.limits.verb() {
		p.put(nil, cmd, words)
		return
	}
	keys, args := words[firstKey:firstKey+c.keys], words[firstKey+c.keys:]
	at := p.placeFor(script, keys, args)
	if at < 0 {
		p.open = append(p.open, len(p.places))
		p.put(&manyCommand{limits: p.limits, script: script, args: args, members: []*command{c}}, nil, words)
		return
	}
	p.places[at].members = append(p.places[at].members, c)
	for _, key := range keys {
		p.last[key] = at
	}
}

// put adds a place.
func (p *packing) put(m *manyCommand, cmd redis.Cmder, words []any) {
	for _, key := range words[min(firstKey, len(words)):] { // arguments too, which are no keys of others
		if text, isText := key.(string); isText {
			p.last[text] = len(p.places)
		}
	}
	p.places, p.others = append(p.places, m), append(p.others, cmd)
}

// placeFor returns the place of a command for many keys that a command may join, -1 if there is none. It may not be
// before another command about the same key.
func (p *packing) placeFor(script manyScript, keys, args []any) int {
	last := 0
	for _, key := range keys {
		last = max(last, p.last[key])
	}
	for i, at := range p.open {
		m := p.places[at]
		if m.script.Script != script.Script || !slices.Equal(m.args, args) {
			continue
		}
		if last > at || len(m.members) >= script.maxSubjects(len(keys), args) {
			p.open = slices.Delete(p.open, i, i+1)
			return -1
		}
		return at
	}
	return -1
}

// commands returns the commands to send.
func (p *packing) commands() []redis.Cmder {
	cmds := make([]redis.Cmder, 0, len(p.places))
	for i, m := range p.places {
		switch {
		case m == nil:
			cmds = append(cmds, p.others[i])
		case len(m.members) < minTogether:
			for _, c := range m.members {
				cmds = append(cmds, c)
			}
		default:
			m.setWords()
			cmds = append(cmds, m)
		}
	}
	return cmds
}
