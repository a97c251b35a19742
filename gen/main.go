// Gen generates code and tables from the headers of scripts/*.lua: scripts_gen.go, scripts/functions, scripts/SHA1SUMS
// and SHA256SUMS, scripts/manifest.json, the table in scripts/README.md, and the parts of the scripts that several
// share. It checks each header against the script's body. If anything is wrong, it says where, and writes nothing.
//
// To release, make lock appends the new lines of scripts/SHA1SUMS to gen/released.txt. From then on gen refuses any
// change of these files.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	if err := run(".", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run updates the generated files below root and prints to out which it wrote.
func run(root string, out io.Writer) error {
	files, err := generate(os.DirFS(root))
	if err != nil {
		return err
	}
	stale, err := staleFiles(os.DirFS(root), files)
	if err != nil {
		return err
	}
	for _, f := range stale {
		if err := f.write(root); err != nil {
			return err
		}
		fmt.Fprintln(out, "gen:", f)
	}
	return nil
}

// generated is a generated file.
type generated struct {
	path string
	data []byte
}

func (g generated) String() string { return "wrote " + g.path }

func (g generated) write(root string) error {
	path := filepath.Join(root, filepath.FromSlash(g.path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, g.data, 0o644)
}

func generate(tree fs.FS) ([]generated, error) {
	scripts, err := readScripts(tree)
	if err != nil {
		return nil, err
	}
	readme, err := readmeWithTable(tree, scripts)
	if err != nil {
		return nil, err
	}
	libraries, err := libraries(tree, scripts)
	if err != nil {
		return nil, err
	}
	manifest := manifest(scripts, libraries)
	sums256, err := sums256(tree, scripts, libraries, manifest)
	if err != nil {
		return nil, err
	}
	files := []generated{
		{readmeFile, readme},
		{"scripts/SHA1SUMS", sums(scripts, libraries)},
		{"scripts/SHA256SUMS", sums256},
		{"scripts/manifest.json", manifest},
		{"scripts_gen.go", scriptsGo(scripts, libraries)},
	}
	for _, l := range libraries {
		files = append(files, generated{"scripts/" + l.File(), []byte(l.Source)})
	}
	for _, s := range scripts {
		files = append(files, generated{"scripts/" + s.File(), []byte(s.Source)})
	}
	return files, nil
}

// staleFiles returns the files that differ from tree.
func staleFiles(tree fs.FS, files []generated) ([]generated, error) {
	var stale []generated
	for _, f := range files {
		found, err := fs.ReadFile(tree, f.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || string(found) != string(f.data) {
			stale = append(stale, f)
		}
	}
	return stale, nil
}
