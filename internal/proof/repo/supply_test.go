package repo_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	commit   = regexp.MustCompile(`@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	digest   = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)
	image    = regexp.MustCompile(`(?m)(?:^FROM |--from=|^ +container: |^ +image: +)(\S+)`)
	hashed   = regexp.MustCompile(`^\S+==\S+ --hash=sha256:[0-9a-f]{64}$`)
	building = regexp.MustCompile(`actions/(checkout|setup-go)@|: (make|go|npm (ci|install|run)|pip|python3?|sh) `)
)

// TestSupplyChain wants everything that others write and that makes or signs a release to be named by what it holds,
// and a job with rights to build nothing.
func TestSupplyChain(t *testing.T) {
	const folder = "../../../.github/workflows/"
	workflows, err := filepath.Glob(folder + "*")
	if err != nil || len(workflows) < 2 {
		t.Fatal(workflows, err)
	}
	for _, path := range workflows {
		text := readFile(t, path)
		for line := range strings.SplitSeq(text, "\n") {
			if _, action, found := strings.Cut(line, "uses: "); found && !commit.MatchString(action) {
				t.Errorf("%s: %s: want a commit and its version", path, action)
			}
		}
		wantDigests(t, path, text)
		head, jobs, _ := strings.Cut(text, "\njobs:\n")
		if strings.Contains(head, ": write") || !strings.Contains(head, "\npermissions:") {
			t.Errorf("%s: want no rights for all jobs", path)
		}
		for _, job := range regexp.MustCompile(`(?m)^  \w+:$`).Split(jobs, -1)[1:] {
			if strings.Contains(job, ": write") && building.MatchString(job) {
				t.Errorf("%s: a job with rights builds: %s", path, building.FindString(job))
			}
		}
	}
	for _, name := range []string{"Containerfile", "compose.yaml", "kubernetes.yaml"} {
		wantDigests(t, name, readFile(t, "../../../deploy/"+name))
	}
	for line := range strings.SplitSeq(strings.TrimSpace(readFile(t, "../../../release/python-build.txt")), "\n") {
		if !strings.HasPrefix(line, "#") && !hashed.MatchString(line) {
			t.Errorf("%s: want a hash", line)
		}
	}
	if release := readFile(t, "../../../release/release.sh"); strings.Count(release, "pip\" install") !=
		strings.Count(release, "install -q --require-hashes") {
		t.Error("release.sh installs what has no hash")
	}
}

// wantDigests wants images by digest; our own is made from a release.
func wantDigests(t *testing.T, path, text string) {
	t.Helper()
	for _, found := range image.FindAllStringSubmatch(text, -1) {
		ours := strings.HasPrefix(found[1], "sluiced:") // built by who runs it
		if found[1] != "scratch" && !ours && !digest.MatchString(found[1]) {
			t.Errorf("%s: %s: want a digest", path, found[1])
		}
	}
}
