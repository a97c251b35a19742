package policy_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
)

const (
	oneLimit   = "limits: {x: {by: request.ip, rates: 5/1m}}"
	otherLimit = "limits: {x: {by: request.ip, rates: 7/1m}}"
	wrongLimit = "limits: {x: {by: request.ip, rates: 7/1x}}"
)

// permitsOf is the first rate of the first policy.
func permitsOf(p *policy.Policies) int64 { return p.File().Policies[0].Rates[0].Permits }

// notes is a log that is written and read at once.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := n.text.String()
	n.text.Reset()
	return text
}

func loadFile(t *testing.T, limits *loader.Loader, path string, opts ...policy.Option) *policy.Policies {
	t.Helper()
	policies, err := policy.Load(limits, path, opts...)
	must(t, err)
	return policies
}

func write(t *testing.T, path, src string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(src), 0o600))
}

// Each change is applied at the second look that finds it, and told once.
func TestReload(t *testing.T) {
	_, limits := fakeRedis(t)
	path := writeFile(t, oneLimit)
	synctest.Test(t, func(t *testing.T) {
		log := &notes{}
		policies := loadFile(t, limits, path, policy.Logger(slog.New(slog.NewTextHandler(log, nil))))
		defer policies.Close()
		for _, c := range []struct {
			what    string
			change  func()
			permits int64
			logged  string // in the log, within 3 s
		}{
			{"nothing", func() {}, 5, ""},
			{"written", func() { write(t, path, otherLimit) }, 7, "policy file applied"},
			{"written the same", func() { write(t, path, otherLimit) }, 7, ""},
			{"wrong", func() { write(t, path, wrongLimit) }, 7, `limits.yaml:1:37: rate`},
			{"still wrong", func() {}, 7, ""},
			{"right again", func() { write(t, path, oneLimit) }, 5, "policy file applied"},
			{"removed", func() { _ = os.Remove(path) }, 5, "no such file"},
			{"back", func() { write(t, path, otherLimit) }, 7, "policy file applied"},
			{"renamed", func() {
				write(t, path+".new", oneLimit)
				_ = os.Rename(path+".new", path)
			}, 5, "policy file applied"},
		} {
			c.change()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			logged := log.take()
			if got := permitsOf(policies); got != c.permits {
				t.Errorf("%s: %d permits, want %d", c.what, got, c.permits)
			}
			if (logged == "") != (c.logged == "") || !strings.Contains(logged, c.logged) || strings.Count(logged, "\n") > 1 {
				t.Errorf("%s: logged %q, want one line with %q", c.what, logged, c.logged)
			}
		}
	})
}

// A text that has changed again at the next look is not applied: it may be half of a file.
func TestReloadHalfWritten(t *testing.T) {
	_, limits := fakeRedis(t)
	path := writeFile(t, oneLimit)
	synctest.Test(t, func(t *testing.T) {
		log := &notes{}
		policies := loadFile(t, limits, path, policy.Logger(slog.New(slog.NewTextHandler(log, nil))))
		defer policies.Close()
		for n := range len(otherLimit) {
			write(t, path, otherLimit[:n])
			time.Sleep(time.Second)
			synctest.Wait()
			if got := permitsOf(policies); got != 5 {
				t.Fatalf("%q was applied", otherLimit[:n])
			}
		}
		if logged := log.take(); logged != "" {
			t.Errorf("logged %q", logged)
		}
	})
}

// Kubernetes swaps a link to a folder, through which the file is found.
func TestReloadLink(t *testing.T) {
	_, limits := fakeRedis(t)
	dir := t.TempDir()
	for name, src := range map[string]string{"..1": oneLimit, "..2": otherLimit} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		write(t, filepath.Join(dir, name, "limits.yaml"), src)
	}
	data, path := filepath.Join(dir, "..data"), filepath.Join(dir, "limits.yaml")
	must(t, os.Symlink("..1", data))
	must(t, os.Symlink("..data/limits.yaml", path))
	policies := loadFile(t, limits, path, policy.ReloadEvery(time.Millisecond))
	defer policies.Close()
	must(t, os.Symlink("..2", data+"_tmp"))
	must(t, os.Rename(data+"_tmp", data))
	redistest.Await(t, "the other file", func() bool { return permitsOf(policies) == 7 })
}

