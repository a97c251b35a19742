package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/internal/watch"
	"github.com/sluice-redis/sluice/policy"
	"github.com/sluice-redis/sluice/policy/envoyfile"
)

// maxPermits is the highest limit of a ring.
const maxPermits = 1_000_000_000

// files is what the files say: files of envoyproxy/ratelimit, and policy files by their names without the ending.
type files struct {
	envoy    []*envoyfile.File
	policies map[string]*policy.File
	hashes   hashes
}

// hashes is the beginnings of the SHA-256 of files, by their paths.
type hashes map[string]string

// since says of each file which hash it has and had.
func (h hashes) since(before hashes) (texts []string) {
	both := maps.Clone(before)
	if both == nil {
		both = hashes{}
	}
	maps.Copy(both, h)
	for _, path := range slices.Sorted(maps.Keys(both)) {
		was, is := before[path], h[path]
		switch {
		case was == "":
			texts = append(texts, path+" "+is+", new")
		case is == "":
			texts = append(texts, path+" gone, was "+was)
		case is == was:
			texts = append(texts, path+" "+is+", unchanged")
		default:
			texts = append(texts, path+" "+is+", was "+was)
		}
	}
	return texts
}

// readFiles reads files and all .yaml and .yml files in directories. Its error joins all mistakes in all files.
func readFiles(paths []string) (files, error) {
	content := contentOf(paths)
	if content.Err != nil {
		return files{}, content.Err
	}
	return parseFiles(content.Files)
}

// contentOf returns the texts of files.
func contentOf(paths []string) watch.Content {
	sources := map[string][]byte{}
	for _, path := range paths {
		found, err := filesAt(path)
		if err != nil {
			return watch.Content{Err: err}
		}
		for _, file := range found {
			if sources[file], err = watch.ReadFile(file); err != nil {
				return watch.Content{Err: err}
			}
		}
	}
	return watch.Content{Files: sources}
}

// filesAt returns a path, or the files in it if it is a directory. Kubernetes mounts a ConfigMap as links to files in
// a hidden directory.
func filesAt(path string) (found []string, err error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name, ending := entry.Name(), filepath.Ext(entry.Name())
		if !strings.HasPrefix(name, ".") && (ending == ".yaml" || ending == ".yml") {
			found = append(found, filepath.Join(path, name))
		}
	}
	if len(found) == 0 {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("no file *.yaml or *.yml in it")}
	}
	return found, nil
}

// parseFiles reads the texts of files.
func parseFiles(sources map[string][]byte) (files, error) {
	read := files{policies: map[string]*policy.File{}, hashes: hashes{}}
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(sources)) {
		read.hashes[path] = fmt.Sprintf("%x", sha256.Sum256(sources[path]))[:12]
		if envoyfile.Is(sources[path]) {
			file, err := envoyfile.Parse(path, sources[path])
			errs = append(errs, err)
			if err == nil {
				read.envoy = append(read.envoy, file)
			}
			continue
		}
		file, err := policy.ParseForService(path, sources[path])
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if read.policies[name] != nil {
			err = errors.Join(err, fmt.Errorf("%s:1:1: two policy files of the name %s: want another name", path, name))
		}
		errs, read.policies[name] = append(errs, err), file
	}
	errs = append(errs, envoyfile.CheckAll(read.envoy))
	if errors.Join(errs...) == nil {
		errs = append(errs, read.checkGCRA())
	}
	if err := errors.Join(errs...); err != nil {
		return read, &mistakes{err}
	}
	return read, nil
}

// mistakes is what is wrong in files: each line of it begins with file:line:column.
type mistakes struct{ error }

func (e *mistakes) Unwrap() error { return e.error }

// checkGCRA refuses a gcra about descriptors beside limits of other files. Within a file, policy.Parse does.
func (f files) checkGCRA() error {
	enforcing := len(f.envoy) // files
	var alone []error
	for _, name := range slices.Sorted(maps.Keys(f.policies)) {
		enforces := false
		for _, p := range f.policies[name].Policies {
			if p.AsksRequest() || p.Mode == policy.Shadow {
				continue
			}
			enforces = true
			if p.Script == "gcra" {
				alone = append(alone, fmt.Errorf("%s:%d:%d: gcra cannot give back what a limit of another file denies: "+
					"want list_log or slice_ring, or an instance of its own", f.policies[name].Name(), p.Line, p.Column))
			}
		}
		if enforces {
			enforcing++
		}
	}
	if enforcing < 2 {
		return nil
	}
	return errors.Join(alone...)
}

// passed says what a proxy has to pass, for each policy file that asks about requests: without it no limit applies.
func (f files) passed() (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(f.policies)) {
		var parts []string
		for _, asked := range f.policies[name].Asks() {
			if part := passedFor(asked); !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
		if len(parts) > 0 {
			texts = append(texts, name+".yaml: the proxy has to pass "+strings.Join(parts, ", "))
		}
	}
	return texts
}

// passedFor says what a proxy has to pass for one name of expressions.
func passedFor(asked string) string {
	_, asked, _ = strings.Cut(asked, ".")
	switch what, key, _ := strings.Cut(asked, "."); what {
	case "path", "query":
		return "path and query (X-Forwarded-Uri)"
	case "ip":
		return "address (X-Forwarded-For)"
	case "header":
		return "header " + cmp.Or(key, "of each name")
	case "cookie":
		return "cookie " + cmp.Or(key, "of each name") + " (Cookie)"
	default:
		return what + " (X-Forwarded-" + strings.ToUpper(what[:1]) + what[1:] + ")"
	}
}

// remarks says what the files ask for and sluiced does otherwise, and what may be forgotten.
func (f files) remarks() (texts []string) {
	where := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(f.policies)) {
		asks := slices.ContainsFunc(f.policies[name].Policies, (*policy.Policy).AsksRequest)
		if asks && len(f.policies[name].Proxies) == 0 {
			texts = append(texts, name+".yaml has no proxies: a proxy's headers are believed only if its address is there")
		}
		for _, p := range f.policies[name].Policies {
			if earlier, twice := where[p.Name]; twice {
				texts = append(texts, fmt.Sprintf("%s.yaml and %s.yaml both have a limit %s: they count together", earlier, name,
					p.Name))
			}
			where[p.Name] = name
			for _, o := range p.Overrides {
				if !o.Active(time.Now()) {
					texts = append(texts, fmt.Sprintf("%s.yaml: %s: the override of %s has ended, at %s", name, p.Name, cmp.Or(o.Subject, o.Network),
						o.Until.UTC().Format(time.RFC3339)))
				}
			}
		}
	}
	for _, file := range f.envoy {
		if file.Further {
			texts = append(texts, file.Name+" has further documents behind the first: as by envoyproxy/ratelimit, they are not "+
				"read")
		}
		for _, rule := range file.Rules {
			if rule.Requests > maxPermits {
				texts = append(texts, fmt.Sprintf("%s:%d:%d: a limit of %d: %d is applied, the highest that there is",
					file.Name, rule.Line, rule.Column, rule.Requests, maxPermits))
			}
		}
	}
	return texts
}
