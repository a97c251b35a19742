package repo_test

import (
	"encoding/json"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The go line of go.mod is forced on everyone who imports the module: it is no higher than the dependencies force
// anyway.
func TestGoLine(t *testing.T) {
	for _, dir := range []string{
		"../../..", "../../../adapters", "../../../bench", "../../../cmd/sluice",
		"../../../cmd/sluiced", "../../../examples/frameworks", "../../../grpclimit", "../../../otel", "../../../policy",
	} {
		var mod struct{ Go, Toolchain string }
		must(t, json.Unmarshal([]byte(goIn(t, dir, "mod", "edit", "-json")), &mod))
		highest, of := "", ""
		modules := goIn(t, dir, "list", "-modfile="+modfileAlone(t, dir), "-m",
			"-f", "{{if not .Main}}{{.GoVersion}} {{.Path}}{{end}}", "all")
		for _, line := range strings.Split(modules, "\n") {
			wants, path, _ := strings.Cut(line, " ")
			ours := strings.HasPrefix(path, "github.com/sluice-redis/sluice")
			if !ours && version.Compare("go"+wants, "go"+highest) > 0 {
				highest, of = wants, path
			}
		}
		if of == "" {
			t.Fatalf("%s: no dependency has a go line in:\n%s", dir, modules)
		}
		if version.Compare("go"+mod.Go, "go"+highest) > 0 || mod.Toolchain != "" {
			t.Errorf("%s/go.mod wants go %s %s, its dependencies at most %s (%s)", dir, mod.Go, mod.Toolchain, highest, of)
		}
	}
}

// modfileAlone is a copy of a module's go.mod that finds the other modules without the help of go.work.
func modfileAlone(t *testing.T, dir string) string {
	t.Helper()
	core, err := filepath.Abs("../../..")
	must(t, err)
	const path = "github.com/sluice-redis/sluice"
	alone := filepath.Join(t.TempDir(), "go.mod")
	for from, to := range map[string]string{"go.mod": alone, "go.sum": strings.TrimSuffix(alone, "mod") + "sum"} {
		must(t, os.WriteFile(to, []byte(readFile(t, filepath.Join(dir, from))), 0o600))
	}
	goIn(t, dir, "mod", "edit", "-replace="+path+"="+core,
		"-replace="+path+"/adapters="+filepath.Join(core, "adapters"),
		"-replace="+path+"/grpclimit="+filepath.Join(core, "grpclimit"),
		"-replace="+path+"/otel="+filepath.Join(core, "otel"),
		"-replace="+path+"/policy="+filepath.Join(core, "policy"), alone)
	return alone
}

// goIn is what the go command prints in a folder. The modules are those of this one, which go.sum has checked already.
func goIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOSUMDB=off", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("in %s, go %s: %v\n%s", dir, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
