// Gen generates code and tables from the headers of scripts/*.lua: scripts_gen.go, loader/bindings, scripts/functions,
// scripts/SHA1SUMS and SHA256SUMS, scripts/manifest.json, the table in scripts/README.md, and the parts of the scripts
// themselves that several share. It checks each header against the script's body. If anything is wrong, it says where,
// and writes nothing.
//
// To release, append the new lines of scripts/SHA1SUMS to gen/released.txt. From then on gen refuses any change of
// these files.
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

// run updates the generated files below root and prints to out which it wrote or removed.
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

// generated is a generated file. Without data, it is no longer needed and is removed.
type generated struct {
	path string
	data []byte
}

func (g generated) String() string {
	if g.data == nil {
		return "removed " + g.path
	}
	return "wrote " + g.path
}

func (g generated) write(root string) error {
	path := filepath.Join(root, filepath.FromSlash(g.path))
	if g.data == nil {
		return os.Remove(path)
	}
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
		files = append(files, generated{"scripts/" + s.File(), []byte(s.Source)},
			generated{"loader/bindings/" + s.File() + ".go", bindingGo(s)})
	}
	return files, nil
}

// staleFiles returns the files that differ from tree, and the bindings whose script is gone.
func staleFiles(tree fs.FS, files []generated) ([]generated, error) {
	var stale []generated
	wanted := map[string]bool{}
	for _, f := range files {
		wanted[f.path] = true
		found, err := fs.ReadFile(tree, f.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || string(found) != string(f.data) {
			stale = append(stale, f)
		}
	}
	bindings, err := fs.Glob(tree, "loader/bindings/*.lua.go")
	if err != nil {
		return nil, err
	}
	for _, path := range bindings {
		if !wanted[path] {
			stale = append(stale, generated{path, nil})
		}
	}
	return stale, nil
}
