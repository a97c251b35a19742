package play

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice/internal/lua51"
)

// Detail is all about one call.
type Detail struct {
	Index        int        `json:"index"`
	At           int64      `json:"at"`
	ServerTime   int64      `json:"server_time"` // microseconds since 1970
	Client       int64      `json:"client"`
	Process      int64      `json:"process,omitempty"` // that grants by itself; without Keys nothing was sent
	Second       bool       `json:"second"`            // it ran the lane's second script
	SHA1         string     `json:"sha1"`
	Keys         []string   `json:"keys"`
	Args         []Argument `json:"args"`
	Reply        any        `json:"reply"` // []Field, or a text, which is empty after an error
	Error        string     `json:"error,omitempty"`
	Commands     [][]string `json:"commands"`
	Lines        []int      `json:"lines"` // that were executed
	Instructions int        `json:"instructions"`
	Stored       Stored     `json:"stored"`
}

// Argument is one of ARGV.
type Argument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Field is a field of a reply.
type Field struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// replay is a lane that is run again, on an empty server, up to one of its calls.
type replay struct {
	*lane
	of   *lane
	next int // calls before this one have been made again
}

// Detail describes one of a lane's calls: -1 is the last one. The calls before it are made again, as long as more says
// yes; if it says no, ready is false, and another Detail of the same call goes on from there. So does a Detail of a
// later call.
func (r *Run) Detail(lane, index int, more func() bool) (d Detail, ready bool, err error) {
	if lane < 0 || lane >= len(r.lanes) {
		return d, true, r.noLane(lane)
	}
	l := r.lanes[lane]
	if index == -1 {
		index = len(l.calls) - 1
	}
	if index < 0 || index >= len(l.calls) {
		return d, true, fmt.Errorf("call %d: the lane has had %d", index, len(l.calls))
	}
	if r.replay == nil || r.replay.of != l || r.replay.next > index {
		if err := r.begin(l); err != nil {
			return d, true, err
		}
	}
	again := r.replay
	for ; again.next < index; again.next++ {
		if !more() {
			return d, false, nil
		}
		again.repeat(r.arrivals, l.calls[again.next])
	}
	again.next++
	c := l.calls[index]
	d, err = again.describeCall(index, r.arrivals[c.arrival], c)
	return d, true, err
}

// begin begins the replay of a lane.
func (r *Run) begin(l *lane) error {
	r.endReplay()
	again, err := r.scenario.newLane(l.id)
	if err == nil {
		r.replay = &replay{lane: again, of: l}
	}
	return err
}

func (r *Run) endReplay() {
	if r.replay != nil {
		r.replay.redis.Close()
		r.replay = nil
	}
}

// repeat makes a call again. One of ours that was denied is left out, unless it may have a report: it wrote nothing.
func (l *lane) repeat(arrivals []arrival, c call) {
	if c.outcome == denied && l.ours != nil && l.follows != reports {
		l.redis.SetTime(l.scenario.serverTime(c.at))
		return
	}
	_, _ = l.decide(arrivals[c.arrival], c)
}

func (l *lane) describeCall(index int, a arrival, c call) (Detail, error) {
	now, script, file, source := l.scenario.serverTime(c.at), l.script, l.file, l.source
	if second := l.scriptFor(ending); c.purpose == ending && second != nil {
		script, file, source = l.second, "scripts/"+second.File, second.Source
	}
	d := Detail{
		Index: index, At: c.at, ServerTime: now, Client: a.client + 1, SHA1: sha1Of(script), Keys: []string{},
		Second: c.purpose == ending,
		Reply:  "", Commands: [][]string{}, Lines: []int{}, Stored: l.stored(),
	}
	if l.follows == reports {
		d.Process = a.process + 1
	}
	if here, ok := l.decideHere(a, c); ok {
		permits := map[outcome]int64{granted: here.permits}[here.outcome]
		d.Reply = []Field{{"granted", permits}, {"remaining", here.remaining}, {"wait", here.wait}}
		return d, nil
	}
	keys, args := l.words(a, c)
	d.Keys = keys
	for i, name := range l.argumentNames(c.purpose, len(args)) {
		d.Args = append(d.Args, Argument{name, args[i]})
	}
	if l.refused != nil {
		d.Error = l.refused.Error()
		return d, nil
	}
	counted, err := lua51.CompileCounted(file, source)
	if err != nil {
		return d, err
	}
	counted.Budget = script.Budget
	l.redis.SetTime(now)
	result := counted.Run(l.redis, keys, args)
	l.refused = endedBy(result.Err)
	d.Instructions, d.Lines = result.Instructions, executed(counted)
	for _, command := range result.Commands[:min(len(result.Commands), mostShown)] {
		d.Commands = append(d.Commands, printables(command.Args))
	}
	answer, err := answerTo(result)
	if err != nil {
		d.Error = shortened(err.Error())
	}
	if l.follows == reports {
		l.answered(a, c, answer)
	}
	if result.Err == nil {
		d.Reply = l.named(c.purpose, result.Reply)
	}
	l.commands = result.Commands
	d.Stored = l.stored()
	return d, nil
}

func printables(texts []string) []string {
	shown := make([]string, len(texts))
	for i, text := range texts {
		shown[i] = printable(text)
	}
	return shown
}

// executed returns the lines of the statements that were reached, in order.
func executed(counted *lua51.Counted) (lines []int) {
	lines = []int{}
	for _, s := range counted.Statements {
		if counted.Count(s.Counter) > 0 && (len(lines) == 0 || lines[len(lines)-1] != s.Line) {
			lines = append(lines, s.Line)
		}
	}
	return lines
}

// named returns the fields of a reply, or a reply without fields as text.
func (l *lane) named(p purpose, reply any) any {
	values, ok := reply.([]any)
	if !ok {
		return display(reply)
	}
	values = values[:min(len(values), mostShown)]
	fields := make([]Field, len(values))
	for i, name := range l.replyNames(p, len(values)) {
		fields[i] = Field{name, plain(values[i])}
	}
	return fields
}

// plain returns a value as JSON has it: numbers and texts.
func plain(value any) any {
	if n, ok := value.(int64); ok && n < 1<<53 && n > -1<<53 {
		return n
	}
	return display(value)
}

// display writes a reply for people.
func display(reply any) string {
	switch reply := reply.(type) {
	case nil:
		return "(nil)"
	case int64:
		return fmt.Sprint("(integer) ", reply)
	case string:
		return strconv.Quote(shortened(reply))
	case []any:
		shown := reply[:min(len(reply), mostShown)]
		texts := make([]string, len(shown))
		for i, v := range shown {
			texts[i] = display(v)
		}
		return shortened("{" + strings.Join(texts, ", ") + "}")
	}
	return shortened(fmt.Sprint(reply))
}

// What a page shows of what a pasted script may make as large as it likes.
const (
	mostShown = 200 // rows
	mostBytes = 300 // of a text
)

func shortened(text string) string {
	if len(text) <= mostBytes {
		return text
	}
	return strings.ToValidUTF8(text[:mostBytes], "") + ".."
}
