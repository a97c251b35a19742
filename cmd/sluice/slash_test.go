package main

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// TestServerSlash has a limiter of a gRPC method's name: every command takes it, and the users of acl have their rights
// to its keys.
func TestServerSlash(t *testing.T) {
	const name = "orders.v1.Orders/Create"
	addr := redistest.Start(t).Addr
	env := []string{"SLUICE_REDIS=redis://" + addr}
	rdb := client(t, addr)
	limits := loader.New(rdb)
	granted := func() {
		t.Helper()
		d, err := limits.ListLog(name, loader.PerMinute(3)).Allow(background, "ada")
		must(t, err)
		b, err := limits.TokenBucket(name, loader.PerMinute(3)).Allow(background, "ada")
		must(t, err)
		if !d.Granted || !b.Granted {
			t.Errorf("%+v %+v, want grants", d, b)
		}
	}
	granted()
	const log = `sluice:orders\.v1\.Orders/Create:\{ada\}:ll1`
	wantText(t, sluiceRun(env, "inspect", name, "ada"), exitDone, log, `limiter +orders\.v1\.Orders/Create\n`)
	wantText(t, sluiceRun(env, "inspect", "sluice:"+name+":{ada}:ll1", "limit=3"), exitDone,
		`limiter +orders\.v1\.Orders/Create\n`)
	wantText(t, sluiceRun(env, "try", "gcra", "limit=3", "window=1m", "burst=3", "limiter="+name, "subject=ada"),
		exitDone, "granted")
	wantText(t, sluiceRun(env, "top", "--limiter", name), exitDone, `orders\.v1\.Orders/Create +ada\n`)
	wantText(t, sluiceRun(env, "top"), exitDone, `orders\.v1\.Orders/Create +ada\n`)
	wantText(t, sluiceRun(env, "set-rate", name, "ada", "rate=9", "interval=1m"), exitDone, "rate")
	wantText(t, sluiceRun(env, "reset", name, "ada"), exitDone, "removed   "+log)
	wantText(t, sluiceRun(env, "top", "--prefix", "a/b"), exitUsage, `prefix is "a/b": want letters`)

	must(t, limits.Preload(background))
	acl := sluiceRun(env, "acl")
	if acl.status != exitDone || !strings.Contains(acl.stdout, "~sluice:*") {
		t.Fatalf("acl: %+v", acl)
	}
	var command []any
	for word := range strings.FieldsSeq("ACL SETUSER use on nopass ~sluice:* +evalsha +@read +@write +time") {
		command = append(command, word)
	}
	must(t, rdb.Do(background, command...).Err())
	opt := *rdb.Options()
	opt.Username, opt.Password = "use", "any"
	user := redis.NewClient(&opt)
	t.Cleanup(func() { _ = user.Close() })
	limits = loader.New(user, loader.PreloadedOnly())
	granted()
}
