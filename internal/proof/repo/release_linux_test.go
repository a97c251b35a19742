package repo_test

import (
	"debug/buildinfo"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

var release = flag.String("release", "", "the version that make release has made")

const corePath = "github.com/sluice-redis/sluice"

// TestServerRelease is for those who install a release: dist, and the modules in tmp/release.
func TestServerRelease(t *testing.T) {
	if *release == "" { // in CI make test-all leaves it out, and make test-release runs it
		if os.Getenv("CI") != "" {
			t.Fatal("want -release")
		}
		t.Skip("make test-release makes a release and tests it")
	}
	t.Run("Modules", releasedModules)
	t.Run("Binaries", releasedBinaries)
	t.Run("Packages", releasedPackages)
	t.Run("Clients", releasedClients)
	t.Run("Signature", releasedSignature)
	t.Run("Twice", releasedTwice)
}

// releasedModules needs each module by its version, in empty folders and with an empty cache of modules, and does what
// README tells Go developers.
func releasedModules(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("GOPROXY", "file://"+exampletest.Absolute(t, "../../../tmp/release/mod/cache/download")+
		",file://"+strings.TrimSpace(goIn(t, ".", "env", "GOMODCACHE"))+"/cache/download,"+
		strings.TrimSpace(goIn(t, ".", "env", "GOPROXY")))
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOFLAGS", "-modcacherw -trimpath") // so that make release has compiled most of it
	t.Setenv("CGO_ENABLED", "0")
	t.Setenv("GOBIN", bin)
	for _, pkg := range []string{"adapters/ulule", "httplimit", "grpclimit", "otel", "policy/policygrpc"} {
		app := t.TempDir()
		write(t, filepath.Join(app, "main.go"), "package main\nimport _ \""+corePath+"/"+pkg+"\"\nfunc main() {}\n")
		goIn(t, app, "mod", "init", "example.com/app")
		goIn(t, app, "get", corePath+"/"+pkg+"@"+*release)
		goIn(t, app, "build", ".")
	}
	for _, command := range []string{"sluice", "sluiced"} {
		goIn(t, t.TempDir(), "install", corePath+"/cmd/"+command+"@"+*release)
		if got := shell(t, ".", filepath.Join(bin, command)+" version"); !strings.HasPrefix(got, command+" "+*release) {
			t.Errorf("go install has made %q", got)
		}
	}
	readme := readFile(t, "../../../README.md")
	_, section, _ := strings.Cut(readme, "\n## In Go\n")
	section, _, _ = strings.Cut(section, "\n## ")
	goBlock := regexp.MustCompile("(?s)```go\n(.*?)```")
	block := goBlock.FindStringSubmatch(section)[1]
	page := readFile(t, "../../../docs/testing-your-handler.md")
	app := filepath.Join(t.TempDir(), "app")
	must(t, os.MkdirAll(app, 0o755))
	must(t, os.Symlink(exampletest.Absolute(t, "../../.."), filepath.Join(app, "../sluice"))) // the checkout of README
	write(t, filepath.Join(app, "shop", "limit_test.go"), goBlock.FindStringSubmatch(page)[1])
	goIn(t, app, "mod", "init", "example.com/app")
	steps := regexp.MustCompile(`(?m)^    (go .*)$`).FindAllStringSubmatch(section, -1)
	if len(steps) != 2 {
		t.Errorf("README has %d go commands for Go developers, want one of the release and one of a checkout", len(steps))
	}
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOWORK", "off")
	for _, step := range steps {
		write(t, filepath.Join(app, "main.go"),
			programBegins+strings.ReplaceAll(block, "localhost:6379", redistest.Start(t).Addr)+programEnds)
		shell(t, app, step[1])
		if got := goIn(t, app, "run", "."); got != "true 4 false\n" {
			t.Errorf("after %s, README's program printed %q", step[1], got)
		}
		if got := goIn(t, app, "test", "./shop"); !strings.HasPrefix(got, "ok") {
			t.Errorf("after %s, the test of docs/testing-your-handler.md: %s", step[1], got)
		}
	}
}

// releasedBinaries wants the tagged commit in each, and no C.
func releasedBinaries(t *testing.T) {
	commit := strings.TrimSpace(shell(t, "../../../tmp/release/tree", "git rev-parse cmd/sluice/"+*release))
	for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-arm64", "windows-amd64.exe"} {
		for _, command := range []string{"sluice", "sluiced"} {
			info, err := buildinfo.ReadFile("../../../dist/" + command + "-" + platform)
			must(t, err)
			set := map[string]string{}
			for _, setting := range info.Settings {
				set[setting.Key] = setting.Value
			}
			got := []string{info.Path, info.Main.Version, set["vcs.revision"], set["vcs.modified"], set["CGO_ENABLED"],
				set["GOOS"] + "-" + set["GOARCH"]}
			want := []string{corePath + "/cmd/" + command, *release, commit, "false", "0", strings.TrimSuffix(platform, ".exe")}
			if !slices.Equal(got, want) {
				t.Errorf("%s-%s: %q, want %q", command, platform, got, want)
			}
		}
	}
}