// Why a policy cannot be applied is logged once a minute.
func TestComplaintPause(t *testing.T) {
	_, limits := fakeRedis(t)
	synctest.Test(t, func(t *testing.T) {
		var log notes
		policies := load(t, limits, "limits: {x: {by: user.key, rates: 1/1m}}",
			policy.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		for n, c := range []struct {
			after time.Duration
			lines int
		}{{0, 1}, {59 * time.Second, 0}, {time.Second, 1}, {time.Second, 0}, {time.Hour, 1}} {
			time.Sleep(c.after)
			if _, err := policies.Decide(t.Context(), from("192.0.2.1")); err == nil {
				t.Error("a call without a user was decided")
			}
			if logged := log.take(); strings.Count(logged, "\n") != c.lines {
				t.Errorf("call %d: logged %q, want %d lines", n, logged, c.lines)
			}
		}
	})
}

func TestReloadByHand(t *testing.T) {
	_, limits := fakeRedis(t)
	path := writeFile(t, oneLimit)
	policies := loadFile(t, limits, path, policy.ReloadEvery(0))
	write(t, path, wrongLimit)
	if err := policies.Reload(); err == nil || permitsOf(policies) != 5 {
		t.Errorf("a wrong file: %v, %d permits", err, permitsOf(policies))
	}
	write(t, path, otherLimit)
	if err := policies.Reload(); err != nil || permitsOf(policies) != 7 {
		t.Errorf("a right file: %v, %d permits", err, permitsOf(policies))
	}
	must(t, policies.Close())
	must(t, policies.Close())
}

// What was granted stays counted where name and script stay, in Redis and in the local limiters of this process.
func TestReloadKeepsState(t *testing.T) {
	server, limits := fakeRedis(t)
	path := writeFile(t, "limits: {x: {by: request.ip, rates: 3/1m, fail: local 1}}")
	policies := loadFile(t, limits, path, policy.ReloadEvery(0))
	wantRemaining := func(what string, want int64) {
		t.Helper()
		if d := decide(t, policies, from("192.0.2.1")); !d.Granted || d.Remaining != want {
			t.Errorf("%s: %d remaining, want %d", what, d.Remaining, want)
		}
	}
	reload := func(src string) {
		t.Helper()
		write(t, path, src)
		must(t, policies.Reload())
	}
	wantRemaining("first", 2)
	reload("limits: {x: {by: request.ip, rates: 5/1m, fail: local 1}}")
	wantRemaining("a higher limit", 3)
	reload("limits: {x: {by: request.ip, rates: 5/1m, script: slice_ring, fail: local 1}}")
	wantRemaining("another script", 4)
	reload("limits: {y: {by: request.ip, rates: 5/1m, fail: local 1}}")
	wantRemaining("another name", 4)

	server.Close()
	wantRemaining("without Redis", 4)
	reload("# The same limits.\nlimits: {y: {by: request.ip, rates: 5/1m, fail: local 1}}")
	wantRemaining("without Redis, after a reload", 3)
}

// Under load, each call is decided by the old file or by the new one, and no reload loses what was granted.
func TestReloadUnderLoad(t *testing.T) {
	_, limits := fakeRedis(t)
	const two = "limits: {x: {by: request.ip, rates: 50/1m}, y: {by: request.ip, rates: 60/1m}}"
	const one = "# the same x\nlimits: {x: {by: request.ip, rates: 50/1m}}"
	path := writeFile(t, one)
	policies := loadFile(t, limits, path, policy.ReloadEvery(time.Millisecond),
		policy.Logger(slog.New(slog.DiscardHandler)))
	defer policies.Close()
	stop := make(chan struct{})
	var writer, callers sync.WaitGroup
	writer.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			src := []string{one, two, wrongLimit}[n%3]
			_ = os.WriteFile(path+".new", []byte(src), 0o600)
			_ = os.Rename(path+".new", path)
			_ = policies.Reload()
		}
	})
	var mu sync.Mutex
	granted := 0
	for range 8 {
		callers.Go(func() {
			for range 50 {
				d, err := policies.Decide(context.Background(), from("192.0.2.1"))
				if err != nil {
					t.Error(err)
				}
				if d.Granted {
					mu.Lock()
					granted++
					mu.Unlock()
				}
				if n := len(d.Policies); n < 1 || n > 2 {
					t.Errorf("%d policies decided", n)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	writer.Wait()
	if granted > 50 {
		t.Errorf("%d calls were granted, of 50", granted)
	}
	if granted == 0 {
		t.Error("no call was granted")
	}
}

// What nobody made is an error where it is used, and can be closed.
func TestNothingMade(t *testing.T) {
	_, limits := fakeRedis(t)
	if _, err := policy.New(limits, nil); err == nil {
		t.Error("New took no file")
	}
	must(t, new(policy.Policies).Close())
}

// All observers are told, in their order.
func TestObservers(t *testing.T) {
	_, limits := fakeRedis(t)
	var logged []string
	named := func(name string) policy.Option {
		return policy.Observe(func(context.Context, policy.Decision, error) { logged = append(logged, name) })
	}
	policies := load(t, limits, oneLimit, named("first"), policy.Observe(nil), named("second"))
	_, err := policies.Decide(t.Context(), policy.Attributes{})
	must(t, err)
	if want := []string{"first", "second"}; !slices.Equal(logged, want) {
		t.Errorf("logged %q, want %q", logged, want)
	}
}
