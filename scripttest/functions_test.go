package scripttest_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// functionServer calls the scripts as Redis Functions on a master, and each look on its replica as well, by FCALL_RO.
type functionServer struct {
	modelServer
	replica *redis.Client
	looked  *int
}

// TestServerVectorsByFunctions plays every vector by FCALL.
func TestServerVectorsByFunctions(t *testing.T) {
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		on := functionServer{modelServer: startModelServer(t, server.Addr), looked: new(int)}
		for _, library := range sluice.Libraries() {
			must(t, on.client.FunctionLoad(context.Background(), onTestClocks(t, library)).Err())
		}
		on.fcall = true
		on.edit = func(source string) string { return source }
		on.follow(t, server)
		steps := 0
		eachVector(t, func(t *testing.T, script *sluice.Script, tl vectorTimeline) {
			on.reset(false)
			on.t = t
			steps += len(tl.Steps)
			tl.play(t, on, script)
		})
		if stats := on.client.Info(context.Background(), "commandstats").Val(); strings.Contains(stats, "cmdstat_eval") {
			t.Errorf("scripts were called: %s", stats)
		}
		t.Logf("%d steps, %d looks on a replica too", steps, *on.looked)
		if *on.looked == 0 {
			t.Error("no look was asked of the replica")
		}
	})
}

// onTestClocks is a library that holds scripts that read the time from clockKey.
func onTestClocks(t *testing.T, library sluice.Library) string {
	source := library.Source
	for _, script := range sluice.All() {
		if strings.Count(source, script.Source) != 1 {
			t.Fatalf("%s is not in %s once", script.File, library.File)
		}
		source = strings.Replace(source, script.Source, onTestClock(script.Source), 1)
	}
	return source
}

// follow starts the replica.
func (s *functionServer) follow(t *testing.T, master *redistest.Server) {
	s.replica = connect(t, redistest.StartBinary(t, master.Binary).Addr)
	host, port, _ := net.SplitHostPort(master.Addr)
	must(t, s.replica.ReplicaOf(context.Background(), host, port).Err())
	redistest.AwaitReplica(t, s.replica)
}

// call asks the master. A look must get the same from the replica.
func (s functionServer) call(script *sluice.Script, look bool, keys, args []string) ([]int64, string) {
	reply, failed := s.remote.call(script, look, keys, args)
	if !look {
		return reply, failed
	}
	*s.looked++
	if n, err := s.client.Do(context.Background(), "WAIT", "1", "10000").Int(); n != 1 || err != nil {
		s.t.Fatalf("WAIT: %d, %v", n, err)
	}
	again, err := s.replica.FCallRO(context.Background(), lookOf(script), keys, anys(args)...).Int64Slice()
	failedAgain := ""
	if err != nil {
		failedAgain = err.Error()
	}
	if failed != failedAgain || !slices.Equal(reply, again) {
		s.t.Errorf("%s %q: the replica says %v %q, the master %v %q", script.Name, args, again, failedAgain, reply, failed)
	}
	return reply, failed
}

// lookOf is the function that only looks.
func lookOf(script *sluice.Script) string { return strings.TrimSuffix(script.File, ".lua") + "_look" }

// TestServerLooksRefuseToCharge: a function that only looks refuses a call that would do more.
func TestServerLooksRefuseToCharge(t *testing.T) {
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		client := connect(t, server.Addr)
		for _, library := range sluice.Libraries() {
			must(t, client.FunctionLoad(context.Background(), library.Source).Err())
		}
		looking := 0
		for _, tab := range tables {
			if !decides(tab.script) {
				continue
			}
			looking++
			look, _ := lookArg(tab.script)
			for i, arg := range tab.script.Args {
				if i != look && arg.Name != "reported" {
					continue
				}
				args := slices.Repeat([]string{"0"}, len(tab.script.Args)) // but for this one, a look
				args[i] = "1"
				want := "BADARG " + arg.Name + ": want 0"
				if arg.Name == "id" {
					want = "BADARG id: want an empty one"
				}
				err := client.FCallRO(context.Background(), lookOf(tab.script), tab.keys[:1], anys(args)...).Err()
				if err == nil || err.Error() != want {
					t.Errorf("%s %q: %v, want %s", lookOf(tab.script), args, err, want)
				}
			}
		}
		if looking < 8 {
			t.Errorf("%d scripts look", looking)
		}
	})
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
