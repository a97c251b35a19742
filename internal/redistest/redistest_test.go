package redistest

import (
	"context"
	"testing"
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
		if (&Server{Addr: addr}).answers() {
			t.Errorf("%s still answers on %s after its test", binary, addr)
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
