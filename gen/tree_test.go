package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var update = flag.Bool("update", false, "write the goldens")

// The scripts of a small project, without what is generated.
const smallScripts = "testdata/scripts"

func TestNothingIsStale(t *testing.T) {
	for _, place := range stalePlaces(t, os.DirFS("..")) {
		t.Errorf("%s: stale, run make generate", place)
	}
}

// stalePlaces are the first lines of generated files that are not what the generator writes.
func stalePlaces(t *testing.T, tree fs.FS) (places []string) {
	t.Helper()
	files, err := generate(tree)
	must(t, err)
	stale, err := staleFiles(tree, files)
	must(t, err)
	for _, f := range stale {
		found, _ := fs.ReadFile(tree, f.path)
		line := 1
		for i := 0; i < min(len(found), len(f.data)) && found[i] == f.data[i]; i++ {
			if found[i] == '\n' {
				line++
			}
		}
		places = append(places, fmt.Sprintf("%s:%d", f.path, line))
	}
	return places
}

func TestChangedPartIsStale(t *testing.T) {
	tree := smallTree(t)
	edit(tree, smallScript, "integer(ARGV[1], 1, 100)", "integer(ARGV[1], 1, 1000)")
	if got := stalePlaces(t, tree); !slices.Equal(got, []string{smallScript + ":38"}) {
		t.Errorf("stale at %q, want line 38 of %s", got, smallScript)
	}
}

func TestRunTwiceWritesOnce(t *testing.T) {
	root := t.TempDir()
	for path, file := range smallSources(t) {
		must(t, generated{path, file.Data}.write(root))
	}
	var first, second bytes.Buffer
	must(t, run(root, &first))
	var want strings.Builder
	for _, path := range []string{"scripts/README.md", "scripts/SHA1SUMS", "scripts/SHA256SUMS", "scripts/manifest.json",
		"scripts_gen.go", "scripts/functions/sluice_v1.lua", "scripts/both_many_v1.lua", "scripts/both_v1.lua",
		"scripts/one_many_v1.lua", "scripts/one_v1.lua", "scripts/pairs_v2.lua", "scripts/small_v1.lua"} {
		want.WriteString("gen: wrote " + path + "\n")
	}
	if first.String() != want.String() {
		t.Errorf("the first run printed\n%swant\n%s", first.String(), want.String())
	}
	if err := run(root, &second); err != nil || second.Len() > 0 {
		t.Errorf("the second run: %v, printed %q, want nothing", err, second.String())
	}
}

func TestRefusedRunWritesNothing(t *testing.T) {
	root := t.TempDir()
	for path, file := range smallSources(t) {
		must(t, generated{path, file.Data}.write(root))
	}
	must(t, generated{"scripts/bad_v1.lua", []byte("return 1\n")}.write(root))
	if err := run(root, io.Discard); err == nil {
		t.Fatal("no error")
	}
	if _, err := os.Stat(filepath.Join(root, "scripts_gen.go")); err == nil {
		t.Error("scripts_gen.go was written")
	}
}

func TestSumsAgree(t *testing.T) {
	if _, err := exec.LookPath("sha1sum"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no sha1sum here: macOS has shasum, which prints the same")
	}
	for command, sums := range map[string]string{"sha1sum": "SHA1SUMS", "sha256sum": "SHA256SUMS"} {
		check := exec.Command(command, "--strict", "-c", sums)
		check.Dir = "../scripts"
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s -c %s in scripts/: %v\n%s", command, sums, err, out)
		}
	}
}

func TestShippedFilesAreWanted(t *testing.T) {
	tree := smallTree(t)
	delete(tree, "scripts/keys.json")
	if _, err := generate(tree); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without keys.json: %v, want that it does not exist", err)
	}
}

// What no script of scripts/ has: as many arguments as twice the keys, and a table's marks in prose.
func TestSmallProject(t *testing.T) {
	tree := smallTree(t)
	for path, want := range map[string]string{
		"scripts/pairs_v2.lua": "\nif #ARGV ~= 2 * #KEYS then\n",
		readmeFile:             `| A counter of calls \| &lt;every> row \* that stands alone: `,
	} {
		if !strings.Contains(string(tree[path].Data), want) {
			t.Errorf("%s has no %q:\n%s", path, want, tree[path].Data)
		}
	}
}

