package loader_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// lossy is a client behind a proxy, and one that is not.
func lossy(t *testing.T) (p *proxy, rdb, direct *redis.Client) {
	t.Helper()
	server := redistest.Start(t)
	p = newProxy(t, server.Addr)
	opt := options(p.addr)
	opt.ReadTimeout = 200 * time.Millisecond
	rdb, direct = clientOf(t, opt), client(t, server.Addr)
	must(t, loader.New(direct).Preload(background))
	return p, rdb, direct
}

// losses are the ways to lose one decision, and how often it was charged.
var losses = []struct {
	name    string
	fault   fault
	charged int64
}{
	{"reply lost", fault{dropReply: true}, 1},
	{"request lost", fault{dropRequest: true}, 0},
	{"no answer", fault{silence: true}, 1},
}

// TestLostReplyWithoutID reports what was lost, and never charges it twice.
func TestLostReplyWithoutID(t *testing.T) {
	p, rdb, direct := lossy(t)
	limits := loader.New(rdb)
	contexts := map[string]context.Context{"background": background}
	ctx := within(t, time.Hour)
	contexts["with a deadline"] = ctx
	for _, loss := range losses {
		for name, ctx := range contexts {
			t.Run(loss.name+" "+name, func(t *testing.T) {
				subject := t.Name()
				p.next(loss.fault)
				_, err := limits.ListLog("x", loader.PerHour(5)).Allow(ctx, subject)
				e := as[*loader.OutcomeUnknownError](t, err)
				if !errors.Is(err, loader.ErrOutcomeUnknown) || e.Script != "list_log_v1" || len(e.Keys) != 1 || e.ID != "" {
					t.Errorf("%+v", e)
				}
				if n := direct.LLen(background, e.Keys[0]).Val(); n != loss.charged {
					t.Errorf("charged %d times, want %d", n, loss.charged)
				}
			})
		}
	}
}

// TestLostReplyWithID asks again and is charged once, however often it is lost.
func TestLostReplyWithID(t *testing.T) {
	p, rdb, direct := lossy(t)
	limits := loader.New(rdb, loader.Timeout(never))
	for _, loss := range losses {
		for lost := 1; lost <= 3; lost++ {
			t.Run(fmt.Sprintf("%s %d times", loss.name, lost), func(t *testing.T) {
				faults := make([]fault, lost)
				for i := range faults {
					faults[i] = loss.fault
				}
				log := limits.ZSetLog("x", loader.PerHour(5))
				p.next(faults...)
				wantGrant(t, log, t.Name(), 2)
				wantRemaining(t, log, t.Name(), 3)

				p.next(faults...)
				must(t, log.Wait(background, t.Name()))
				wantRemaining(t, log, t.Name(), 2)
			})
		}
	}
	t.Run("for ever", func(t *testing.T) {
		p.next(fault{dropReply: true}, fault{dropReply: true}, fault{dropReply: true}, fault{dropReply: true})
		log := limits.ZSetLog("x", loader.PerHour(5))
		_, err := log.Allow(background, "s")
		e := as[*loader.OutcomeUnknownError](t, err)
		if n := direct.ZCard(background, e.Keys[0]).Val(); n != 1 || e.ID == "" {
			t.Errorf("charged %d times: %+v", n, e)
		}
		wantGrant(t, log.WithID(e.ID), "s", 1)
		if n := direct.ZCard(background, e.Keys[0]).Val(); n != 1 {
			t.Errorf("charged %d times after asking with its id", n)
		}
	})
	t.Run("lost, then refused", func(t *testing.T) {
		readonly := fault{answer: "-READONLY You can't write against a read only replica.\r\n"}
		p.next(fault{dropReply: true}, readonly, readonly, readonly)
		_, err := limits.ZSetLog("x", loader.PerHour(5)).Allow(background, t.Name())
		as[*loader.OutcomeUnknownError](t, err)
	})
}

// TestLostLook asks again: it changes nothing.
func TestLostLook(t *testing.T) {
	p, rdb, _ := lossy(t)
	limits := loader.New(rdb, loader.Timeout(never))
	for _, loss := range losses {
		p.next(loss.fault)
		wantRemaining(t, limits.ListLog("x", loader.PerHour(5)), "s", 5)
		p.next(loss.fault, loss.fault, loss.fault, loss.fault)
		if _, err := limits.ListLog("x", loader.PerHour(5)).Peek(background, "s"); err == nil || errors.Is(err,
			loader.ErrOutcomeUnknown) {
			t.Errorf("%s for ever: %v", loss.name, err)
		}
	}
}

