// Package runner stands in for that of envoyproxy/ratelimit in its own tests: it runs sluiced, by the same settings.
package runner

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/envoyproxy/ratelimit/src/settings"
)

// Runner is one sluiced. All its limits are in one Redis, those of seconds too.
type Runner struct {
	process *exec.Cmd
	admin   string
	ended   chan struct{}
}

// NewRunner makes a Runner.
func NewRunner(s settings.Settings) Runner {
	redis := url.URL{Scheme: "redis", Host: s.RedisUrl}
	if s.RedisAuth != "" {
		redis.User = url.UserPassword("", s.RedisAuth)
	}
	admin := fmt.Sprintf("localhost:%d", s.DebugPort)
	args := []string{"serve", "--timeout", "10s", "--grpc", fmt.Sprintf("localhost:%d", s.GrpcPort), "--http", "",
		"--admin", admin, "--prefix", "sluice" + strings.Trim(s.CacheKeyPrefix, ":")}
	if s.GrpcServerUseTLS {
		args = append(args, "--tls-cert", s.GrpcServerTlsCert, "--tls-key", s.GrpcServerTlsKey)
	}
	switch s.RedisType { // clusters and Sentinels of redistest have no password
	case "cluster":
		redis, args = url.URL{}, append(args, "--cluster", s.RedisUrl)
	case "sentinel":
		redis, args = url.URL{}, append(args, "--sentinel", strings.Replace(s.RedisUrl, ",", "@", 1))
	}
	files := filepath.Join(s.RuntimePath, s.RuntimeSubdirectory, s.RuntimeAppDirectory)
	cmd := exec.Command(os.Getenv("SLUICED"), append(args, files)...)
	cmd.Env, cmd.Stderr = os.Environ(), os.Stderr
	if redis.Host != "" {
		cmd.Env = append(cmd.Env, "SLUICED_REDIS="+redis.String())
	}
	return Runner{cmd, admin, make(chan struct{})}
}

// Run returns when sluiced has ended.
func (r *Runner) Run() {
	defer close(r.ended)
	_ = r.process.Run()
}

// Stop ends it.
func (r *Runner) Stop() {
	_ = r.process.Process.Kill()
	<-r.ended
}

// GetStatsStore returns statistics, of which only that of reloads counts.
func (r *Runner) GetStatsStore() Stats { return Stats{r.admin} }

// Stats has the methods that the tests call.
type Stats struct{ admin string }

// Flush does nothing.
func (Stats) Flush() {}

// NewGauge returns what stands at 0.
func (Stats) NewGauge(string) Stat { return Stat{} }

// NewCounterWithTags returns what stands at 0.
func (Stats) NewCounterWithTags(string, map[string]string) Stat { return Stat{} }

// NewCounter returns the number of reloads, or what stands at 0.
func (s Stats) NewCounter(name string) Stat {
	if name != "ratelimit.service.config_load_success" {
		return Stat{}
	}
	return Stat{s.admin}
}

// Stat is a number of reloads.
type Stat struct{ admin string }

// Value reads it.
func (s Stat) Value() (reloads uint64) {
	if s.admin == "" {
		return 0
	}
	response, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	for _, found := range regexp.MustCompile(`(?m)^sluiced_reloads_total{.*} (\d+)$`).FindAllSubmatch(text, -1) {
		n, _ := strconv.ParseUint(string(found[1]), 10, 64)
		reloads += n
	}
	return reloads
}
