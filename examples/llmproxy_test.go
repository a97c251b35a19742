package examples_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// fakeModel streams an answer of three chunks. The model that is asked for says how: "terse" costs 50 tokens, "verbose"
// 1200, "paused" costs 50 and waits before its end until resume is closed, "endless" goes on until the caller leaves,
// "refused" is an error, "whole" costs 50 and is not streamed.
type fakeModel struct{ resume chan struct{} }

func (f fakeModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Model         string
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || ask.Model == "refused" {
		http.Error(w, "no such model", http.StatusNotFound)
		return
	}
	if ask.Model == "whole" {
		fmt.Fprint(w, `{"choices":[{}],"usage":{"total_tokens":50}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range 3 {
		fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"word"}}],"usage":null}`+"\n\n")
	}
	_ = http.NewResponseController(w).Flush()
	switch ask.Model {
	case "endless":
		<-r.Context().Done()
		return
	case "paused":
		<-f.resume
	}
	if ask.StreamOptions.IncludeUsage {
		cost := map[string]int{"terse": 50, "verbose": 1200, "paused": 50}[ask.Model]
		fmt.Fprintf(w, `data: {"choices":[],"usage":{"total_tokens":%d}}`+"\n\n", cost)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// question asks the proxy for an answer of up to 800 tokens.
func question(ctx context.Context, t *testing.T, address, customer, model string) *http.Response {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"max_tokens":800}`, model, model != "whole")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+customer)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// promptTokens is what the program takes for the tokens of a streamed question.
func promptTokens(model string) int64 {
	asked := fmt.Sprintf(`{"max_tokens":800,"model":%q,"stream":true,"stream_options":{"include_usage":true}}`, model)
	return int64(len(asked)/4 + 1)
}

// llmproxy is the program, running, of which customers have 1000 tokens a minute.
type llmproxy struct {
	cmd      *exec.Cmd
	address  string
	redis    *redistest.Proxy // between it and Redis
	wantLeft func(customer string, want int64)
}

func startLLMProxy(t *testing.T, model string) llmproxy {
	t.Helper()
	binary := exampletest.Build(t, ".", "./llmproxy")
	server := redistest.Start(t)
	p := llmproxy{redis: redistest.StartProxy(t, server.Addr)}
	p.cmd = exec.Command(binary, "-redis", "redis://"+p.redis.Addr, "-model", model, "-listen", "127.0.0.1:0",
		"-tokens", "1000")
	p.address = exampletest.Serve(t, p.cmd)
	tokens := loader.New(server.Client(t)).Budget("tokens", []loader.Limit{loader.PerMinute(1000), loader.PerDay(25000)})
	p.wantLeft = func(customer string, want int64) {
		t.Helper()
		redistest.Await(t, fmt.Sprintf("%s has %d tokens left", customer, want), func() bool {
			d, err := tokens.Peek(context.Background(), customer)
			return err == nil && d.Remaining == want
		})
	}
	return p
}

// TestServerLLMProxy has customers of 1000 tokens a minute ask a fake model.
func TestServerLLMProxy(t *testing.T) {
	model := httptest.NewServer(fakeModel{})
	defer model.Close()
	p := startLLMProxy(t, model.URL)
	address, wantLeft := p.address, p.wantLeft
	background := context.Background()

	answer, err := io.ReadAll(question(background, t, address, "ada", "terse").Body)
	if err != nil || !strings.HasSuffix(string(answer), "data: [DONE]\n\n") {
		t.Errorf("%q, %v; want a whole answer", answer, err)
	}
	wantLeft("ada", 950)
	question(background, t, address, "ada", "refused")
	wantLeft("ada", 950)
	_, _ = io.Copy(io.Discard, question(background, t, address, "ada", "whole").Body)
	wantLeft("ada", 900)
	_, _ = io.Copy(io.Discard, question(background, t, address, "ada", "verbose").Body)
	wantLeft("ada", 0) // a debt of 300
	refused := question(background, t, address, "ada", "terse")
	seconds, err := strconv.Atoi(refused.Header.Get("Retry-After"))
	if refused.StatusCode != http.StatusTooManyRequests || err != nil || seconds < 1 || seconds > 70 {
		t.Errorf("in debt: %s, Retry-After %q", refused.Status, refused.Header.Get("Retry-After"))
	}

	ctx, leave := context.WithCancel(background)
	answering := question(ctx, t, address, "bob", "endless")
	if _, err := bufio.NewReader(answering.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	leave()
	wantLeft("bob", 1000-promptTokens("endless")-3) // the prompt and three chunks

	model.Close()
	if r := question(background, t, address, "eve", "terse"); r.StatusCode != http.StatusBadGateway {
		t.Errorf("without a model: %s", r.Status)
	}
	wantLeft("eve", 1000)
}

// TestServerLLMProxyInterrupt interrupts the program in the middle of an answer.
func TestServerLLMProxyInterrupt(t *testing.T) {
	resume := make(chan struct{})
	model := httptest.NewServer(fakeModel{resume})
	defer model.Close()
	p := startLLMProxy(t, model.URL)
	answering := bufio.NewReader(question(context.Background(), t, p.address, "ada", "paused").Body)
	first, err := answering.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, "the program takes no more connections", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.address, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(resume)
	rest, err := io.ReadAll(answering)
	if answer := first + string(rest); err != nil || !strings.HasSuffix(answer, "data: [DONE]\n\n") {
		t.Errorf("%q, %v; want a whole answer", answer, err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v; want that the program ends by itself", err)
	}
	p.wantLeft("ada", 950)
}

// TestServerLLMProxyUnknownOutcome loses the reply to a reservation: it is withdrawn as soon as Redis can be reached.
func TestServerLLMProxyUnknownOutcome(t *testing.T) {
	model := httptest.NewServer(fakeModel{})
	defer model.Close()
	p := startLLMProxy(t, model.URL)
	_, _ = io.Copy(io.Discard, question(context.Background(), t, p.address, "ada", "terse").Body)
	p.wantLeft("ada", 950)

	p.redis.CutReplies(0)
	if r := question(context.Background(), t, p.address, "ada", "terse"); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without a reply: %s, want 503", r.Status)
	}
	p.wantLeft("ada", 950-promptTokens("terse")-800) // the estimate was charged
	p.redis.Pass()
	p.wantLeft("ada", 950)
}
