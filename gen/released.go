package main

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const releasedFile = "gen/released.txt"

var sumPattern = regexp.MustCompile(`^([0-9a-f]{40})  (((?:functions/)?[a-z0-9_]+_v)([1-9][0-9]*)\.lua)$`)

// sums returns the output of sha1sum for the scripts and the libraries.
func sums(scripts []*script, libraries []library) []byte {
	var b strings.Builder
	for _, s := range scripts {
		fmt.Fprintf(&b, "%s  %s\n", s.SHA1(), s.File())
	}
	for _, l := range libraries {
		fmt.Fprintf(&b, "%s  %s\n", l.SHA1(), l.File())
	}
	return []byte(b.String())
}

// shipped are the files in scripts/ that are neither a script nor made here.
var shipped = []string{"calls.json", "keys.json", "manifest.schema.json"}

// sums256 returns the output of sha256sum for all files that are shipped.
func sums256(tree fs.FS, scripts []*script, libraries []library, manifest []byte) ([]byte, error) {
	files := map[string][]byte{"manifest.json": manifest}
	for _, l := range libraries {
		files[l.File()] = []byte(l.Source)
	}
	for _, s := range scripts {
		files[s.File()] = []byte(s.Source)
	}
	for _, name := range shipped {
		data, err := fs.ReadFile(tree, "scripts/"+name)
		if err != nil {
			return nil, err
		}
		files[name] = data
	}
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "%s  %s\n", sha256Hex(files[name]), name)
	}
	return b.Bytes(), nil
}

func sha256Hex(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// checkReleased compares the scripts and libraries with the list of released ones. Released ones must not change: users
// call the scripts by their SHA1, and the functions by names that must mean the same everywhere.
func checkReleased(tree fs.FS, scripts []*script) error {
	list, err := fs.ReadFile(tree, releasedFile)
	if err != nil {
		return err
	}
	found, err := sumsOfLibraries(tree)
	if err != nil {
		return err
	}
	for _, s := range scripts {
		found[s.File()] = s.SHA1()
	}
	var refusals []error
	for i, line := range strings.Split(strings.TrimSuffix(string(list), "\n"), "\n") {
		if !strings.HasPrefix(line, "#") {
			refusals = append(refusals, checkReleasedLine(place{releasedFile, i + 1, 1}, line, found))
		}
	}
	return errors.Join(refusals...)
}

// sumsOfLibraries returns the SHA1 of each library that there is, by its file.
func sumsOfLibraries(tree fs.FS) (map[string]string, error) {
	found := map[string]string{}
	files, err := fs.Glob(tree, "scripts/functions/*.lua")
	for _, file := range files {
		source, err := fs.ReadFile(tree, file)
		if err != nil {
			return nil, err
		}
		found[strings.TrimPrefix(file, "scripts/")] = fmt.Sprintf("%x", sha1.Sum(source))
	}
	return found, err
}

func checkReleasedLine(at place, line string, found map[string]string) error {
	parts := sumPattern.FindStringSubmatch(line)
	if parts == nil {
		return refuse(at, "found %q, want a line of sha1sum or a comment that begins with #", line)
	}
	sha1, file := parts[1], parts[2]
	switch found[file] {
	case sha1:
		return nil
	case "":
		return refuse(at, "scripts/%s was released but is missing, want it restored: git log -- scripts/%s", file, file)
	}
	cure := "and the change in a copy with the next free " + parts[3] + "<N>.lua"
	if strings.HasPrefix(file, "functions/") {
		cure = "because gen makes the next library of new scripts"
	}
	return refuse(place{"scripts/" + file, 1, 1},
		"released as %s and changed since (or a part of gen/parts was), want the released bytes here %s", sha1, cure)
}
