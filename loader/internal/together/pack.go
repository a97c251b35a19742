package together

import (
	"slices"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// pack replaces commands that have the same script and arguments by commands for many keys. Commands about the same
// key keep their order.
func (c *Client) pack(cmds []redis.Cmder) []redis.Cmder {
	if len(cmds) < minTogether || !c.sendsMany() {
		return cmds
	}
	p := packing{client: c, last: make(map[string]int, len(cmds))}
	for _, cmd := range cmds {
		p.add(cmd)
	}
	return p.commands()
}

// packing is the commands of a pipeline while they are put together.
type packing struct {
	client *Client
	places []*manyCommand // with one member: a command by itself
	others []redis.Cmder  // in place of those that are nil
	open   []int          // places that may get more members
	last   map[string]int // the last place that has a key
}

func (p *packing) add(cmd redis.Cmder) {
	c := cmd.(*wire.Command)
	q := &c.Call.Question
	script, known := manyScripts[q.Script.SHA1]
	if !known || c.IsShared() || !c.Call.MayPack() {
		p.put(nil, cmd, q)
		return
	}
	at := p.placeFor(script, q)
	if at < 0 {
		p.open = append(p.open, len(p.places))
		p.put(&manyCommand{client: p.client, script: script, members: []*wire.Command{c}}, nil, q)
		return
	}
	p.places[at].members = append(p.places[at].members, c)
	p.note(q, at)
}

// put adds a place.
func (p *packing) put(m *manyCommand, cmd redis.Cmder, q *wire.Question) {
	p.note(q, len(p.places))
	p.places, p.others = append(p.places, m), append(p.others, cmd)
}

// note notes that the keys of a question are at a place.
func (p *packing) note(q *wire.Question, place int) {
	p.last[q.Key] = place
	for _, key := range q.Keys {
		p.last[key] = place
	}
}

// placeFor returns the place of a command for many keys that a command may join, -1 if there is none. It may not be
// before another command about the same key.
func (p *packing) placeFor(script manyScript, q *wire.Question) int {
	last := p.last[q.Key]
	for _, key := range q.Keys {
		last = max(last, p.last[key])
	}
	for i, at := range p.open {
		m := p.places[at]
		if m.script.Script != script.Script || !slices.Equal(m.question().Args, q.Args) {
			continue
		}
		if last > at || len(m.members) >= script.maxSubjects(1+len(q.Keys), q.Args) {
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
			m.write()
			cmds = append(cmds, m)
		}
	}
	return cmds
}
