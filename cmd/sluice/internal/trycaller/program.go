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

// request is a call, as a line for COMMAND.
type request struct {
	ID     int      `json:"id"`
	Script string   `json:"script"`
	SHA1   string   `json:"sha1"`
	File   string   `json:"file"`
	Keys   []string `json:"keys"` // hexadecimal, as Args
	Args   []string `json:"args"`
}

// answer is what COMMAND answered, and what the trial knows of its call.
type answer struct {
	ID      int           `json:"id"`
	Reply   []json.Number `json:"reply"` // or strings with integers
	Granted *bool         `json:"granted"`
	Error   string        `json:"error"`
	Kind    string        `json:"kind"`

	key     string
	took    time.Duration
	charged int64  // by the server
	wrong   string // why the reply is none to this call
}

// The kinds of answers, of which COMMAND says the three of errors.
const (
	granted  = "granted"
	denied   = "denied"
	refused  = "refused"
	notSent  = "not sent"
	unknown  = "unknown"
	noAnswer = "no answer"
)

// isGrant reports whether it is the reply to its call, and grants.
func (a answer) isGrant() bool { return a.Kind == granted && a.wrong == "" }

// number is a field of the reply, or 0.
func (a answer) number(i int) (value int64) {
	if i < len(a.Reply) {
		value, _ = a.Reply[i].Int64()
	}
	return value
}

// is reports whether an answer is "reply [..", of which want is the beginning, or else an error reply with this text.
func (a answer) is(want string) bool {
	if strings.HasPrefix(want, "reply ") {
		return strings.HasPrefix(a.String(), want)
	}
	return a.Kind == refused && strings.Contains(a.Error, want)
}

// String is the answer in a few words.
func (a answer) String() string {
	switch {
	case a.wrong != "":
		return a.wrong
	case a.Reply == nil:
		return a.Kind + ": " + a.Error
	case a.Granted != nil && *a.Granted != (a.Kind == granted):
		return fmt.Sprintf("granted %v is read in the reply %v", *a.Granted, a.Reply)
	}
	return fmt.Sprint("reply ", a.Reply)
}

// readAnswer reads a line of COMMAND.
func readAnswer(line []byte) (a answer) {
	err := json.Unmarshal(line, &a)
	switch {
	case err != nil:
		a.Kind, a.Error = noAnswer, fmt.Sprintf("%.200q is no answer: %v", line, err)
	case a.number(0) > 0:
		a.Kind = granted
	case a.Reply != nil:
		a.Kind = denied
	case !slices.Contains([]string{refused, notSent, unknown}, a.Kind):
		a.Kind, a.Error = noAnswer, fmt.Sprintf("%.200q has neither a reply nor a kind", line)
	}
	return a
}

// program is a running COMMAND.
type program struct {
	cmd     *exec.Cmd
	input   io.WriteCloser
	waiting sync.Map      // channels of answers, by ids of requests
	ended   chan struct{} // closed when the program has ended
	failed  error         // how it has ended
}

func start(ctx context.Context, command, environment []string, stderr io.Writer) (*program, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	output, stdout := io.Pipe()
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), environment...), stdout, stderr
	cmd.WaitDelay = time.Second // for what it has started
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	p := &program{cmd: cmd, input: input, ended: make(chan struct{})}
	go p.read(output, stderr)
	go func() {
		p.failed = cmd.Wait()
		_ = stdout.Close()
		close(p.ended)
	}()
	return p, nil
}

// read hands out answers until the program ends. It shows lines that answer nothing.
func (p *program) read(output io.Reader, stderr io.Writer) {
	for lines := bufio.NewReader(output); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		a := readAnswer(line)
		if to, found := p.waiting.LoadAndDelete(a.ID); found {
			to.(chan answer) <- a
		} else {
			fmt.Fprintf(stderr, "COMMAND printed %.200q\n", line)
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
		a = answer{Kind: noAnswer, Error: fmt.Sprint("COMMAND ended: ", p.failed)}
	case <-time.After(patience):
		a = answer{Kind: noAnswer, Error: fmt.Sprint("not in ", patience)}
	}
	a.took = time.Since(began)
	return a
}

// close ends the program: by the end of its input, or else by a signal.
func (p *program) close() {
	_ = p.input.Close()
	select {
	case <-p.ended:
	case <-time.After(time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}