// releasedPackages installs deb and rpm in roots that hold nothing else: no Go, no shell, no C library.
func releasedPackages(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("only root may install packages and change its root")
	}
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	for install, file := range map[string]string{
		"mkdir -p $ROOT/var/lib/dpkg && touch $ROOT/var/lib/dpkg/status && dpkg --root=$ROOT -i": "*_" +
			runtime.GOARCH + ".deb",
		"rpm --root=$ROOT --nodeps -i": "*." + machine + ".rpm",
	} {
		t.Run(filepath.Ext(file), func(t *testing.T) {
			root := t.TempDir()
			t.Setenv("ROOT", root)
			shell(t, "../../../dist", install+" "+file)
			redis := "redis://" + redistest.Start(t).Addr
			installedService(t, root, redis)
			installedCommands(t, root, redis)
			shell(t, filepath.Join(root, "usr/share/sluice/scripts"), "sha1sum -c SHA1SUMS")
		})
	}
}

// inside is a program in a root, as a user without a name.
func inside(root string, env []string, words ...string) *exec.Cmd {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env, cmd.Dir = env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532, NoSetGroups: true},
	}
	return cmd
}

// installedService runs what the unit starts, with the settings and limits that are installed.
func installedService(t *testing.T, root, redis string) {
	unit := readFile(t, filepath.Join(root, "usr/lib/systemd/system/sluiced.service"))
	start := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(unit)[1]
	ports := map[string]string{
		"8080": exampletest.FreePort(t), "8081": exampletest.FreePort(t), "9090": exampletest.FreePort(t),
	}
	env := exampletest.WithPorts(readFile(t, filepath.Join(root, "etc/sluice/sluiced.env")), ports)
	env = strings.Replace(env, "redis://localhost:6379", redis, 1)
	env += "\nSLUICED_DRAIN=0s\nSLUICED_AUTH_TIMEOUT=5s"
	sluiced := inside(root, strings.Split(env, "\n"), strings.Fields(start)...)
	var log strings.Builder
	sluiced.Stderr = &log
	must(t, sluiced.Start())
	t.Cleanup(func() { _ = sluiced.Process.Kill() })
	status := func(port, path string) int {
		response, err := http.Get("http://127.0.0.1:" + ports[port] + path)
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	redistest.Await(t, "sluiced is ready", func() bool { return status("9090", "/readyz") == 200 })
	for _, want := range []int{200, 200, 200, 429} {
		if got := status("8080", "/auth/login/login"); got != want {
			t.Errorf("sluiced answers %d, want %d", got, want)
		}
	}
	_ = sluiced.Process.Signal(syscall.SIGTERM)
	if err := sluiced.Wait(); err != nil {
		t.Errorf("sluiced: %v\n%s", err, log.String())
	}
}

func installedCommands(t *testing.T, root, redis string) {
	for _, line := range [][2]string{
		{"version", readFile(t, "../../../scripts/SHA1SUMS")},
		{"load", "on 1 node"},
		{"verify", "on 1 node"},
		{"top", "127.0.0.1"},
		{"inspect login 127.0.0.1 --limit 3/1m --limit 20/24h", "slice_ring"},
		{"policy check /etc/sluice/limits/login.yaml", "sluice:login:"},
	} {
		words := append([]string{"/usr/bin/sluice"}, strings.Fields(line[0])...)
		out, err := inside(root, []string{"SLUICE_REDIS=" + redis}, words...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), line[1]) {
			t.Errorf("sluice %s: %v\n%s", line[0], err, out)
		}
	}
}

