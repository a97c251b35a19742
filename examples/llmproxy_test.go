package examples_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// fakeModel streams an answer of three chunks. What it is asked by says how: "terse" costs 50 tokens, "verbose" 1200,
// "endless" goes on until the caller leaves, "refused" is an error, "whole" costs 50 and is not streamed.
func fakeModel(w http.ResponseWriter, r *http.Request) {
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
	if ask.Model == "endless" {
		<-r.Context().Done()
		return
	}
	if ask.StreamOptions.IncludeUsage {
		cost := map[string]int{"terse": 50, "verbose": 1200}[ask.Model]
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

// TestServerLLMProxy has customers of 1000 tokens a minute ask a fake model.
func TestServerLLMProxy(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "llmproxy")
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", binary, "./llmproxy").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	model := httptest.NewServer(http.HandlerFunc(fakeModel))
	defer model.Close()
	server := redistest.Start(t)
	address := serve(t, exec.Command(binary, "-redis", "redis://"+server.Addr, "-model", model.URL,
		"-listen", "127.0.0.1:0", "-tokens", "1000"))
	tokens := loader.New(server.Client(t)).Budget("tokens", []loader.Limit{loader.PerMinute(1000), loader.PerDay(25000)})
	wantLeft := func(customer string, want int64) {
		t.Helper()
		redistest.Await(t, fmt.Sprintf("%s has %d tokens left", customer, want), func() bool {
			d, err := tokens.Peek(context.Background(), customer)
			return err == nil && d.Remaining == want
		})
	}
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
	const asked = `{"max_tokens":800,"model":"endless","stream":true,"stream_options":{"include_usage":true}}`
	wantLeft("bob", 1000-(int64(len(asked))/4+1)-3) // the prompt and three chunks

	model.Close()
	if r := question(background, t, address, "eve", "terse"); r.StatusCode != http.StatusBadGateway {
		t.Errorf("without a model: %s", r.Status)
	}
	wantLeft("eve", 1000)
}
