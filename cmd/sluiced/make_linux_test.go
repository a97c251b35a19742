package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
)

// The commands of README and of docs/serve.md: make serve, and curl beside it. The fourth login of a minute is denied.
func TestMakeServe(t *testing.T) {
	ports := map[string]string{}
	for _, port := range []string{"8080", "8081", "9090"} {
		ports[port] = exampletest.FreePort(t)
	}
	serve, out := exec.Command("make", "serve"), &output{}
	serve.Dir, serve.Stdout, serve.Stderr = "../..", out, out
	serve.Env = append(os.Environ(), "SLUICED_HTTP=127.0.0.1:"+ports["8080"], "SLUICED_GRPC=127.0.0.1:"+ports["8081"],
		"SLUICED_ADMIN=127.0.0.1:"+ports["9090"], "SLUICED_TIMEOUT=5s", "SLUICED_AUTH_TIMEOUT=5s")
	serve.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // make, go, and what go has built
	must(t, serve.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-serve.Process.Pid, syscall.SIGKILL)
		_ = serve.Wait()
	})
	built := time.Now().Add(3 * time.Minute)
	for get("http://127.0.0.1:"+ports["9090"]+"/readyz") != 200 {
		time.Sleep(50 * time.Millisecond)
		if time.Now().After(built) {
			t.Fatal(out)
		}
	}
	for _, page := range []string{"../../README.md", "../../docs/serve.md"} {
		text, err := os.ReadFile(page)
		must(t, err)
		commands := regexp.MustCompile(`(?m)^ +(?:\$ )?(curl -i localhost.*)$`).FindAllStringSubmatch(string(text), -1)
		if len(commands) == 0 {
			t.Errorf("%s shows no curl", page)
		}
		for _, command := range commands {
			text := strings.ReplaceAll(exampletest.WithPorts(command[1], ports), "localhost", "127.0.0.1")
			status := ""
			for tries := 0; tries < 4 && (tries == 0 || strings.Contains(text, "/auth/")); tries++ {
				answer, err := exec.Command("sh", "-c", text).Output()
				must(t, err)
				status, _, _ = strings.Cut(string(answer), "\r\n")
			}
			want := "HTTP/1.1 200 OK"
			if strings.Contains(text, "/auth/") {
				want = "HTTP/1.1 429 Too Many Requests"
			}
			if status != want {
				t.Errorf("%s: %s, want %s", text, status, want)
			}
		}
	}
}
