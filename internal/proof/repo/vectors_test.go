package repo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

const vectorsFolder = "../../../scripttest/vectors"

// The runner that the vectors' page shows passes all steps, and says which one fails.
func TestServerVectorRunner(t *testing.T) {
	python := exampletest.Interpreter(t, "Debian: apt-get install python3-redis",
		[]string{"python3", "/usr/bin/python3"}, "-c", "import redis")
	_, code, _ := strings.Cut(readFile(t, vectorsFolder+"/README.md"), "```python\n")
	code, _, ok := strings.Cut(code, "```\n")
	if !ok {
		t.Fatal("README.md of the vectors has no Python")
	}
	folder := t.TempDir()
	must(t, os.CopyFS(folder, os.DirFS("../../../scripts")))
	run := func() string {
		out, _ := exec.Command(python, "-c", code, vectorsFolder, folder, "redis://"+redistest.Start(t).Addr).CombinedOutput()
		return string(out)
	}
	if out := run(); !strings.HasSuffix(out, " 0 failed\n") || strings.HasPrefix(out, "0 ") {
		t.Errorf("printed %s", out)
	}

	broken := filepath.Join(folder, "gcra_v1.lua")
	text := strings.Replace(readFile(t, broken), "bucket, state, ", "bucket, state .. 'x', ", 1)
	must(t, os.WriteFile(broken, []byte(text), 0o644))
	if out := run(); !strings.Contains(out, "gcra_v1, ") || strings.HasSuffix(out, " 0 failed\n") {
		t.Errorf("with a broken gcra: printed %.300s", out)
	}
}
