// Command llmproxy is an HTTP proxy in front of a language model that streams its answers as server-sent events, as
// OpenAI's chat completions do. It limits the tokens of each customer, in any minute and in any 24 hours: it reserves
// what the request may cost at most, and settles what the model says that it did cost. Beyond the limit it answers 429
// with a Retry-After header, and 503 when Redis cannot tell.
//
//	go run ./examples/llmproxy -model http://localhost:9000 -redis redis://localhost:6379 -listen localhost:8080
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/loader"
)

func main() {
	model := flag.String("model", "http://localhost:9000", "the model's endpoint")
	redisURL := flag.String("redis", "redis://localhost:6379", "the Redis to share the limits through")
	listen := flag.String("listen", "localhost:8080", "the address to serve on")
	perMinute := flag.Int64("tokens", 200_000, "tokens that a customer may use in a minute; 25 times as many in a day")
	flag.Parse()

	endpoint, err := url.Parse(*model)
	if err != nil {
		log.Fatalf("-model: %v", err)
	}
	options, err := redis.ParseURL(*redisURL)
	if err != nil {
		log.Fatalf("-redis: %v", err)
	}
	limits := loader.New(redis.NewClient(options), loader.Logger(slog.Default()))
	tokens := limits.Budget("tokens", []loader.Limit{loader.PerMinute(*perMinute), loader.PerDay(25 * *perMinute)})
	if err := tokens.Check(); err != nil { // wrong limits are found here, not by the first customer
		log.Fatal(err)
	}
	p := newProxy(tokens, endpoint)

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s", listener.Addr())
	server := &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		<-interrupted.Done()
		stop() // a second interrupt ends the program at once
		_ = server.Shutdown(context.Background())
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	<-answered // Serve returns while answers are still running, and each of them settles at its end
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = limits.Flush(ctx)
}

// proxy passes requests on to the model.
type proxy struct {
	tokens  loader.Budget
	forward *httputil.ReverseProxy
}

func newProxy(tokens loader.Budget, model *url.URL) *proxy {
	return &proxy{tokens: tokens, forward: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(model)
			r.Out.Header.Del("Accept-Encoding") // meter reads plain text
		},
		ModifyResponse: meter,
		ErrorHandler:   refuseUnreached,
	}}
}

// ServeHTTP reserves, passes the request on, and settles, also if the customer leaves in the middle of the answer. A
// real gateway looks up the customer by the API key.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	customer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	u, err := newUsage(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil || customer == "" {
		http.Error(w, "want a Bearer token and a JSON object", http.StatusBadRequest)
		return
	}
	id := rand.Text() // of our own: an id that the customer chose could be sent twice, and be charged once
	reserved, err := p.tokens.Reserved(r.Context(), customer, id, u.prompt+u.maxTokens)
	defer reserved.Settle() // also if the customer leaves, and in the background while Redis is down
	switch {
	case errors.Is(err, loader.ErrExceedsLimit):
		http.Error(w, "max_tokens is more than the limit", http.StatusBadRequest)
	case err != nil:
		slog.Warn("limit not checked", "error", err)
		http.Error(w, "the limit cannot be checked now", http.StatusServiceUnavailable)
	case !reserved.Granted:
		w.Header().Set("Retry-After", strconv.FormatInt(reserved.RetryAfterSeconds(), 10))
		http.Error(w, "too many tokens", http.StatusTooManyRequests)
	default:
		defer func() {
			if cost, known := u.cost(); known { // otherwise the estimate stays
				reserved.Used = cost
			}
		}()
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(u.request)), int64(len(u.request))
		p.forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), usageKey{}, u)))
	}
}

// usage is what one request costs, in tokens.
type usage struct {
	request   []byte
	prompt    int64 // about 4 bytes each
	maxTokens int64
	status    int    // of the model's answer; 0: none, -1: the model was not reached
	produced  int64  // chunks of the answer so far, of about a token each
	total     int64  // as the model says in its last chunk
	line      []byte // that has not ended
}

type usageKey struct{}

// newUsage reads a request, and asks for the usage in the last chunk of the answer.
func newUsage(body io.Reader) (*usage, error) {
	u := &usage{maxTokens: 1000}
	request := map[string]json.RawMessage{}
	if err := json.NewDecoder(body).Decode(&request); err != nil {
		return nil, err
	}
	if limit, ok := request["max_tokens"]; ok {
		if err := json.Unmarshal(limit, &u.maxTokens); err != nil || u.maxTokens < 0 {
			return nil, errors.New("bad max_tokens")
		}
	}
	if string(request["stream"]) == "true" {
		request["stream_options"] = json.RawMessage(`{"include_usage":true}`)
	}
	var err error
	u.request, err = json.Marshal(request)
	u.prompt = int64(len(u.request)/4 + 1)
	return u, err
}

// meter has usage read the answer along with the customer.
func meter(response *http.Response) error {
	u, _ := response.Request.Context().Value(usageKey{}).(*usage)
	u.status = response.StatusCode
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(response.Body, u), response.Body}
	return nil
}

// refuseUnreached answers for a model that does not.
func refuseUnreached(w http.ResponseWriter, r *http.Request, err error) {
	slog.Warn("no answer from the model", "error", err)
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		u, _ := r.Context().Value(usageKey{}).(*usage)
		u.status = -1
	}
	w.WriteHeader(http.StatusBadGateway)
}

// Write reads a piece of the answer.
func (u *usage) Write(piece []byte) (int, error) {
	u.line = append(u.line, piece...)
	for {
		line, rest, ended := bytes.Cut(u.line, []byte("\n"))
		if !ended {
			return len(piece), nil
		}
		u.read(line)
		u.line = rest
	}
}

// read reads one line: "data: {...}", "data: [DONE]", an empty one, or the whole of an answer that is not streamed.
func (u *usage) read(line []byte) {
	var chunk struct {
		Choices []json.RawMessage
		Usage   struct {
			Total int64 `json:"total_tokens"`
		}
	}
	if json.Unmarshal(bytes.TrimPrefix(line, []byte("data: ")), &chunk) == nil {
		u.total = max(u.total, chunk.Usage.Total)
		u.produced += int64(len(chunk.Choices))
	}
}

// cost is what the model says or, if the answer has ended before that, what it has produced. A model that refuses or is
// not reached costs nothing.
func (u *usage) cost() (tokens int64, known bool) {
	u.read(u.line)
	switch {
	case u.total > 0:
		return u.total, true
	case u.produced > 0:
		return u.prompt + u.produced, true
	}
	return 0, u.status != 0 && u.status != http.StatusOK
}
