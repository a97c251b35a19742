package together

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader/internal/wire"
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

// The scripts for many keys.
var (
	gcraManyV1      = sluice.GCRAManyV1()
	listLogManyV1   = sluice.ListLogManyV1()
	sliceRingManyV1 = sluice.SliceRingManyV1()
)

// manyScripts are the scripts for many keys, by the SHA1 of the script for one.
var manyScripts = map[string]manyScript{
	sluice.GCRAV1().SHA1:      {Script: &gcraManyV1},
	sluice.ListLogV1().SHA1:   {Script: &listLogManyV1, permitsAt: 2, permits: 1000},
	sluice.SliceRingV1().SHA1: {Script: &sliceRingManyV1},
}

// maxSubjects returns how many subjects, of so many keys each, one call may ask about.
func (s manyScript) maxSubjects(keys int, args []any) int {
	largest := s.KeyGroup.Max / keys
	if permits, _ := args[s.permitsAt].(int64); s.permits > 0 && permits > 0 {
		largest = min(largest, int(s.permits/permits))
	}
	return largest
}

// pauseMany sends single commands only, for some time.
func (c *Client) pauseMany() { c.paused.Store(time.Now().Add(manyPause).UnixNano()) }

// sendsMany reports whether commands for many keys may be sent: to a client of one server, where they are not known not
// to work. Keys of a cluster and of a Ring lie on several servers.
func (c *Client) sendsMany() bool {
	paused := c.paused.Load()
	return c.Single && (paused == 0 || time.Now().UnixNano() > paused)
}

// manyCommand asks about the keys of several commands that have the same script and arguments. go-redis writes and
// reads it in their place; each of them gets its own outcome.
//
// If a caller leaves before the command is written, it is written with 0 keys, as a single one is: nothing is decided,
// and the other callers ask again, each by itself.
type manyCommand struct {
	*redis.IntSliceCmd
	client  *Client
	script  manyScript
	members []*wire.Command // with the same arguments

	claimOnce sync.Once
	whole     bool // set when it is written: all callers were still there
}

// NoRetry keeps go-redis from sending the command a second time.
func (m *manyCommand) NoRetry() bool { return true }

// Clone returns a copy, which go-redis does not retry either.
func (m *manyCommand) Clone() redis.Cmder { return wire.CloneOf(m.IntSliceCmd) }

// write makes the words of the command.
func (m *manyCommand) write() {
	q := *m.question()
	q.Script, q.Keys = m.script.Script, make([]string, 0, m.keys()-1)
	for i, c := range m.members {
		if i > 0 {
			q.Keys = append(q.Keys, c.Call.Key)
		}
		q.Keys = append(q.Keys, c.Call.Keys...)
	}
	words := make([]any, 0, wire.FirstKey+m.keys()+len(q.Args))
	words = m.client.Words(words, &q, false, (*writtenMany)(m))
	m.IntSliceCmd = redis.NewIntSliceCmd(m.members[0].Context(), words...)
	m.SetFirstKeyPos(wire.FirstKey)
	m.SetStepCount(1)
}

// question returns that of the first of the commands.
func (m *manyCommand) question() *wire.Question { return &m.members[0].Call.Question }

// keys returns the number of keys: each subject has the same.
func (m *manyCommand) keys() int { return len(m.members) * (1 + len(m.question().Keys)) }

// writtenMany is the number of keys of a manyCommand.
type writtenMany manyCommand

// MarshalBinary is called by go-redis when it writes the command.
func (k *writtenMany) MarshalBinary() ([]byte, error) {
	k.claimOnce.Do(func() {
		k.whole = true
		for _, c := range k.members {
			k.whole = c.StartWrite() && k.whole
		}
	})
	if !k.whole {
		return []byte("0"), nil
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
			answerOne(c, reply[0], reply[1+i*each:1+(i+1)*each])
		}
	}
}

// answerOne gives a command its part of a reply for many keys, in the order of the script for one: now comes fifth.
func answerOne(c *wire.Command, now int64, reply []int64) {
	if reply[0] < 0 { // WRONGTYPE, BADSTATE, or not decided: asked by itself, it gets its own error
		c.SetErr(&wire.NotDecided{Alone: true})
		return
	}
	c.SetVal(slices.Insert(reply[:len(reply):len(reply)], nowAt, now))
	c.SetErr(nil)
}

// fail gives all commands that have no reply an error.
func (m *manyCommand) fail(err error) {
	for _, c := range m.members {
		if !c.Answered() {
			c.SetErr(err)
		}
	}
}

// meaning is the error of each command, by that of the command for many keys.
func (m *manyCommand) meaning(err error) error {
	code, f := wire.CodeOf(err), wire.FailureOf(err)
	switch {
	case wire.FailedInScript(err.Error()):
		return err
	case f.IsMissing() && !m.client.PreloadedOnly:
		return &wire.NotDecided{Missing: m.script.Script, LoadFailed: m.client.pauseMany}
	case code == "BADARG":
		return &wire.NotDecided{Alone: true}
	case f.IsMissing(), code == "CROSSSLOT", f.IsRefused():
		m.client.pauseMany()
		return &wire.NotDecided{Alone: true}
	}
	return err
}

// nowAt is where the time stands in the reply of a script for one subject.
const nowAt = 4
