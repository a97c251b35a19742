package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

const deploy = "../../deploy/"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// A binary as deploy/Containerfile takes it from a release runs alone: as a user without a name, in a root that holds
// nothing but a file of limits and that it may not write to. (Where the test may not change its root, in the root of the
// system.)
func TestContainer(t *testing.T) {
	file := read(t, deploy+"Containerfile")
	const end = "\nCOPY dist/sluiced-linux-${TARGETARCH} /sluiced\nUSER 65532:65532\nEXPOSE 8080 8081 9090\nENTRYPOINT [\"/sluiced\"]\nCMD [\"serve\", \"/etc/sluiced\"]\n"
	if !strings.HasSuffix(file, end) {
		t.Fatalf("not the Containerfile that this test knows:\n%s", file)
	}
	root := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(root, "sluiced"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary, err := elf.Open(filepath.Join(root, "sluiced"))
	must(t, err)
	defer binary.Close()
	if slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the binary wants a dynamic loader")
	}
	must(t, os.MkdirAll(filepath.Join(root, "etc", "sluiced"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "etc", "sluiced", "x.yaml"), fmt.Appendf(nil, oneRule, 1), 0o644))

	addr, out := freePort(t), &output{}
	cmd := exec.Command(filepath.Join(root, "sluiced"), "serve", filepath.Join(root, "etc", "sluiced"))
	if os.Getuid() == 0 {
		cmd.Path, cmd.Args, cmd.Dir = "/sluiced", []string{"/sluiced", "serve", "/etc/sluiced"}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532, NoSetGroups: true},
		}
		must(t, os.Chmod(root, 0o755))
	}
	cmd.Env = []string{"SLUICED_EMBEDDED=true", "SLUICED_HTTP=" + addr, "SLUICED_GRPC=" + freePort(t),
		"SLUICED_ADMIN=" + freePort(t), "SLUICED_DRAIN=0s", "SLUICED_TIMEOUT=5s"}
	cmd.Stdout, cmd.Stderr = out, out
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if t.Failed() {
			t.Log(out)
		}
	})
	const ask = `{"domain": "d", "descriptors": [{"entries": [{"key": "a", "value": "1"}]}]}`
	for _, want := range []int{200, 429} {
		redistest.Await(t, fmt.Sprint(want), func() bool {
			response, err := http.Post("http://"+addr+"/json", "application/json", strings.NewReader(ask))
			if err != nil {
				return false
			}
			return response.Body.Close() == nil && response.StatusCode == want
		})
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A manifest is what the test reads of an object in deploy/kubernetes.yaml.
type manifest struct {
	Kind string
	Data map[string]string
	Spec struct {
		ClusterIP    string
		MinAvailable int
		Replicas     int
		Selector     any
		Ports        []struct {
			Name string
			Port int
		}
		PodSelector any
		Ingress     []struct {
			Ports []struct{ Port string }
		}
		Endpoints []struct{ Port string }
		Template  struct {
			Spec struct {
				TerminationGracePeriodSeconds int
				SecurityContext               struct{ RunAsNonRoot bool }
				Containers                    []struct {
					Args  []string
					Env   []struct{ Name string }
					Ports []struct {
						Name          string
						ContainerPort int
					}
					LivenessProbe   struct{ HTTPGet struct{ Path string } }
					ReadinessProbe  struct{ HTTPGet struct{ Path string } }
					SecurityContext struct {
						ReadOnlyRootFilesystem   bool
						AllowPrivilegeEscalation *bool
						Capabilities             struct{ Drop []string }
					}
				}
			}
		}
	}
}

// deploy/kubernetes.yaml asks for what sluiced has.
func TestKubernetes(t *testing.T) {
	objects := map[string]manifest{}
	text := strings.NewReplacer("httpGet", "httpget").Replace(read(t, deploy+"kubernetes.yaml"))
	for part := range strings.SplitSeq(strings.ToLower(text), "\n---\n") {
		var m manifest
		must(t, yaml.Load([]byte(part), &m))
		objects[m.Kind] = m
	}
	limits := []byte(objects["configmap"].Data["limits.yaml"])
	if _, err := parseFiles(map[string][]byte{"limits.yaml": limits}); err != nil {
		t.Error(err)
	}
	pod := objects["deployment"].Spec.Template.Spec
	c := pod.Containers[0]
	s := c.SecurityContext
	if !pod.SecurityContext.RunAsNonRoot || !s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil ||
		*s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []string{"all"}) {
		t.Errorf("the rights are %+v", s)
	}
	if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Errorf("the probes are %+v", c)
	}
	if objects["service"].Spec.ClusterIP != "none" || objects["poddisruptionbudget"].Spec.MinAvailable < 1 ||
		objects["deployment"].Spec.Replicas <= objects["poddisruptionbudget"].Spec.MinAvailable {
		t.Error("want a headless Service, and a budget that leaves one instance and lets the others go")
	}
	environment := map[string]string{"SLUICED_REDIS": "rediss://:secret@redis:6379"}
	for _, e := range c.Env {
		environment[strings.ToUpper(e.Name)] = "not a value"
	}
	a := app{getenv: func(name string) string { return environment[name] }}
	if _, err := a.parseServe(c.Args[1:]); len(c.Env) > 0 && err == nil {
		t.Errorf("sluiced does not read a variable of %v", c.Env)
	}
	environment = map[string]string{}
	settings, err := a.parseServe(c.Args[1:])
	must(t, err)
	ports := []string{settings.grpc, settings.http, settings.admin}
	named := map[string]int{}
	for _, p := range c.Ports {
		named[p.Name] = p.ContainerPort
		if !slices.Contains(ports, fmt.Sprintf(":%d", p.ContainerPort)) {
			t.Errorf("sluiced does not listen at %d", p.ContainerPort)
		}
	}
	reachable := map[string]int{}
	for _, p := range objects["service"].Spec.Ports {
		reachable[p.Name] = p.Port
	}
	let := map[string]int{}
	for _, rule := range objects["networkpolicy"].Spec.Ingress {
		for _, p := range rule.Ports {
			let[p.Port] = named[p.Port]
		}
	}
	if len(named) != 3 || !maps.Equal(named, reachable) || !maps.Equal(named, let) ||
		reachable[objects["servicemonitor"].Spec.Endpoints[0].Port] != 9090 {
		t.Errorf("ports %v, of the Service %v, of the NetworkPolicy %v", named, reachable, let)
	}
	const chosen = "map[matchlabels:map[app:sluiced]]"
	for _, selector := range []any{objects["networkpolicy"].Spec.PodSelector, objects["servicemonitor"].Spec.Selector,
		objects["deployment"].Spec.Selector, objects["poddisruptionbudget"].Spec.Selector} {
		if fmt.Sprint(selector) != chosen {
			t.Errorf("selector %v, want %s", selector, chosen)
		}
	}
	if need := (settings.drain + drainTime).Seconds(); float64(pod.TerminationGracePeriodSeconds) <= need {
		t.Errorf("%d s to end, want more than %v", pod.TerminationGracePeriodSeconds, need)
	}
}

