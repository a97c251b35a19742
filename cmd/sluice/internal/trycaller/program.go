package trycaller

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
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

// integer is a JSON number without a fraction, or the same in a string.
type integer int64

func (i *integer) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*i = integer(value)
	return err
}

// answer is what COMMAND answered.
type answer struct {
	ID      int       `json:"id"`
	Reply   []integer `json:"reply"`
	Granted *bool     `json:"granted"`
	Error   string    `json:"error"`
	Kind    string    `json:"kind"`

	took   time.Duration
	failed string // why there is no answer, or why it cannot be read
	wrong  string // why the reply is none to this call
}

// The kinds of errors.
const (
	refused = "refused"
	notSent = "not sent"
	unknown = "unknown"
)

// granted reports whether it is a reply that grants.
func (a answer) granted() bool { return len(a.Reply) > 0 && a.Reply[0] > 0 }

// isOf reports whether it is the reply to the first call about a key: a grant, also if it was charged several times.
func (a answer) isOf(limit int64) bool {
	return len(a.Reply) == 5 && a.granted() && int64(a.Reply[1]) < limit && int64(a.Reply[1]) > limit-100
}

// String is the answer in a few words.
func (a answer) String() string {
	switch {
	case a.failed != "":
		return a.failed
	case a.Reply != nil:
		return fmt.Sprint("reply ", a.Reply)
	}
	return fmt.Sprintf("%s: %s", a.Kind, a.Error)
}

// program is a running COMMAND.
type program struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	ended chan struct{}

	mu      sync.Mutex
	waiting map[int]chan<- answer
	last    string // its last line that is no answer, or how it ended
}

func start(ctx context.Context, command, environment []string, stderr io.Writer) (*program, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), environment...), stderr
	cmd.WaitDelay = time.Second
	groupOf(cmd)
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &program{cmd: cmd, input: input, ended: make(chan struct{}), waiting: map[int]chan<- answer{}}
	go p.read(output)
	return p, nil
}

// read hands out answers until the program ends. Then all who wait are told.
func (p *program) read(output io.Reader) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.take(lines.Bytes())
	}
	_, _ = io.Copy(io.Discard, output)
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = fmt.Sprint("COMMAND ended: ", errors.Join(err, lines.Err()))
	for _, to := range p.waiting {
		to <- answer{failed: p.last}
	}
	p.waiting = nil
	close(p.ended)
}

func (p *program) take(line []byte) {
	var a answer
	err := json.Unmarshal(line, &a)
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.waiting[a.ID]
	if to == nil {
		p.last = fmt.Sprintf("COMMAND printed %.200q", line)
		return
	}
	switch {
	case err != nil:
		a.failed = fmt.Sprintf("%.200q is no answer: %v", line, err)
	case a.Reply == nil && a.Kind != refused && a.Kind != notSent && a.Kind != unknown:
		a.failed = fmt.Sprintf("%.200q has neither a reply nor a kind", line)
	}
	delete(p.waiting, a.ID)
	to <- a
}

// ask writes a call and returns its answer, or at the deadline why there is none.
func (p *program) ask(r request, deadline time.Duration) answer {
	to, began := make(chan answer, 1), time.Now()
	p.mu.Lock()
	if p.waiting == nil {
		p.mu.Unlock()
		return answer{failed: p.last}
	}
	p.waiting[r.ID] = to
	p.mu.Unlock()
	go func() { _ = json.NewEncoder(p.input).Encode(r) }()
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	var a answer
	select {
	case a = <-to:
	case <-timer.C:
		p.mu.Lock()
		a.failed = strings.TrimSuffix(fmt.Sprintf("no answer in %v, %s", deadline, p.last), ", ")
		p.mu.Unlock()
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
		kill(p.cmd)
		<-p.ended
	}
}

func hexes(words []string) []string {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = hex.EncodeToString([]byte(word))
	}
	return texts
}
