package main

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

var filePattern = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*_v[1-9][0-9]*\.lua$`)

// readScripts reads and checks scripts/, sorted by file name.
func readScripts(tree fs.FS) ([]*script, error) {
	files, err := fs.ReadDir(tree, "scripts")
	if err != nil {
		return nil, err
	}
	var scripts []*script
	var refusals []error
	for _, file := range files {
		made := []string{"SHA1SUMS", "SHA256SUMS", "manifest.json", "README.md", "functions"}
		if slices.Contains(slices.Concat(made, shipped), file.Name()) || strings.Contains(file.Name(), manyFiles) {
			continue
		}
		s, err := readScript(tree, path.Join("scripts", file.Name()))
		scripts = append(scripts, s)
		refusals = append(refusals, err)
	}
	if err := errors.Join(refusals...); err != nil {
		return nil, err
	}
	many, err := manyScripts(tree, scripts)
	if err != nil {
		return nil, err
	}
	scripts = append(scripts, many...)
	slices.SortFunc(scripts, func(a, b *script) int { return strings.Compare(a.File(), b.File()) })
	return scripts, checkReleased(tree, scripts)
}

func readScript(tree fs.FS, file string) (*script, error) {
	if !filePattern.MatchString(path.Base(file)) {
		return nil, refuse(place{file, 1, 1}, "not a script's name, want <name>_v<N>.lua in lower case")
	}
	source, err := fs.ReadFile(tree, file)
	if err != nil {
		return nil, err
	}
	return parseScript(tree, file, string(source))
}

// parseScript reads one script, prints its parts, which are in tree, and checks its bytes and that the body agrees with
// the header.
func parseScript(tree fs.FS, file, source string) (*script, error) {
	if err := checkBytes(file, source); err != nil {
		return nil, err
	}
	s, err := parseHeader(file, source)
	if err != nil {
		return nil, err
	}
	if err := printParts(tree, file, s); err != nil {
		return nil, err
	}
	if err := checkBytes(file, s.Source); err != nil {
		return nil, err
	}
	return s, checkBody(file, s)
}

const maxColumns = 120

// checkBytes checks the characters and line ends, so that all tools read a script in the same way.
func checkBytes(file, source string) error {
	for i, line := range strings.Split(source, "\n") {
		at := func(col int) place { return place{file, i + 1, col + 1} }
		if col := strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }); col >= 0 {
			return refuse(at(col), "the byte 0x%02x, want printable ASCII and LF line ends", line[col])
		}
		if strings.HasSuffix(line, " ") {
			return refuse(at(len(line)-1), "a space at the end of the line, want none")
		}
		if len(line) > maxColumns {
			return refuse(at(maxColumns), "%d columns, want up to %d", len(line), maxColumns)
		}
	}
	if !strings.HasSuffix(source, "\n") || strings.HasSuffix(source, "\n\n") {
		lines := strings.Count(source, "\n") + 1
		return refuse(place{file, lines, 1}, "the file ends without a line end or with a blank line, want one LF")
	}
	return nil
}
