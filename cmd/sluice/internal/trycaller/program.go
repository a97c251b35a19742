package trycaller

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// word is a key or an argument: a character for each byte, as in the vectors. COMMAND gets it in hexadecimal.
type word string

func (w word) bytes() (all []byte) {
	for _, character := range w {
		all = append(all, byte(character))
	}
	return all
}

// MarshalText is for COMMAND.
func (w word) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%x", w.bytes()), nil }

// request is a call, as a line for COMMAND.
type request struct {
	ID     int    `json:"id"`
	Script string `json:"script"`
	SHA1   string `json:"sha1"`
	File   string `json:"file"`
	Keys   []word `json:"keys"`
	Args   []word `json:"args"`
}

// answer is what COMMAND answered, and what the trial knows of its call.
type answer struct {
	ID      int
	Reply   []json.Number // or strings with integers
	Granted *bool
	Kind    string // of an error; else "reply", "wrong reply" or "no answer"
	Text    string `json:"error"` // of the error, or of the reply, or what is wrong

	numbers [5]int64 // the reply begins so
	key     word
	took    time.Duration
	charged int64 // by the server
}

func (a answer) isGrant() bool { return a.Kind == "reply" && a.numbers[0] > 0 }

func (a answer) isError(text string) bool {
	return a.Kind == "refused" && strings.Contains(a.Text, text)
}

func (a answer) String() string { return a.Kind + ": " + a.Text }

// program is a running COMMAND.
type program struct {
	input   io.WriteCloser
	waiting sync.Map // channels of answers, by ids of requests
	kill    context.CancelFunc
	ended   chan struct{} // closed when the program has ended
	failed  error         // how it has ended
}

// start starts COMMAND. One that cannot be started has ended.
func start(ctx context.Context, command, environment []string, stderr io.Writer) *program {
	ctx, kill := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	stdin, input, _ := os.Pipe() // nil, if there is none, is a closed file
	output, stdout := io.Pipe()
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(os.Environ(), environment...), stdin, stdout, stderr
	cmd.WaitDelay = time.Second // for what it has started
	p := &program{input: input, kill: kill, ended: make(chan struct{})}
	go p.read(output, stderr)
	go func() {
		p.failed = cmd.Run()
		_, _ = stdin.Close(), stdout.Close()
		close(p.ended)
	}()
	return p
}

// read hands out answers until the program ends. It shows lines that answer nothing.
func (p *program) read(output io.Reader, stderr io.Writer) {
	for lines := bufio.NewScanner(output); lines.Scan(); {
		var a answer
		switch err := json.Unmarshal(lines.Bytes(), &a); {
		case err == nil && a.Reply != nil:
			a.Kind, a.Text = "reply", fmt.Sprint(a.Reply)
			for i, number := range a.Reply[:min(len(a.Reply), len(a.numbers))] {
				a.numbers[i], _ = number.Int64()
			}
			if a.Granted != nil && *a.Granted != a.isGrant() {
				a.Kind, a.Text = "wrong reply", fmt.Sprintf("granted %v is read in %v", *a.Granted, a.Reply)
			}
		case err != nil || !slices.Contains([]string{"refused", "not sent", "unknown"}, a.Kind):
			a.Kind, a.Text = "no answer", "neither a reply nor an error with a kind: "+lines.Text()
		}
		if to, found := p.waiting.LoadAndDelete(a.ID); found {
			to.(chan answer) <- a
		} else {
			fmt.Fprintf(stderr, "COMMAND printed %.200q\n", lines.Text())
		}
	}
	_, _ = io.Copy(io.Discard, output) // of a line that is too long
}

// ask writes a call and returns its answer, or why there is none.
func (p *program) ask(r request, patience time.Duration) (a answer) {
	to, began := make(chan answer, 1), time.Now()
	p.waiting.Store(r.ID, to)
	go func() { _ = json.NewEncoder(p.input).Encode(r) }()
	select {
	case a = <-to:
	case <-p.ended:
		a = answer{Kind: "no answer", Text: fmt.Sprint("COMMAND ended: ", p.failed)}
	case <-time.After(patience):
		a = answer{Kind: "no answer", Text: fmt.Sprint("not in ", patience)}
	}
	a.took = time.Since(began)
	return a
}
