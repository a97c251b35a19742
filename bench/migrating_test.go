package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// oursAmong are the parameters among which the calls of Sluice in docs/migrating.md stand, theirsAmong those of the
// library of a heading.
const oursAmong = `ctx context.Context, rdb *redis.Client, limits *loader.Loader, limit loader.Limit, api loader.GCRA,
	login loader.ListLog, jobs loader.TokenBucket, d loader.Decision, user, subject, id string, n int64, h http.Handler,
	get, path func(*http.Request) string, refuse httplimit.Refusal`

var theirsAmong = map[string]string{
	"redis_rate": `rdb *redis.Client, l *redis_rate.Limiter, limit redis_rate.Limit, res *redis_rate.Result,
		ctx context.Context, key, user string, n int`,
	"ulule/limiter": `rdb *redis.Client, rate limiter.Rate, store limiter.Store, l *limiter.Limiter, c limiter.Context,
		ctx context.Context, key string, n int64, h http.Handler, get func(*http.Request) string,
		failed stdlib.ErrorHandler, reached stdlib.LimitReachedHandler`,
	"throttled": `store throttled.GCRAStoreCtx, quota throttled.RateQuota, l *throttled.GCRARateLimiterCtx, limited bool,
		res throttled.RateLimitResult, m throttled.HTTPRateLimiterCtx, ctx context.Context, key string, n int,
		h http.Handler`,
	"go-limiter": `store limiter.Store, tokens uint64, interval time.Duration, m *httplimit.Middleware,
		dial func() (redigo.Conn, error), ctx context.Context, key string, h http.Handler`,
}

// imported are the packages by the names that the page gives them. go-limiter has others.
var imported = map[string]string{
	"context": "context", "http": "net/http", "time": "time", "redis": "github.com/redis/go-redis/v9",
	"loader": "github.com/sluice-redis/sluice/loader", "httplimit": "github.com/sluice-redis/sluice/httplimit",
	"redis_rate": "github.com/go-redis/redis_rate/v10", "throttled": "github.com/throttled/throttled/v2",
	"limiter": "github.com/ulule/limiter/v3", "stdlib": "github.com/ulule/limiter/v3/drivers/middleware/stdlib",
	"sredis": "github.com/ulule/limiter/v3/drivers/store/redis", "redigo": "github.com/gomodule/redigo/redis",
	"redisstore": "github.com/sethvargo/go-redisstore",

	"go-limiter limiter":   "github.com/sethvargo/go-limiter",
	"go-limiter httplimit": "github.com/sethvargo/go-limiter/httplimit",
}

// Every call in the tables of docs/migrating.md compiles: those of Sluice, and those of the libraries in Go.
func TestMigratingCompiles(t *testing.T) {
	dir, files, calls := t.TempDir(), []string{"vet"}, 0
	compile := func(library, params, cells string) {
		var body strings.Builder
		for _, code := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells, -1) {
			calls++
			fmt.Fprintf(&body, "func _(%s) {{\n%s\n}}\n", params, statement(code[1]))
		}
		source := "package main\n"
		for name, path := range imported {
			if other := imported[library+" "+name]; other != "" {
				path = other
			}
			if regexp.MustCompile(`\b` + name + `\.`).MatchString(body.String()) {
				source += fmt.Sprintf("import %s %q\n", name, path)
			}
		}
		file := filepath.Join(dir, fmt.Sprintf("calls%d.go", len(files)))
		must(t, os.WriteFile(file, []byte(source+body.String()), 0o600))
		files = append(files, file)
	}
	for _, section := range strings.Split(read(t, "../docs/migrating.md"), "\n## ") {
		library := strings.Fields(section)[0]
		for _, row := range regexp.MustCompile(`(?m)^\|([^|]*)\|(.*)\|$`).FindAllStringSubmatch(section, -1) {
			if params, inGo := theirsAmong[library]; inGo {
				compile(library, params, row[1])
			}
			compile("", oursAmong, row[2])
		}
	}
	if out, err := exec.Command("go", files...).CombinedOutput(); err != nil || calls < 80 {
		t.Errorf("%d calls: %v\n%s", calls, err, out)
	}
}

// statement is a call, a declaration of values that are used, or another expression that is used.
func statement(code string) string {
	if names, _, declares := strings.Cut(code, " := "); declares {
		return code + "\n_" + strings.Repeat(", _", strings.Count(names, ",")) + " = " + names
	}
	expr, err := parser.ParseExpr(code)
	if _, name := expr.(*ast.Ident); err == nil && name {
		return ""
	}
	if _, call := expr.(*ast.CallExpr); call {
		return code
	}
	return "_ = " + code
}

// TestServerMigratingSteps holds docs/migrating.md to "exactly the limit in each step". Half of the processes have
// taken each step and half have not, 300 requests of one subject come in a window, and 100 are granted.
func TestServerMigratingSteps(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	defer rdb.Close()
	before, after := redis_rate.NewLimiter(rdb), loader.New(rdb).ListLog("api", loader.PerHour(100))
	old := func(subject string) bool {
		res, err := before.Allow(t.Context(), "api:"+subject, redis_rate.Limit{Rate: 100, Burst: 100, Period: time.Hour})
		must(t, err)
		return res.Allowed > 0
	}
	sluice := func(subject string) bool {
		d, err := after.Allow(t.Context(), subject)
		must(t, err)
		return d.Granted
	}
	both := func(subject string) bool { return old(subject) && sluice(subject) }
	for _, step := range []struct {
		name         string
		first, later func(string) bool
	}{{"to both", old, both}, {"to Sluice alone", both, sluice}} {
		granted := 0
		for n := range 300 { // the first 50 before the step, then both sides of it by turns
			decide := step.first
			if n >= 50 && n%2 == 0 {
				decide = step.later
			}
			if decide(step.name) {
				granted++
			}
		}
		if granted != 100 {
			t.Errorf("%s: %d of 300 granted, want 100", step.name, granted)
		}
	}
}
