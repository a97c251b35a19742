package redistest

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/localredis"
)

func TestStart(t *testing.T) {
	for _, binary := range Servers(t) {
		var addr string
		t.Run(binary, func(t *testing.T) {
			s := StartBinary(t, binary, "--maxmemory", "7mb")
			addr = s.Addr
			got, err := s.Client(t).ConfigGet(context.Background(), "maxmemory").Result()
			if err != nil || got["maxmemory"] != "7340032" {
				t.Errorf("CONFIG GET maxmemory = %v, %v; want the extra argument's 7340032", got, err)
			}
		})
		if (&localredis.Server{Addr: addr}).Answers() {
			t.Errorf("%s still answers on %s after its test", binary, addr)
		}
	}
}

// A server whose port another one has taken first is not mistaken for it.
func TestPortIsTaken(t *testing.T) {
	for _, binary := range Servers(t) {
		late := &localredis.Server{Addr: StartBinary(t, binary).Addr, Binary: binary, Dir: t.TempDir()}
		t.Cleanup(late.Kill)
		if err := late.Restart(); err == nil || !strings.Contains(err.Error(), "ended at once") {
			t.Errorf("%s: %v", binary, err)
		}
	}
}

func TestServersFromEnvironment(t *testing.T) {
	t.Setenv(Environment, " /bin/true   /bin/sh ")
	got := Servers(t)
	if len(got) != 2 || got[0] != "/bin/true" || got[1] != "/bin/sh" {
		t.Errorf("Servers = %q", got)
	}
}
