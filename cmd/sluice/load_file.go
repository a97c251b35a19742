package main

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice"
)

// findDeployed is findScripts for load and verify, which also take scripts that the program does not embed, as files:
// names that end in .lua, other than the names of embedded scripts. It returns the files as sha1sum prints them.
func findDeployed(names []string) (all []sluice.Script, files []string, err error) {
	if len(names) == 0 {
		return sluice.All(), nil, nil
	}
	for _, name := range names {
		embedded := func(s sluice.Script) bool { return s.File == name }
		isFile := strings.HasSuffix(name, ".lua") && !slices.ContainsFunc(sluice.All(), embedded)
		script, err := sluice.Script{}, error(nil)
		if isFile {
			script, err = readScript(name)
			files = append(files, script.SHA1+"  "+name)
		} else {
			script, err = findScript(name)
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, script)
	}
	return all, files, nil
}

var scriptTitle = regexp.MustCompile(`^-- ([a-z0-9_]+) v([1-9][0-9]*)\n`)

// readScript reads a file that has the header of a script: its title, which is the name of the file, KEYS and REPLY.
func readScript(path string) (sluice.Script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return sluice.Script{}, usagef("cannot read the script %s: %v", given(path), errors.Unwrap(err))
	}
	title := scriptTitle.FindSubmatch(text)
	if title == nil || !strings.Contains(string(text), "\n-- KEYS[") || !strings.Contains(string(text), "\n-- REPLY[") {
		return sluice.Script{}, usagef("%s is not a script of Sluice: want a header with \"-- <name> v<N>\" in its first\n"+
			"line (ended by LF, not by CR LF), KEYS and REPLY", given(path))
	}
	script := sluice.Script{Name: string(title[1]), File: filepath.Base(path), Source: string(text)}
	script.Version, _ = strconv.Atoi(string(title[2]))
	if fullName(script)+".lua" != script.File {
		return script, usagef("%s says that it is %s: want the file name %[2]s.lua", given(path), fullName(script))
	}
	sum := sha1.Sum(text)
	script.SHA1 = hex.EncodeToString(sum[:])
	return script, nil
}
