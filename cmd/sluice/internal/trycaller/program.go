package trycaller

import (
	"bufio"
	"cmp"
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
	Error   string
	Kind    string // that of an error; or "reply", or "no answer"

	key     word
	took    time.Duration
	charged int64  // by the server
	wrong   string // why the reply is none to this call
}

// isGrant reports whether it is the reply to its call, and grants.
func (a answer) isGrant() bool { return a.number(0) > 0 && a.wrong == "" }

// is reports whether it is an error reply with this text or, without one, a reply that begins so.
func (a answer) is(failure string, begins []json.Number) bool {
	if failure != "" {
		return a.Kind == "refused" && strings.Contains(a.Error, failure)
	}
	return a.Kind == "reply" && a.wrong == "" && slices.Equal(a.Reply[:min(len(a.Reply), len(begins))], begins)
}

// number is a field of the reply, or 0.
func (a answer) number(i int) (value int64) {
	if i < len(a.Reply) {
		value, _ = a.Reply[i].Int64()
	}
	return value
}

// String is the answer in a few words.
func (a answer) String() string {
	if a.Kind == "reply" {
		return cmp.Or(a.wrong, fmt.Sprint("reply ", a.Reply))
	}
	return a.Kind + ": " + a.Error
}

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
	stdin, input := io.Pipe()
	output, stdout := io.Pipe()
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(os.Environ(), environment...), stdin, stdout, stderr
	cmd.WaitDelay = time.Second // for what it has started
	p := &program{input: input, kill: kill, ended: make(chan struct{})}
	go p.read(output, stderr)
	go func() {
		p.failed = cmd.Run()
		_ = stdout.Close()
		close(p.ended)
	}()
	return p
}

// read hands out answers until the program ends. It shows lines that answer nothing.
func (p *program) read(output io.Reader, stderr io.Writer) {
	for lines := bufio.NewScanner(output); lines.Scan(); {
		var a answer
		err := json.Unmarshal(lines.Bytes(), &a)
		isError := slices.Contains([]string{"refused", "not sent", "unknown"}, a.Kind)
		if err != nil || a.Reply == nil && !isError {
			a.Kind, a.Error = "no answer", "neither a reply nor an error with a kind: "+lines.Text()
		} else if a.Reply != nil {
			a.Kind = "reply"
		}
		if a.Granted != nil && *a.Granted != (a.number(0) > 0) {
			a.wrong = fmt.Sprintf("granted %v is read in the reply %v", *a.Granted, a.Reply)
		}
		if to, found := p.waiting.LoadAndDelete(a.ID); found {
			to.(chan answer) <- a
		} else {
			fmt.Fprintf(stderr, "COMMAND printed %.200q\n", lines.Text())
		}
	}
}

// ask writes a call and returns its answer, or why there is none.
func (p *program) ask(r request, patience time.Duration) (a answer) {
	to, began := make(chan answer, 1), time.Now()
	p.waiting.Store(r.ID, to)
	go func() { _ = json.NewEncoder(p.input).Encode(r) }()
	select {
	case a = <-to:
	case <-p.ended:
		a = answer{Kind: "no answer", Error: fmt.Sprint("COMMAND ended: ", p.failed)}
	case <-time.After(patience):
		a = answer{Kind: "no answer", Error: fmt.Sprint("not in ", patience)}
	}
	a.took = time.Since(began)
	return a
}