// releasedClients makes a decision with the packages for Python and Node, each in an empty folder.
func releasedClients(t *testing.T) {
	t.Setenv("REDIS", "redis://"+redistest.Start(t).Addr)
	t.Setenv("DIST", exampletest.Absolute(t, "../../../dist"))
	const number = "${RELEASE#v}"
	t.Setenv("RELEASE", *release)
	for _, script := range []string{`
python3 -m venv . && bin/pip install -q "$DIST"/sluice_redis-` + number + `-py3-none-any.whl && bin/python -c '
import datetime, os, redis, sluice_redis
limits = sluice_redis.Limits(redis.Redis.from_url(os.environ["REDIS"]))
print(limits.list_log("python", permits=1, window=datetime.timedelta(minutes=1)).allow("ada").granted)'`, `
npm install --silent "$DIST"/sluice-redis-` + number + `.tgz redis && node -e '
const { Limits } = require("sluice-redis");
const client = require("redis").createClient({ url: process.env.REDIS });
client.connect()
  .then(() => new Limits(client).listLog("node", { permits: 1, window: "1m" }).allow("ada"))
  .then(({ granted }) => { console.log(granted ? "True" : granted); return client.close(); })'`,
	} {
		if got := shell(t, t.TempDir(), script); got != "True\n" {
			t.Errorf("%s\nprinted %s", script, got)
		}
	}
}

// releasedSignature signs and verifies as docs/releasing.md says, with a key of its own.
func releasedSignature(t *testing.T) {
	shell(t, "../../../dist", "sha256sum -c SHA256SUMS")
	folder := t.TempDir()
	downloads := filepath.Join(folder, "dist")
	write(t, filepath.Join(downloads, "SHA256SUMS"), readFile(t, "../../../dist/SHA256SUMS"))
	t.Setenv("KEY", filepath.Join(folder, "key"))
	shell(t, downloads, `ssh-keygen -q -t ed25519 -N "" -f "$KEY" && echo "sluice $(cat "$KEY.pub")" >allowed_signers`)
	page := readFile(t, "../../../docs/releasing.md")
	commands := regexp.MustCompile(`(?m)^ +(ssh-keygen .*)$`).FindAllStringSubmatch(page, -1)
	if len(commands) != 2 {
		t.Fatalf("docs/releasing.md has %d commands of ssh-keygen, want two: verify and sign", len(commands))
	}
	verify, sign := commands[0][1], commands[1][1]
	shell(t, folder, sign)
	shell(t, downloads, verify)
	write(t, filepath.Join(downloads, "SHA256SUMS"), "-"+readFile(t, "../../../dist/SHA256SUMS"))
	again := exec.Command("sh", "-c", verify)
	again.Dir = downloads
	if out, err := again.CombinedOutput(); err == nil {
		t.Errorf("other sums are verified too:\n%s", out)
	}
}

// releasedTwice makes the release once more from its tag, in another folder: every file has the same bytes.
func releasedTwice(t *testing.T) {
	folder := t.TempDir()
	shell(t, "../../..", "git clone -q tmp/release/tree "+folder+" && make -C "+folder+" release VERSION="+*release)
	again := readFile(t, filepath.Join(folder, "dist", "SHA256SUMS"))
	if again != readFile(t, "../../../dist/SHA256SUMS") {
		write(t, filepath.Join(folder, "first"), readFile(t, "../../../dist/SHA256SUMS"))
		diff := exec.Command("diff", "first", "dist/SHA256SUMS")
		diff.Dir = folder
		out, _ := diff.Output()
		t.Errorf("made again, files differ:\n%s", out)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shell is what a shell command prints in a folder.
func shell(t *testing.T, dir, command string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("in %s, %s: %v\n%s%s", dir, command, err, out, stderr.String())
	}
	return string(out)
}
