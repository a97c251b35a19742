package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A toolchain makes and runs the driver of a language: a program in languages/ that asks one limiter. Its arguments are
// the limiter's name, the server's host and port, the limit, the window in seconds, and the client's name; then, for a
// script of ours, its name, the end of its key, and its ARGV. It prints "ready" and answers each line:
//
//	take SUBJECT        1 (granted), 0 (denied), or ! and an error
//	clock               its wall clock, in milliseconds
//	load CALLERS MS     decisions a second of so many callers at once, in so much time: Python and Node
type toolchain struct {
	folder string // in languages/
	pins   string // the file there that names the versions
	needs  string
	build  [][]string
	run    []string
}

var toolchains = map[string]toolchain{
	"Java": {"java", "pom.xml", "a JDK of 17 or later and Maven (Debian: default-jdk-headless, maven)", [][]string{
		{"mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib"},
		{"javac", "-cp", "lib/*", "-d", "lib", "Driver.java", "lib/Sluice.java"},
	}, []string{"java", "-Xmx256m", "-cp", "lib/*:lib", "Driver"}},
	"Python": {"python", "requirements.txt", "Python 3.10 or later with venv (Debian: python3-venv)", [][]string{
		{"python3", "-m", "venv", ".venv"},
		{".venv/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", "requirements.txt"},
	}, []string{".venv/bin/python", "driver.py"}},
	"Node": {"node", "package.json", "Node 20 or later and npm (an older one: npm install -g node)", [][]string{
		{"node", "--eval", "if (parseInt(process.versions.node) < 20) throw new Error(process.version)"},
		{"npm", "ci", "--silent", "--ignore-scripts"},
		{"node", "../../../clients/node/scripts.mjs"}, // the scripts that our package has
	}, []string{"node", "driver.mjs"}},
}

// prepare builds the drivers of some languages.
func (b *bench) prepare(languages ...string) error {
	for _, language := range languages {
		b.progress("making the driver for %s", language)
		if err := toolchains[language].prepare(); err != nil {
			return err
		}
	}
	return nil
}

// prepare builds the driver in its folder. The Java one gets the caller of docs/clients/java.md, as it stands there.
func (t toolchain) prepare() error {
	if t.folder == "java" {
		if err := writeCaller(filepath.Join("languages", "java", "lib")); err != nil {
			return err
		}
	}
	for _, args := range t.build {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = filepath.Join("languages", t.folder)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("bench/languages/%s: %q: %w: it needs %s\n%.2000s", t.folder, args, err, t.needs, out)
		}
	}
	return nil
}

func writeCaller(folder string) error {
	page, err := os.ReadFile(filepath.Join("..", "docs", "clients", "java.md"))
	if err != nil {
		return err
	}
	_, code, _ := strings.Cut(string(page), "```java lettuce\n")
	code, _, found := strings.Cut(code, "```\n")
	if !found {
		return errors.New("docs/clients/java.md: no caller for Lettuce")
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "Sluice.java"), []byte(code), 0o644)
}

// pinned is the version of a package that the driver is built with.
func (t toolchain) pinned(module string) (string, error) {
	text, err := os.ReadFile(filepath.Join("languages", t.folder, t.pins))
	if err != nil {
		return "", err
	}
	pin := regexp.MustCompile(`(?m)(?:^|[">])` + regexp.QuoteMeta(module) + `\b\D*([0-9][\w.]*)`)
	found := pin.FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s does not name %s", t.pins, module)
	}
	return strings.TrimSuffix(string(found[1]), ".RELEASE"), nil
}

// A driver is a program that runs. It answers one line at a time.
type driver struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	printed strings.Builder
}

// start runs the driver for a limiter, with more in its environment, until it is ready.
func (f foreign) start(addr string, limit int64, window time.Duration, environment ...string) (*driver, error) {
	t := toolchains[f.language]
	host, port, _ := net.SplitHostPort(addr)
	args := append(slices.Clone(t.run), f.name, host, port, fmt.Sprint(limit), fmt.Sprint(int64(window/time.Second)),
		f.client.name)
	if f.script != nil {
		args = append(args, f.script(limit, window.Microseconds())...)
	}
	folder := filepath.Join("languages", t.folder)
	if strings.HasPrefix(args[0], ".") {
		args[0], _ = filepath.Abs(filepath.Join(folder, args[0]))
	}
	d := &driver{cmd: exec.Command(args[0], args[1:]...)}
	d.cmd.Dir, d.cmd.Env, d.cmd.Stderr = folder, append(os.Environ(), environment...), &d.printed
	in, err1 := d.cmd.StdinPipe()
	out, err2 := d.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, d.cmd.Start()); err != nil {
		return nil, err
	}
	d.in, d.out = in, bufio.NewReader(out)
	if word, err := d.read(); err != nil || word != "ready" {
		d.stop()
		return nil, fmt.Errorf("%s: it says %q and not ready: %v\n%.2000s", f.subject("driver"), word, err, &d.printed)
	}
	return d, nil
}

// stop ends the program. What it printed besides its answers is complete then.
func (d *driver) stop() { _, _ = d.cmd.Process.Kill(), d.cmd.Wait() }

func (d *driver) read() (string, error) {
	line, err := d.out.ReadString('\n')
	if err != nil {
		err = fmt.Errorf("the driver ended: %w", err)
	}
	return strings.TrimSuffix(line, "\n"), err
}

// ask is the answer to a line.
func (d *driver) ask(line ...any) (string, error) {
	if _, err := fmt.Fprintln(d.in, line...); err != nil {
		return "", err
	}
	word, err := d.read()
	if err == nil && strings.HasPrefix(word, "!") {
		err = errors.New(word[1:])
	}
	return word, err
}

// take asks for one permit.
func (d *driver) take(subject string) (bool, error) {
	word, err := d.ask("take", subject)
	if err == nil && word != "0" && word != "1" {
		err = fmt.Errorf("the driver answers %q", word)
	}
	return word == "1", err
}

// number is the answer to a line, a number.
func (d *driver) number(line ...any) (float64, error) {
	word, err := d.ask(line...)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(word, 64)
}

// ahead is how far the program's wall clock is ahead of this one's, to a few milliseconds.
func (d *driver) ahead() (time.Duration, error) {
	ms, err := d.number("clock")
	return time.Until(time.UnixMilli(int64(ms))), err
}
