package main

import (
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
)

var instance = regexp.MustCompile(`(?m)^ *server (one )?127\.0\.0\.1:8080.*\n`)

// twoInstances is a file of docs/serve.md with two instances of sluiced, and a limit that nobody reaches.
func twoInstances(text string, ports map[string]string) string {
	second := map[string]string{"8080": ports["8082"], "9090": ports["9092"]}
	text = instance.ReplaceAllStringFunc(text, func(line string) string {
		return line + exampletest.WithPorts(strings.Replace(line, "server one", "server two", 1), second)
	})
	return exampletest.WithPorts(strings.Replace(text, "[100/1m]", "[1000000/1m]", 1), ports)
}

// nginx and HAProxy with two instances of sluiced, by docs/serve.md: no request fails while each is restarted, and
// without both a 503 says when to try again, and comes in time.
func TestProxiesOfInstances(t *testing.T) {
	for _, p := range proxies {
		if p.name != "nginx" && p.name != "haproxy" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			r := newRig(t, p, twoInstances)
			second := r.start(t, "8082", "8083", "9092")
			t.Cleanup(func() { second() })
			r.becomes(t, other, 200)
			time.Sleep(2 * time.Second) // HAProxy's checks know both
			counted := r.load(4, func() {
				for range 3 {
					r.stop()
					r.stop = r.start(t, "8080", "8081", "9090")
					time.Sleep(2 * time.Second)
					second()
					second = r.start(t, "8082", "8083", "9092")
					time.Sleep(2 * time.Second)
				}
			})
			t.Logf("a rolling restart: 200 %d times, others %d", counted[0], counted[1])
			if counted[0] < 100 || counted[1] > 0 {
				t.Error("requests failed")
			}
			r.stop()
			second()
			r.refuses(t, "down")
			r.stop = r.start(t, "8080", "8081", "9090")
			r.becomes(t, other, 200)
			time.Sleep(2 * time.Second)
			r.stop()
			for _, port := range []string{"8080", "8082", "9090", "9092"} { // takes connections, and answers nobody
				listener, err := net.Listen("tcp", "127.0.0.1:"+r.ports[port])
				must(t, err)
				t.Cleanup(func() { listener.Close() })
			}
			r.refuses(t, "frozen")
		})
	}
}

// load counts answers to clients while something is done: 200, and others.
func (r *rig) load(clients int, do func()) [2]int64 {
	var granted, others atomic.Int64
	var all sync.WaitGroup
	done := make(chan struct{})
	for range clients {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				time.Sleep(2 * time.Millisecond)
				if r.do(http.DefaultClient, "/", "198.18.0.1").StatusCode == 200 {
					granted.Add(1)
				} else {
					others.Add(1)
				}
			}
		})
	}
	do()
	close(done)
	all.Wait()
	return [2]int64{granted.Load(), others.Load()}
}

// refuses checks the answers of a proxy that cannot ask, and logs how long they took.
func (r *rig) refuses(t *testing.T, state string) {
	t.Helper()
	var took []time.Duration
	for i := range 6 {
		began := time.Now()
		response := r.do(http.DefaultClient, "/", "198.18.0.1")
		took = append(took, time.Since(began).Round(time.Millisecond))
		if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" ||
			response.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d, %v", state, response.StatusCode, response.Header)
		}
		if took[i] > 2500*time.Millisecond {
			t.Errorf("%s: a 503 after %v", state, took[i])
		}
	}
	t.Logf("%s: 503 after %v", state, took)
}