// TestGoRedisChargesTwice is the fault that the loader avoids: go-redis sends a command or a pipeline again whose reply
// is lost, and it is charged twice, silently.
func TestGoRedisChargesTwice(t *testing.T) {
	p, rdb, direct := lossy(t)
	p.next(fault{dropReply: true}, fault{dropReply: true})
	args := []any{5, 60000000, 1, 0}
	single := rdb.EvalSha(background, sluice.ListLogV1().SHA1, []string{"k"}, args...).Err()
	p.next(fault{first: 1}, fault{dropReply: true})
	pipe := rdb.Pipeline()
	for _, key := range []string{"a", "b"} {
		pipe.EvalSha(background, sluice.ListLogV1().SHA1, []string{key}, args...)
	}
	_, piped := pipe.Exec(background)
	for key, err := range map[string]error{"k": single, "a": piped} {
		if n := direct.LLen(background, key).Val(); err != nil || n != 3 {
			t.Errorf("charged %d times, %v: go-redis has changed, see whether NoRetry is still needed", n, err)
		}
	}
}

// TestDeadlineIsKept has a server keep its reply: the client would wait 10 s for it.
func TestDeadlineIsKept(t *testing.T) {
	p := newProxy(t, redistest.Start(t).Addr)
	opt := options(p.addr)
	opt.ReadTimeout = 10 * time.Second
	rdb := clientOf(t, opt)
	must(t, loader.New(rdb).Preload(background))
	calls := map[string]func() error{
		"deadline": func() error {
			ctx := within(t, 20*time.Millisecond)
			return errOf(loader.New(rdb).ListLog("x", loader.PerHour(5)).Allow(ctx, "s"))
		},
		"cancelled": func() error {
			ctx, cancel := context.WithCancel(background)
			time.AfterFunc(20*time.Millisecond, cancel)
			return loader.New(rdb).ListLog("x", loader.PerHour(5)).Wait(ctx, "s")
		},
		"with id": func() error {
			ctx := within(t, 20*time.Millisecond)
			return errOf(loader.New(rdb).ZSetLog("x", loader.PerHour(5)).Allow(ctx, "s"))
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			var err error
			for tries := 0; tries < 20 && !errors.Is(err, loader.ErrOutcomeUnknown); tries++ { // else it had not left in time
				p.next(fault{silence: true})
				started := time.Now()
				err = call()
				if elapsed := time.Since(started); elapsed > 5*time.Second {
					t.Fatalf("it took %v", elapsed)
				}
			}
			as[*loader.OutcomeUnknownError](t, err)
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	ctx := within(t, 20*time.Millisecond)
	p.next(fault{silence: true})
	_, err := loader.New(rdb).ListLog("x", loader.PerHour(5)).Peek(ctx, "s")
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, loader.ErrOutcomeUnknown) {
		t.Errorf("a look: %v", err)
	}
}

// TestServerThatNeverAnswers accepts connections and says nothing: no decision leaves, and what was begun
// ends by itself.
func TestServerThatNeverAnswers(t *testing.T) {
	opt := options(listen(t, func(conn net.Conn) { t.Cleanup(func() { _ = conn.Close() }) }))
	opt.ReadTimeout, opt.PoolSize, opt.MaxRetries = 300*time.Millisecond, 4, -1
	rdb := redis.NewClient(opt)
	before := runtime.NumGoroutine()
	limiter := loader.New(rdb).ListLog("x", loader.PerHour(5))
	for range 20 {
		ctx, cancel := context.WithTimeout(background, 5*time.Millisecond)
		_, err := limiter.Allow(ctx, "s")
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, loader.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		cancel()
	}
	must(t, rdb.Close())
	await(t, func() bool { return runtime.NumGoroutine() <= before })
}

// TestRaisedAfterAWrite has Redis end a script at a command, when it may have written: the outcome is unknown, unless
// the command was refused, the code says that nothing was written, or the call looks.
func TestRaisedAfterAWrite(t *testing.T) {
	p, rdb, _ := lossy(t)
	log := loader.New(rdb).ListLog("x", loader.PerHour(5))
	for _, text := range []string{
		"-ERR value is not an integer or out of range script: 9, on @user_script:1.",
		"-ERR Error running script (call to f_9): @user_script:1: @user_script: 1: attempt to index a nil value",
	} {
		p.next(fault{answer: text + "\r\n"})
		_, err := log.Allow(background, "s")
		_ = as[*loader.OutcomeUnknownError](t, err)
		p.next(fault{answer: text + "\r\n"})
		if _, err := log.Peek(background, "s"); err == nil || errors.Is(err, loader.ErrOutcomeUnknown) {
			t.Errorf("a look: %v", err)
		}
	}
	for _, text := range []string{
		"-OOM command not allowed when used memory > 'maxmemory'. script: 9, on @user_script:1.",
		"-ERR Error running script (call to f_9): @user_script:1: @user_script: 1: -OOM command not allowed",
		"-MISCONF Redis is configured to save RDB snapshots, but cannot script: 9, on @user_script:1.",
		"-NOPERM this user has no permissions to run the 'pexpireat' command script: 9, on @user_script:1.",
		"-ERR The user executing the script can't run this command or subcommand script: 9, on @user_script:1.",
		"-ERR Unknown Redis command called from script script: 9, on @user_script:1.",
		"-ERR Error running script (call to f_9): @user_script:1: @user_script: 1: -NOPERM no permissions",
		"-ERR Error running script (call to f_9): @user_script:1: @user_script: 1: Write commands not allowed " +
			"after non deterministic commands.",
		"-READONLY You can't write against a read only replica. script: 9, on @user_script:1.",
		"-NOPERM this user has no permissions to run the 'rpush' command",
	} {
		p.next(slices.Repeat([]fault{{answer: text + "\r\n"}}, 9)...)
		if _, err := log.Allow(background, "s"); err == nil || errors.Is(err, loader.ErrOutcomeUnknown) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestRightsWithheld has a user without the right to a command that a script needs after it has written: it is refused,
// and the script takes back what it wrote. What it may not take back stays charged.
func TestRightsWithheld(t *testing.T) {
	admin := real(t)
	must(t, loader.New(admin).Preload(background))
	user := func(name string, without ...any) *loader.Loader {
		rules := append([]any{"ACL", "SETUSER", name, "on", ">secret", "~*", "+@all"}, without...)
		must(t, admin.Do(background, rules...).Err())
		opt := options(admin.Options().Addr)
		opt.Username, opt.Password = name, "secret"
		return loader.New(clientOf(t, opt))
	}
	limits := user("noexpiry", "-pexpireat")
	for _, limiter := range []loader.Limiter{
		limits.ListLog("x", loader.PerHour(5)), limits.ZSetLog("x", loader.PerHour(5)), limits.TokenBucket("x",
			loader.PerHour(5)),
	} {
		_, err := limiter.Allow(background, "s")
		if err == nil || errors.Is(err, loader.ErrOutcomeUnknown) {
			t.Errorf("%T: %v", limiter, err)
		}
		d, err := limiter.Peek(background, "s")
		must(t, err)
		if d.Remaining != 5 {
			t.Errorf("%T: %d remain, want 5: nothing was charged", limiter, d.Remaining)
		}
	}
	list := user("neither", "-pexpireat", "-ltrim").ListLog("x", loader.PerHour(5))
	_, err := list.Allow(background, "t")
	if err == nil || errors.Is(err, loader.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "lacks a right") {
		t.Error(err)
	}
	wantRemaining(t, list, "t", 4)
}

// TestCancelledBeforeItLeft has callers cancelled when their decision is about to be written: nothing is charged for
// them, also where one command asks for several.
func TestCancelledBeforeItLeft(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		rdb := real(t)
		direct := client(t, rdb.Options().Addr)
		limits := loader.New(rdb, append(opts, loader.Timeout(never))...)
		must(t, limits.Preload(background))
		limiter := limits.ListLog("x", loader.PerHour(1000))
		arrived, through := make(chan struct{}), make(chan struct{})
		rdb.AddHook(around(func(_ context.Context, _ []redis.Cmder, send func() error) error { // before it is written
			arrived <- struct{}{}
			<-through
			return send()
		}))
		ctx, cancel := context.WithCancel(background)
		var all sync.WaitGroup
		ask := func(ctx context.Context, n int, want error) {
			for range n {
				all.Go(func() {
					err := errOf(limiter.Allow(ctx, "s"))
					if !errors.Is(err, want) || errors.Is(err, loader.ErrOutcomeUnknown) {
						t.Errorf("%v, want %v: it has not left", err, want)
					}
				})
			}
		}
		ask(background, 1, nil)
		<-arrived
		want := int64(1)
		if how == "shared" {
			ask(background, 1, nil)
			<-arrived
			ask(ctx, 5, context.Canceled)
			ask(background, 1, nil)
			await(t, func() bool { return limits.SharedRequests() == 6 })
			through <- struct{}{}
			through <- struct{}{}
			want = 3
		} else {
			ask(ctx, 1, context.Canceled)
		}
		<-arrived
		cancel()
		time.AfterFunc(soon, func() { close(through) })
		go func() {
			for range arrived {
			}
		}()
		all.Wait()
		await(t, func() bool { return direct.LLen(background, "sluice:x:{s}:ll1").Val() >= want })
		if n := direct.LLen(background, "sluice:x:{s}:ll1").Val(); n != want {
			t.Errorf("%d were charged, want %d: those who stayed", n, want)
		}
	})
}
