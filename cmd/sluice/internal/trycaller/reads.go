package trycaller

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
)

// reads makes calls whose replies a caller may misread.
func (t *trial) reads() error {
	if err := t.start(true); err != nil {
		return err
	}
	log, ids, every := "sluice:try-caller:{reads}:ll1", "sluice:try-caller:{\x00\xff\n\"}:zl1", ""
	for b := range 128 {
		every += string([]byte{byte(255 - b)}) // without |, {, } and %
	}
	t.each(t.ctx, "SET", "sluice:try-caller:{text}:ll1", "x", "EX", "3600")
	list, zset := sluice.ListLogV1(), sluice.ZSetLogV1()
	for _, try := range []struct {
		tried, cure string
		request     request
		begins      []integer
		error       string
		member      string // that is stored then
	}{
		{"several permits", "granted is above 0, not 1", t.request(list, []string{log}, "3", "3600000000", "2", "0"),
			[]integer{2, 1, 0}, "", ""},
		{"a denial", "it is a reply, not an error: granted is 0", t.request(list, []string{log}, "3", "3600000000", "2", "0"),
			[]integer{0, 1}, "", ""},
		{"the error BADARG", "it is refused, with its text", t.request(list, []string{log}, "0", "0", "0", "0"), nil,
			"BADARG limit", ""},
		{"the error WRONGTYPE", "it is refused, with its text",
			t.request(list, []string{"sluice:try-caller:{text}:ll1"}, "3", "3600000000", "2", "0"), nil, "WRONGTYPE", ""},
		{"a binary key and id", "send keys and arguments as bytes",
			t.request(zset, []string{ids}, "9", "3600000000", "1", "0", every), []integer{1, 8, 0}, "", every},
		{"a number above 2^53", "send numbers as text or integers, not as floating point",
			t.request(zset, []string{ids}, "9", "3600000000", "1", "0", "9007199254740993"), []integer{1, 7, 0}, "",
			"9007199254740993"},
	} {
		a, row := t.ask(try.request), Row{Property: ReadsRight, Tried: try.tried, Seen: "ok"}
		right := a.failed == "" && len(a.Reply) >= len(try.begins) && slices.Equal(a.Reply[:len(try.begins)], try.begins)
		if try.error != "" {
			right = a.Kind == refused && strings.Contains(a.Error, try.error)
		}
		if right && a.Reply != nil {
			right = len(a.Reply) == 5 && t.isNow(int64(a.Reply[4])) && (a.Granted == nil || *a.Granted == a.granted())
		}
		if right && try.member != "" {
			right = slices.ContainsFunc(t.nodes, func(n *node) bool { return n.rdb.ZScore(t.ctx, ids, try.member).Err() == nil })
		}
		if !right {
			row.Seen, row.Cure = a.String(), try.cure
			if a.Granted != nil {
				row.Seen += fmt.Sprint(", granted ", *a.Granted)
			}
		}
		t.report(row)
	}
	return nil
}

// isNow reports whether a moment is about the server's now.
func (t *trial) isNow(us int64) bool {
	now, err := t.nodes[0].rdb.Time(t.ctx).Result()
	return err == nil && now.Sub(time.UnixMicro(us)).Abs() < time.Minute
}

type vectorFile struct {
	Script    string
	Timelines []struct {
		Name  string
		Steps []step
	}
}

type step struct {
	At                  int64
	Command, Keys, Args []string // a byte for each character
	Script, Error       string
	Reply               []integer
}

