package main

import (
	"context"
	"crypto/sha1"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

func TestServerLoadAndVerify(t *testing.T) {
	server := redistest.Start(t)
	url := "redis://" + server.Addr
	check := func(wantStatus int, wantText string, args ...string) {
		t.Helper()
		got := sluiceRun(nil, append(args, "--redis", url)...)
		if got.status != wantStatus || !strings.Contains(got.stdout, wantText) {
			t.Errorf("%s: status %d, want %d\n%s%s", args, got.status, wantStatus, got.stdout, got.stderr)
		}
		wantNarrow(t, args[0], got.stdout)
	}
	check(exitFailed, "scripts at first use)\ncure: sluice load --redis "+url+"\n", "verify")
	check(exitDone, "1 script on 1 node", "load", "gcra")
	check(exitDone, "gcra_v1  "+sluice.GCRAV1SHA1[:12]+"  loaded\n", "verify", "gcra_v1")
	check(exitFailed, "cure: sluice load --redis "+url+" gcra list_log\n", "verify", "gcra", "list_log")
	check(exitDone, scripts(1)+" on 1 node", "load")
	check(exitDone, scripts(1)+" on 1 node", "verify")
	check(exitDone, scripts(1)+" on 1 node", "load")

	rdb := client(t, server.Addr)
	must(t, rdb.ScriptFlush(context.Background()).Err())
	check(exitFailed, scripts(1)+" are missing", "verify")
}

// TestServerLoadFile loads scripts that the program does not embed, and refuses files that are none.
func TestServerLoadFile(t *testing.T) {
	rdb, env := started(t)
	newer := strings.Replace(sluice.GCRAV1().Source, "-- gcra v1\n", "-- gcra v2\n", 1)
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good := write("gcra_v2.lua", newer)
	sum := fmt.Sprintf("%x", sha1.Sum([]byte(newer)))
	got := sluiceRun(env, "verify", good, "list_log")
	wantText(t, got, exitFailed, "gcra_v2 +"+sum[:12]+"  missing", "cure: sluice load .* "+good+" list_log\n")
	got = sluiceRun(env, "load", good)
	wantSaid(t, got, exitDone, "loaded now", "1 script on 1 node", "\n"+sum+"  "+good+"\n")
	wantSaid(t, sluiceRun(env, "verify", good), exitDone, "loaded\n", "\n"+sum+"  "+good+"\n")
	must(t, rdb.EvalSha(background, sum, []string{"sluice:x:{s}:gcra1"}, 3, 60000000, 3, 1, 0).Err())
	wantSaid(t, sluiceRun(env, "verify", write("gcra_v1.lua", sluice.GCRAV1().Source)), exitFailed, sluice.GCRAV1().SHA1)

	wantSaid(t, sluiceRun(env, "load", "gcra_v1.lua"), exitDone, sluice.GCRAV1().SHA1[:12]) // the embedded one

	broken := write("gcra_v2.lua", newer+"local x = 1\n")
	got = sluiceRun(env, "load", broken)
	wantSaid(t, got, exitFailed, fmt.Sprintf("the server cannot compile gcra_v2.lua:%d: '<eof>' expected near 'local'",
		strings.Count(newer, "\n")+1))
	for _, refused := range []struct{ path, says string }{
		{write("other.lua", "return 1\n"), "is not a script of Sluice: want a header"},
		{write("gcra_v2.lua", strings.ReplaceAll(newer, "-- KEYS[", "-- ")), "is not a script of Sluice"},
		{write("gcra_v2.lua", strings.ReplaceAll(newer, "-- REPLY[", "-- ")), "is not a script of Sluice"},
		{write("gcra_v2.lua", strings.ReplaceAll(newer, "\n", "\r\n")), "ended by LF"},
		{write("gcra_v3.lua", newer), "says that it is gcra_v2: want the file name gcra_v2.lua"},
		{t.TempDir() + "/gcra_v2.lua", "no such file"},
	} {
		wantSaid(t, sluiceRun(env, "load", refused.path), exitUsage, refused.says)
	}
}

func TestServerPasswordAndACL(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "secret")
	url := "redis://" + server.Addr
	got := sluiceRun(nil, "load", "--redis", url)
	wantSaid(t, got, exitFailed, "cure: give the password")
	env := []string{"REDISCLI_AUTH=secret"}
	wantSaid(t, sluiceRun(env, "load", "--redis", url), exitDone)

	admin := clientAs(t, server.Addr, "", "secret")
	must(t, admin.ACLSetUser(context.Background(), "ada", "on", ">pw", "+info", "+script|exists").Err())
	must(t, admin.ACLSetUser(background, "bob", "on", ">pw", "+script|exists").Err())
	got = sluiceRun(nil, "verify", "--redis", "redis://bob:pw@"+server.Addr)
	wantText(t, got, exitDone, "note: this user may not call INFO: it is not known whether the server has replicas")
	must(t, admin.ScriptFlush(context.Background()).Err())
	got = sluiceRun(nil, "load", "gcra", "--redis", "redis://ada:pw@"+server.Addr)
	wantSaid(t, got, exitFailed, "failed", "ACL SETUSER")
}

