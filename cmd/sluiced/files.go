package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/policy"
	"github.com/sluice-redis/sluice/policy/envoyfile"
)

// maxFile is the longest file, in bytes: the readers refuse what is longer.
const maxFile = 1 << 20

// maxPermits is the highest limit of a ring.
const maxPermits = 1_000_000_000

// files is what the files say: those of envoyproxy/ratelimit, and policy files by their names without the ending.
type files struct {
	theirs []*envoyfile.File
	ours   map[string]*policy.File
}

// readFiles reads files and all .yaml and .yml files in directories. Its error joins all mistakes in all files.
func readFiles(paths []string) (files, error) {
	sources, err := sourcesOf(paths)
	if err != nil {
		return files{}, err
	}
	return parseFiles(sources)
}

// sourcesOf returns the texts of files, by their paths.
func sourcesOf(paths []string) (map[string][]byte, error) {
	sources := map[string][]byte{}
	for _, path := range paths {
		found, err := filesAt(path)
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			if sources[file], err = readFile(file); err != nil {
				return nil, err
			}
		}
	}
	return sources, nil
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

// readFile returns what a regular file holds: a pipe would block.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxFile+1))
}

// parseFiles reads the texts of files.
func parseFiles(sources map[string][]byte) (files, error) {
	read := files{ours: map[string]*policy.File{}}
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(sources)) {
		if envoyfile.Is(sources[path]) {
			file, err := envoyfile.Parse(path, sources[path])
			errs = append(errs, err)
			if err == nil {
				read.theirs = append(read.theirs, file)
			}
			continue
		}
		file, err := policy.Parse(path, sources[path])
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if read.ours[name] != nil {
			err = errors.Join(err, fmt.Errorf("%s: two policy files of the name %s: want another name", path, name))
		}
		errs, read.ours[name] = append(errs, err), file
	}
	errs = append(errs, envoyfile.CheckAll(read.theirs))
	if errors.Join(errs...) == nil {
		errs = append(errs, read.checkGCRA())
	}
	return read, errors.Join(errs...)
}

// checkGCRA refuses a gcra about descriptors beside limits of other files. Within a file, policy.Parse does.
func (f files) checkGCRA() error {
	enforcing := len(f.theirs) // files
	var alone []error
	for _, name := range slices.Sorted(maps.Keys(f.ours)) {
		enforces := false
		for _, p := range f.ours[name].Policies {
			if p.AsksRequest() || p.Mode == policy.Shadow {
				continue
			}
			enforces = true
			if p.Script == "gcra" {
				alone = append(alone, fmt.Errorf("%s.yaml:%d:%d: gcra cannot give back what a limit of another file denies: "+
					"want list_log or slice_ring, or an instance of its own", name, p.Line, p.Column))
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

// remarks says what the files ask for and sluiced does otherwise, and what may be forgotten.
func (f files) remarks() (texts []string) {
	where := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(f.ours)) {
		asks := slices.ContainsFunc(f.ours[name].Policies, (*policy.Policy).AsksRequest)
		if asks && len(f.ours[name].Proxies) == 0 {
			texts = append(texts, name+".yaml has no proxies: a proxy's headers are believed only if its address is there")
		}
		for _, p := range f.ours[name].Policies {
			if other, twice := where[p.Name]; twice {
				texts = append(texts, fmt.Sprintf("%s.yaml and %s.yaml both have a limit %s: they count together", other, name,
					p.Name))
			}
			where[p.Name] = name
			for _, o := range p.Overrides {
				if !o.Active(time.Now()) {
					texts = append(texts, fmt.Sprintf("%s.yaml: %s: the override of %s has ended, at %s", name, p.Name, o.Subject,
						o.Until.UTC().Format(time.RFC3339)))
				}
			}
		}
	}
	for _, file := range f.theirs {
		for _, rule := range file.Rules {
			if rule.Requests > maxPermits {
				texts = append(texts, fmt.Sprintf("%s:%d:%d: a limit of %d: %d is applied, the highest that there is",
					file.Name, rule.Line, rule.Column, rule.Requests, maxPermits))
			}
		}
	}
	return texts
}

func convertFiles(theirs []*envoyfile.File) ([]byte, error) { return envoyfile.Convert(theirs) }

// watch applies changes of files until the context ends. A change is applied when two looks in a row have found the
// same, so that a half written file is not; a file that is wrong changes nothing.
func watch(ctx context.Context, paths []string, every time.Duration, applied map[string][]byte,
	apply func(files) error, told func(error),
) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last, lastErr := applied, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := sourcesOf(paths)
		if err != nil {
			if err.Error() != lastErr {
				told(err)
			}
			lastErr = err.Error()
			continue
		}
		if same(now, last) && (!same(now, applied) || lastErr != "") {
			applied, lastErr = now, ""
			read, err := parseFiles(now)
			if err == nil {
				err = apply(read)
			}
			told(err)
		}
		last = now
	}
}

func same(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }

// tell logs what became of a reload.
func tell(log *slog.Logger, read files, err error) {
	if err != nil {
		log.Error("the files are wrong: the limits stay as they were", "error", err)
		return
	}
	log.Info("files applied", "envoy", len(read.theirs), "policies", len(read.ours))
	for _, remark := range read.remarks() {
		log.Warn(remark)
	}
}
