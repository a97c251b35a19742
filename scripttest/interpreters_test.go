package scripttest_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/scripttest"
)

// Every timeline gives the same where the scripts are run by another Lua than Redis's: LuaJIT, as Kvrocks has it, and
// 5.4, as Dragonfly and Garnet have it, where whole numbers are a type of their own and a reply has to be of it.
func TestTimelinesOnOtherInterpreters(t *testing.T) {
	for _, program := range []string{"luajit", "lua5.4"} {
		t.Run(program, func(t *testing.T) {
			other := startInterpreter(t, program)
			eachTable(t, func(t *testing.T, tab table) {
				tab.run(t, func(t *testing.T) target { return interpreter{startHarness(t, false), other} })
			})
		})
	}
}

// An interpreter runs scripts in another Lua; their commands go to the harness's store.
type interpreter struct {
	*harness
	other *conversation
}

// A conversation is with a process of testdata/interpreter.lua.
type conversation struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

// startInterpreter starts a Lua. In CI a missing one is an error.
func startInterpreter(t *testing.T, program string) *conversation {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: .ci/run is to install it", err)
		}
		t.Skipf("no %s here; CI has it", program)
	}
	cmd := exec.Command(path, "testdata/interpreter.lua")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", program, err)
		}
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	return &conversation{in, lines}
}

func (i interpreter) call(script *sluice.Script, _ bool, keys, args []string) ([]int64, string) {
	i.t.Helper()
	words := []string{"run", quoted(script.Source)}
	for _, key := range keys {
		words = append(words, "k"+quoted(key))
	}
	for _, arg := range args {
		words = append(words, "a"+quoted(arg))
	}
	i.say(words...)
	for i.other.out.Scan() {
		words := strings.Fields(i.other.out.Text())
		switch words[0] {
		case "call":
			i.say(i.answer(words[1:]))
		case "reply":
			return i.numbers(words[1:]), ""
		default:
			return nil, unquoted(words[1])
		}
	}
	i.t.Fatalf("%s %q: the interpreter ended: %v", script.Name, args, i.other.out.Err())
	return nil, ""
}

func (i interpreter) say(words ...string) {
	i.t.Helper()
	if _, err := io.WriteString(i.other.in, strings.Join(words, " ")+"\n"); err != nil {
		i.t.Fatal(err)
	}
}

// answer runs a command of the script.
func (i interpreter) answer(quotedWords []string) string {
	words := make([]any, len(quotedWords))
	for k, word := range quotedWords {
		words[k] = unquoted(word)
	}
	if slices.Contains(i.withheld, fmt.Sprint(words[0])) {
		return "e" + quoted("NOPERM withheld")
	}
	reply, err := i.redis.Do(words...)
	if err != nil {
		return "e" + quoted(err.Error())
	}
	return told(reply)
}

// told is a reply in the words of testdata/interpreter.lua.
func told(reply any) string {
	switch r := reply.(type) {
	case nil:
		return "n"
	case int64:
		return fmt.Sprintf("i%d", r)
	case scripttest.Status:
		return "o" + quoted(string(r))
	case []any:
		words := []string{fmt.Sprintf("l%d", len(r))}
		for _, item := range r {
			words = append(words, told(item))
		}
		return strings.Join(words, " ")
	}
	return "s" + quoted(fmt.Sprint(reply))
}

func (i interpreter) numbers(words []string) []int64 {
	i.t.Helper()
	list := make([]int64, len(words))
	for k, word := range words {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			i.t.Errorf("reply %v: want integers", words)
		}
		list[k] = n
	}
	return list
}

func quoted(text string) string { return hex.EncodeToString([]byte(text)) + "." }

func unquoted(word string) string {
	text, _ := hex.DecodeString(strings.TrimSuffix(word, "."))
	return string(text)
}