func TestServerCluster(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t)
	all := "--cluster=" + addrs[1]
	wantSaid(t, sluiceRun(nil, "verify", all), exitFailed, scripts(6)+" are missing")
	got := sluiceRun(nil, "load", all)
	wantSaid(t, got, exitDone, scripts(1)+" on 6 nodes")

	// A restarted or flushed replica has none, and nothing brings them back.
	must(t, client(t, addrs[3]).ScriptFlush(context.Background()).Err())
	got = sluiceRun(nil, "verify", all)
	missing := fmt.Sprintf("%s  replica  all %d +missing\n", addrs[3], len(sluice.All()))
	wantText(t, got, exitFailed, missing, scripts(1)+" are missing")

	wantSaid(t, sluiceRun(nil, "verify", "--redis", addrs[0]), exitDone, "note: this server is a node of a cluster")
	admin := client(t, addrs[0])
	must(t, admin.Do(context.Background(), "ACL", "SETUSER", "ada", "on", ">pw", "~*", "+@all", "-info").Err())
	for _, user := range []string{"", "redis://ada:pw@"} { // nobody has looked at the other nodes
		got := sluiceRun(nil, "verify", "--try", "--redis", user+addrs[0])
		wantSaid(t, got, exitWarned, "warning: "+addrs[0]+": this server is a node of a cluster")
	}
	got = sluiceRun(nil, "load", "--cluster", redistest.Start(t).Addr)
	wantSaid(t, got, exitFailed, "cure: the server is not a cluster")
}

// A server without TLS does not answer a client with it, and a port for TLS hangs up on a client without: the cure says
// which scheme to use.
func TestServerTLSOfOneSide(t *testing.T) {
	got := sluiceRun(nil, "verify", "--redis", "rediss://"+redistest.Start(t).Addr)
	wantSaid(t, got, exitFailed, "cure: the server does not answer: it is frozen or busy, or with rediss:// its port")
	port, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = port.Close() }()
	go func() {
		for conn, err := port.Accept(); err == nil; conn, err = port.Accept() {
			_, _ = conn.Read(make([]byte, 64))
			_ = conn.Close()
		}
	}()
	got = sluiceRun(nil, "verify", "--redis", "redis://"+port.Addr().String())
	wantSaid(t, got, exitFailed, "cure: the server hung up: if its port is for TLS, use rediss://")
}

// What a server answers that does not fit the flags has a cure.
func TestCuresOfAnswers(t *testing.T) {
	for answer, want := range map[string]string{
		"-MOVED 1 127.0.0.1:7001": "the server is a node of a cluster: name it with --cluster",
		"-ERR Error running script (call to f_9): @user_script:1: @user_script: 1: Write commands not allowed after non " +
			"deterministic commands.": "the server is too old: the scripts want Redis 5.0 or later",
		"-OOM command not allowed when used memory > 'maxmemory'.": "raise maxmemory",
		"-NOREPLICAS Not enough good replicas to write.":           "too few replicas are connected",
		"-CLUSTERDOWN Hash slot not served":                        "no node serves the slot",
	} {
		addr := fakeServer(t, func([]string) string { return answer + "\r\n" })
		wantSaid(t, sluiceRun(nil, "load", "--redis", "redis://"+addr), exitFailed, "cure: "+want)
	}
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	got := sluiceRun(nil, "verify", "--redis", "rediss://"+page.Listener.Addr().String())
	wantSaid(t, got, exitFailed, "cure: the server speaks no TLS: use redis://")
}

