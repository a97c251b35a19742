package trycaller

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
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

// sum is the name that Redis gives the script in a file.
func sum(path string) string {
	source, _ := os.ReadFile(path) // without the file COMMAND has nothing to load, and says so
	hash := sha1.Sum(source)
	return hex.EncodeToString(hash[:])
}

// each makes something of each word.
func each[T any](words []string, make func(string) T) []T {
	all := []T{}
	for _, word := range words {
		all = append(all, make(word))
	}
	return all
}

func hexOf(word string) string { return hex.EncodeToString([]byte(word)) }

func anyOf(word string) any { return word }

// bytesOf has a byte for each character.
func bytesOf(text string) string {
	var word []byte
	for _, r := range text {
		word = append(word, byte(r))
	}
	return string(word)
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

	took  time.Duration
	wrong string // why the reply is none to this call
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

// firstNotGranted returns -1 if each answer is the reply to its call, and grants.
func firstNotGranted(answers []answer) int {
	return slices.IndexFunc(answers, func(a answer) bool { return a.Kind != granted || a.wrong != "" })
}

// isOf reports whether it is the reply to the first call about a key: a grant, also if it was charged several times.
func (a answer) isOf(limit int64) bool {
	return len(a.Reply) == 5 && a.Kind == granted && int64(a.Reply[1]) < limit && int64(a.Reply[1]) > limit-100
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
	case len(a.Reply) > 0 && a.Reply[0] > 0:
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
	cmd   *exec.Cmd
	input io.WriteCloser
	ended chan struct{}

	mu      sync.Mutex
	waiting map[int]chan<- answer // nil: it has ended
	last    string                // its last line that is no answer, or how it ended
}

func start(ctx context.Context, command, environment []string, stderr io.Writer) (*program, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), environment...), stderr
	cmd.WaitDelay = time.Second
	groupOf(cmd)
	input, noInput := cmd.StdinPipe()
	output, noOutput := cmd.StdoutPipe()
	if err := errors.Join(noInput, noOutput, cmd.Start()); err != nil {
		return nil, err
	}
	p := &program{cmd: cmd, input: input, ended: make(chan struct{}), waiting: map[int]chan<- answer{}}
	go p.read(output)
	return p, nil
}

// read hands out answers until the program ends. Then all that wait get an answer.
func (p *program) read(output io.Reader) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		a := readAnswer(lines.Bytes())
		p.mu.Lock()
		if to := p.waiting[a.ID]; to != nil {
			delete(p.waiting, a.ID)
			to <- a
		} else {
			p.last = fmt.Sprintf("COMMAND printed %.200q", lines.Bytes())
		}
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, output)
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = fmt.Sprint("COMMAND ended: ", errors.Join(err, lines.Err()))
	for _, to := range p.waiting {
		to <- answer{Kind: noAnswer, Error: p.last}
	}
	p.waiting = nil
	close(p.ended)
}

// ask writes a call and returns its answer, or at the deadline why there is none.
func (p *program) ask(r request, deadline time.Duration) (a answer) {
	to, began := make(chan answer, 1), time.Now()
	p.mu.Lock()
	if p.waiting == nil {
		defer p.mu.Unlock()
		return answer{Kind: noAnswer, Error: p.last}
	}
	p.waiting[r.ID] = to
	p.mu.Unlock()
	go func() { _ = json.NewEncoder(p.input).Encode(r) }()
	select {
	case a = <-to:
	case <-time.After(deadline):
		p.mu.Lock()
		defer p.mu.Unlock()
		a.Kind, a.Error = noAnswer, strings.TrimSuffix(fmt.Sprintf("not in %v, %s", deadline, p.last), ", ")
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