// playVectors plays all timelines, with the scripts that read the time from a key, and the calls of calls.json.
func (t *trial) playVectors() error {
	if t.Vectors == "" || t.Cluster || t.Redis != "" {
		return nil
	}
	folder, err := filepath.Abs(t.Vectors)
	if err != nil {
		return err
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	if len(files) == 0 {
		return fmt.Errorf("--vectors: no *.json in %s", folder)
	}
	if err := t.start(false, filepath.Join(folder, "testclock")); err != nil {
		return err
	}
	steps, row := 0, Row{Property: ReadsRight, Tried: "all vectors"}
	for _, path := range files {
		var file vectorFile
		if err := readJSON(path, &file); err != nil {
			return err
		}
		for _, timeline := range file.Timelines {
			t.each(t.ctx, "FLUSHALL")
			for i, s := range timeline.Steps {
				steps++
				wrong, err := t.play(folder, file.Script, s)
				if err != nil {
					return err
				}
				if wrong != "" && row.Cure == "" {
					row.Cure = "read the header of the script, and README.md beside the vectors"
					row.Seen = fmt.Sprintf("%s, %s, step %d: %s", file.Script, timeline.Name, i+1, wrong)
				}
			}
		}
	}
	row.Seen = cmp.Or(row.Seen, fmt.Sprint(steps, " steps"))
	t.report(row)
	return t.calledAsWritten(folder)
}

// play runs a step and says what is wrong.
func (t *trial) play(folder, script string, s step) (string, error) {
	clock := t.nodes[0].rdb.HSet(t.ctx, "sluice:test:clock", "s", s.At/1e6, "us", s.At%1e6)
	if s.Command != nil {
		var words []any
		for _, word := range bytesOf(s.Command) {
			words = append(words, word)
		}
		return "", errors.Join(clock.Err(), t.nodes[0].rdb.Do(t.ctx, words...).Err())
	}
	script = cmp.Or(s.Script, script)
	path := filepath.Join(folder, "testclock", script+".lua")
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha1.Sum(source)
	t.last++
	a := t.ask(request{t.last, script, hex.EncodeToString(sum[:]), path, hexes(bytesOf(s.Keys)), hexes(bytesOf(s.Args))})
	if a.failed != "" || !slices.Equal(a.Reply, s.Reply) || s.Error != "" && !strings.Contains(a.Error, s.Error) {
		return fmt.Sprintf("%v, want %v%s", a, s.Reply, s.Error), clock.Err()
	}
	return "", clock.Err()
}

// calledAsWritten makes the calls of calls.json, and compares replies with those that the trial gets itself.
func (t *trial) calledAsWritten(folder string) error {
	var calls struct{ Vectors []step }
	path := filepath.Join(folder, "..", "scripts", "calls.json") // of a release
	if err := readJSON(path, &calls); errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join(folder, "..", "..", "scripts", "calls.json")
	}
	if err := readJSON(path, &calls); err != nil {
		return err
	}
	if err := t.start(true); err != nil {
		return err
	}
	row, count := Row{Property: ReadsRight, Tried: "calls.json"}, 0
	for _, call := range calls.Vectors {
		i := slices.IndexFunc(sluice.All(), func(s sluice.Script) bool { return s.File == call.Script+".lua" })
		if i < 0 {
			continue // what is to be refused, before a call
		}
		count++
		script := sluice.All()[i]
		t.each(t.ctx, "FLUSHALL")
		a := t.ask(t.request(script, call.Keys, call.Args...))
		t.each(t.ctx, "FLUSHALL")
		var words []any
		for _, word := range call.Args {
			words = append(words, word)
		}
		reply, err := t.nodes[0].rdb.Eval(t.ctx, script.Source, call.Keys, words...).Int64Slice()
		same := len(reply) == len(a.Reply) && (len(reply) == 0 || reply[0] == int64(a.Reply[0]))
		if err != nil {
			same = redis.HasErrorPrefix(err, strings.SplitN(a.Error, " ", 2)[0]) && a.Kind == refused
		}
		if !same && row.Cure == "" {
			row.Seen = fmt.Sprint(call.Script, ": ", a, ", want ", reply, err)
			row.Cure = "send KEYS and ARGV as they are, and read all integers of the reply"
		}
	}
	row.Seen = cmp.Or(row.Seen, fmt.Sprint(count, " calls"))
	t.report(row)
	return nil
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// bytesOf has a byte for each character.
func bytesOf(texts []string) []string {
	words := make([]string, len(texts))
	for i, text := range texts {
		for _, r := range text {
			words[i] += string([]byte{byte(r)})
		}
	}
	return words
}