// Refusals of what is not in the text of one script.
func TestTreeRefusals(t *testing.T) {
	for _, c := range treeCases {
		t.Run(c.name, func(t *testing.T) {
			tree := smallTree(t)
			c.change(tree)
			_, err := generate(tree)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

type treeCase struct {
	name   string
	change func(fstest.MapFS)
	want   string
}

const (
	smallScript = "scripts/small_v1.lua"
	oneScript   = "scripts/one_v1.lua"
	smallMark   = "-- MANY: small_many_v1 repeats what follows for 1..8 keys.\n"
)

// The SHA1 of other bytes than any script has.
const otherSHA1 = "da39a3ee5e6b4b0d3255bfef95601890afd80709"

var treeCases = []treeCase{
	{"a script without a version", func(tree fstest.MapFS) {
		tree["scripts/small.lua"] = tree[smallScript]
	}, "scripts/small.lua:1:1: not a script's name, want <name>_v<N>.lua in lower case"},
	{"something else among the scripts", written("scripts/notes.txt", ""),
		"scripts/notes.txt:1:1: not a script's name, want <name>_v<N>.lua in lower case"},
	{"two scripts at fault", func(tree fstest.MapFS) {
		edit(tree, smallScript, "-- small v1", "-- Small v1")
		edit(tree, "scripts/pairs_v2.lua", "-- pairs v2", "-- pairs v1")
	}, `scripts/pairs_v2.lua:1:1: first line "-- pairs v1", want "-- pairs v2", to match the file name` + "\n" +
		`scripts/small_v1.lua:1:1: first line "-- Small v1", want "-- small v1", to match the file name`},
	{"an empty file", written(smallScript, ""),
		"scripts/small_v1.lua:1:1: the file ends without a line end or with a blank line, want one LF"},
	{"no line end at the end", edited(smallScript, "max_wait, now}\n", "max_wait, now}"),
		"scripts/small_v1.lua:64:1: the file ends without a line end or with a blank line, want one LF"},
	{"a blank line at the end", edited(smallScript, "max_wait, now}\n", "max_wait, now}\n\n"),
		"scripts/small_v1.lua:66:1: the file ends without a line end or with a blank line, want one LF"},
	{"a carriage return", edited(smallScript, "-- small v1\n", "-- small v1\r\n"),
		`scripts/small_v1.lua:1:12: the byte 0x0d, want printable ASCII and LF line ends`},
	{"a tab", edited(smallScript, "  return {1, 0, now}", "\treturn {1, 0, now}"),
		`scripts/small_v1.lua:62:1: the byte 0x09, want printable ASCII and LF line ends`},
	{"a letter beyond ASCII", edited(smallScript, "calls in a window", "calls \u00e0 window"),
		`scripts/small_v1.lua:10:65: the byte 0xc3, want printable ASCII and LF line ends`},
	{"a space at the end of a line", edited(smallScript, "-- small v1\n--\n", "-- small v1\n-- \n"),
		"scripts/small_v1.lua:2:3: a space at the end of the line, want none"},
	{"a header and nothing else", func(tree fstest.MapFS) {
		header, _, _ := strings.Cut(string(tree[smallScript].Data), "\n\n")
		tree[smallScript] = &fstest.MapFile{Data: []byte(header + "\n")}
	}, `scripts/small_v1.lua:27:1: found "", want a blank line, which ends the header`},

	{"a list of released scripts that is none", written(releasedFile, "# a comment\nsmall_v1.lua\n"),
		`gen/released.txt:2:1: found "small_v1.lua", want a line of sha1sum or a comment that begins with #`},
	{"a released script that changed", written(releasedFile, otherSHA1+"  small_v1.lua\n"),
		"scripts/small_v1.lua:1:1: released as " + otherSHA1 + " and changed since (or a part of gen/parts was), " +
			"want the released bytes here and the change in a copy with the next free small_v<N>.lua"},
	{"a released library that changed", written(releasedFile, otherSHA1+"  functions/sluice_v1.lua\n"),
		"scripts/functions/sluice_v1.lua:1:1: released as " + otherSHA1 + " and changed since (or a part of gen/parts " +
			"was), want the released bytes here because gen makes the next library of new scripts"},
	{"a released script that is gone", written(releasedFile, otherSHA1+"  lost_v1.lua\n"),
		"gen/released.txt:1:1: scripts/lost_v1.lua was released but is missing, " +
			"want it restored: git log -- scripts/lost_v1.lua"},

	{"a mark for many keys that is none", edited(oneScript, "for 1..8 keys,", "for 8 keys,"),
		`scripts/one_v1.lua:47:1: found "-- MANY: one_many_v1 repeats what follows for 8 keys, keys * ` +
			`permits up to 20, 5 calls of is_set.", want "-- MANY: one_many_v1 repeats what follows for 1..<max> keys.", ` +
			`perhaps with ", keys * <argument> up to <max>, <max> calls of <function>" before the full stop`},
	{"a mark that names another script", edited(oneScript, "one_many_v1 repeats", "one_many_v2 repeats"),
		`scripts/one_v1.lua:47:1: found "-- MANY: one_many_v2 repeats what follows for 1..8 keys, keys * ` +
			`permits up to 20, 5 calls of is_set.", want "-- MANY: one_many_v1 repeats what follows for 1..<max> keys.", ` +
			`perhaps with ", keys * <argument> up to <max>, <max> calls of <function>" before the full stop`},
	{"a mark in a script of two keys", edited(smallScript, "local struct =", smallMark+"local struct ="),
		"scripts/small_v1.lua:57:1: a script with 2 keys whose reply has granted, wait, now, " +
			"want one key, and now as the last field that is not repeated"},
	{"a mark that names no function", edited(oneScript, "calls of is_set", "calls of reads"),
		`scripts/one_v1.lua:47:1: a bound of keys * permits and of calls, ` +
			`want a local that holds redis.call("TIME"), and the function reads, before`},
	{"a mark inside a statement", edited(oneScript, "end\n\n-- MANY: one_many_v1 repeats what follows for 1..8 keys,"+
		" keys * permits up to 20, 5 calls of is_set.\n", "-- MANY: one_many_v1 repeats what follows for 1..8 keys.\nend\n"),
		"scripts/one_v1.lua:45:1: a mark inside a statement, want it between two"},
	{"a mark in a script without a clock", edited("scripts/pairs_v2.lua", "repeat\n",
		"-- MANY: pairs_many_v2 repeats what follows for 1..8 keys.\nrepeat\n"),
		"scripts/pairs_v2.lua:57:1: a script with 2 keys whose reply has granted, count_i, " +
			"want one key, and now as the last field that is not repeated"},
	{"a script for many keys that cannot be made", edited(oneScript, "local granted = permits\n",
		"local granted = permits\nseen.last = granted\n"),
		`scripts/one_many_v1.lua:61:3: seen is written for one key and kept for the next, ` +
			`want it local behind the line -- MANY`},
	{"a script for many keys that is made from none", edited(oneScript, "-- MANY", "-- Many"),
		"scripts/one_many_v1.lua:1:1: no script is marked -- MANY: one_many_v1 .., want one, or this file removed"},

	{"a README without a place for the table", edited(readmeFile, tableEnds, ""),
		`scripts/README.md:1:1: no place for the table of scripts, ` +
			`want a line "<!-- scripts: generated by go generate -->" and a line "<!-- end -->" after it`},
}

// A released script may not change; one that has not changed may stay, and so may a new one.
func TestReleased(t *testing.T) {
	tree := smallTree(t)
	sums := tree["scripts/SHA1SUMS"].Data
	tree[releasedFile] = &fstest.MapFile{Data: append([]byte("# first release\n"), sums...)}
	if _, err := generate(tree); err != nil {
		t.Error(err)
	}
	old, _, _ := strings.Cut(string(sums), "\n")
	tree[releasedFile] = &fstest.MapFile{Data: []byte(old + "\n")}
	if _, err := generate(tree); err != nil {
		t.Error(err)
	}
}

// While nothing is under Unreleased in CHANGELOG.md, as when a release is made, every script and library is listed.
func TestReleaseIsListed(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile("../" + path)
		must(t, err)
		return string(text)
	}
	_, changes, _ := strings.Cut(read("CHANGELOG.md"), "\n## ")
	newest, _, _ := strings.Cut(changes, "\n## ")
	if strings.HasPrefix(newest, "[Unreleased]") && strings.Contains(newest, "\n- ") {
		return
	}
	listed := read(releasedFile)
	for line := range strings.Lines(read("scripts/SHA1SUMS")) {
		if !strings.Contains(listed, line) {
			t.Errorf("not in %s: %s cure: make lock", releasedFile, line)
		}
	}
}

// smallSources are the files of the small project that are written by hand, with the printed parts of this one.
func smallSources(t testing.TB) fstest.MapFS {
	t.Helper()
	tree := fstest.MapFS{}
	written(releasedFile, "# none\n")(tree)
	written(readmeFile, "# A small project\n\n"+tableBegins+tableEnds+"\n\nBehind the table.\n")(tree)
	for _, name := range shipped {
		written("scripts/"+name, "{}\n")(tree)
	}
	places := map[string]string{smallScripts: "scripts/", "testdata/parts": "gen/parts/", "parts": "gen/parts/"}
	for from, to := range places {
		files, err := filepath.Glob(from + "/*.lua")
		must(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			must(t, err)
			written(to+filepath.Base(file), string(source))(tree)
		}
	}
	return tree
}

// smallTree is the small project with all that is generated. A test may change it.
func smallTree(t testing.TB) fstest.MapFS {
	t.Helper()
	tree := smallSources(t)
	files, err := generate(tree)
	must(t, err)
	for _, f := range files {
		written(f.path, string(f.data))(tree)
	}
	return tree
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func written(path, text string) func(fstest.MapFS) {
	return func(tree fstest.MapFS) { tree[path] = &fstest.MapFile{Data: []byte(text)} }
}

func edited(path, old, new string) func(fstest.MapFS) {
	return func(tree fstest.MapFS) { edit(tree, path, old, new) }
}

// edit replaces old, which must be there, by a new text.
func edit(tree fstest.MapFS, path, old, new string) {
	text := string(tree[path].Data)
	if strings.Count(text, old) != 1 {
		panic(path + " holds " + old + " not once but in " + strings.Join(slices.Collect(maps.Keys(tree)), " "))
	}
	tree[path] = &fstest.MapFile{Data: []byte(strings.Replace(text, old, new, 1))}
}