// TestServerLoadByHand runs the loop of docs/operations.md as the user that loads.
func TestServerLoadByHand(t *testing.T) {
	t.Parallel()
	addrs := startCluster(t)
	var admins []*redis.Client // their connections stay
	for _, addr := range addrs {
		admin := client(t, addr)
		setUsers(t, admin, "--cluster")
		must(t, admin.Do(background, "acl", "setuser", "default", "off").Err())
		admins = append(admins, admin)
	}
	verify := func() outcome { return sluiceRun(nil, "verify", "--cluster", "sluice-load:pw@"+addrs[0]) }
	page, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	_, loop, _ := strings.Cut(string(page), "### Load with redis-cli alone")
	_, loop, _ = strings.Cut(loop, "```sh\n")
	loop, _, _ = strings.Cut(loop, "```")
	host, port, _ := net.SplitHostPort(addrs[4])
	here := strings.NewReplacer("=localhost ", "="+host+" ", "=7000 ", "="+port+" ")
	run := func(password string) (string, error) {
		cmd := exec.Command("sh", "-c", here.Replace(loop))
		cmd.Dir, cmd.Env = "../..", append(os.Environ(), "REDISCLI_AUTH="+password)
		out, err := cmd.Output()
		return string(out), err
	}
	if out, err := run("wrong"); err == nil || strings.Contains(out, "loaded on") {
		t.Errorf("with a wrong password: %v\n%s", err, out)
	}
	wantSaid(t, verify(), exitFailed, scripts(6)+" are missing")
	if out, err := run("pw"); err != nil || strings.Contains(out, "FAILED") {
		t.Errorf("%v\n%s", err, out)
	}
	wantSaid(t, verify(), exitDone, scripts(1)+" on 6 nodes")
	must(t, admins[4].Do(background, "acl", "setuser", "sluice-load", "-cluster|nodes").Err())
	if out, err := run("pw"); err == nil || out != "" {
		t.Errorf("by a user who may not see the nodes: %v\n%s", err, out)
	}
	must(t, admins[4].Do(background, "acl", "setuser", "sluice-load", "+cluster|nodes").Err())
	must(t, admins[5].Do(background, "acl", "deluser", "sluice-load").Err())
	if out, err := run("pw"); err == nil || strings.Count(out, "FAILED: ") != len(sluice.All()) {
		t.Errorf("with a node that refuses: %v\n%s", err, out)
	}
	alone := redistest.Start(t)
	setUsers(t, alone.Client(t), "--cluster")
	host, port, _ = net.SplitHostPort(alone.Addr)
	here = strings.NewReplacer("=localhost ", "="+host+" ", "=7000 ", "="+port+" ")
	if out, err := run("pw"); err != nil || out != "loaded on "+alone.Addr+"\n" {
		t.Errorf("on a server without a cluster: %v\n%s", err, out)
	}
}

func TestServerSentinel(t *testing.T) {
	t.Parallel()
	trio := redistest.StartSentinels(t, time.Minute)
	master, replica, sentinel := trio.Master, trio.Replica, trio.Addrs[0]
	watching := trio.Name + "@127.0.0.1:1," + sentinel

	wantSaid(t, sluiceRun(nil, "load", "--sentinel", watching), exitDone, scripts(1)+" on 2 nodes",
		master.Addr+"  master ", replica.Addr+"  replica")
	grants(t, client(t, master.Addr), "try", "demo")
	wantSaid(t, sluiceRun(nil, "verify", "--sentinel", "other@"+sentinel), exitFailed,
		"it watches no master with that name")
	got := sluiceRun(nil, "inspect", "--sentinel", watching, "try", "demo")
	wantText(t, got, exitDone, `:ll1\n`, "node       "+master.Addr)
	wantText(t, sluiceRun(nil, "inspect", "--sentinel", watching, "try", "nobody"), exitNothing,
		"^nothing is stored under .* on "+master.Addr+"\n")
	wantSaid(t, sluiceRun(nil, "verify", "--redis", sentinel), exitUsage, "want --sentinel")
	got = sluiceRun(nil, "verify", "--redis", master.Addr)
	wantSaid(t, got, exitDone, "note: this server has 1 replica(s)")
}

// startCluster starts three masters and, behind them in the list of addresses, a replica of each.
func startCluster(t *testing.T) (addrs []string) {
	t.Helper()
	for _, node := range redistest.StartCluster(t, 3, 1) {
		addrs = append(addrs, node.Addr)
	}
	return addrs
}

func client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	return clientAs(t, addr, "", "")
}

func clientAs(t *testing.T, addr, user, password string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, Username: user, Password: password, DisableIdentity: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// started is a new server, a client for it, and the environment that names it.
func started(t *testing.T) (rdb *redis.Client, env []string) {
	t.Helper()
	rdb = client(t, redistest.Start(t).Addr)
	return rdb, []string{"SLUICE_REDIS=" + rdb.Options().Addr}
}

// scripts is how the program counts all scripts, on so many nodes.
func scripts(nodes int) string { return fmt.Sprintf("%d scripts", nodes*len(sluice.All())) }