// deploy/compose.yaml asks for what sluiced has, names files that there are, and opens ports to this machine only.
func TestCompose(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Command, Volumes, Ports []string
			Environment             map[string]string
			Configs                 []struct{ Source string }
		}
		Configs map[string]struct{ Content string }
	}
	must(t, yaml.Load([]byte(read(t, deploy+"compose.yaml")), &file))
	sluiced := file.Services["sluiced"]
	a := app{getenv: func(name string) string { return sluiced.Environment[name] }}
	settings, err := a.parseServe(sluiced.Command[1:])
	must(t, err)
	if settings.redis.Redis != "redis://redis:6379" || settings.admin != ":9090" || settings.http != ":8080" {
		t.Errorf("%+v", settings)
	}
	limits := []byte(file.Configs["limits"].Content)
	if _, err := parseFiles(map[string][]byte{"limits.yaml": limits}); err != nil {
		t.Error(err)
	}
	scrape := filepath.Join(t.TempDir(), "prometheus.yml")
	must(t, os.WriteFile(scrape, []byte(file.Configs["prometheus"].Content), 0o600))
	exampletest.Run(t, deploy, "promtool", "check", "config", "--syntax-only", scrape)
	for name, service := range file.Services {
		for _, c := range service.Configs {
			if file.Configs[c.Source].Content == "" {
				t.Errorf("%s: no config %s", name, c.Source)
			}
		}
		for _, volume := range service.Volumes {
			if from, _, _ := strings.Cut(volume, ":"); strings.HasPrefix(from, "./") {
				read(t, deploy+from)
			}
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to the network", name, port)
			}
		}
	}
}

// The alerts fire after the times in their file, by the series of a test file, and docs/failure.md has each of them.
func TestAlertRules(t *testing.T) {
	for _, args := range [][]string{{"check", "prometheus-rules.yaml"}, {"test", "prometheus-rules_test.yaml"}} {
		if out := exampletest.Run(t, deploy, "promtool", args[0], "rules", args[1]); !bytes.Contains(out, []byte("SUCCESS")) {
			t.Errorf("promtool %v: %s", args, out)
		}
	}
	for _, alert := range alertName.FindAllStringSubmatch(read(t, deploy+"prometheus-rules.yaml"), -1) {
		if !strings.Contains(read(t, "../../docs/failure.md"), alert[1]) {
			t.Errorf("docs/failure.md does not say what to do at %s", alert[1])
		}
	}
}
