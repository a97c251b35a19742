package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The grammar of a header. Words begin in fixed columns. A row with an empty first column continues the text above it.
// Blocks have this order and are separated by a line "--".
//
//	-- <name> v<N>
//	--
//	-- <3 to 8 lines of prose>
//	--
//	-- GROUP[k]    <name>       <min>..<max>               in a script for many keys (see many.go): its subjects
//	-- GROUP[i]    <name>       <min>..<max>               at most one: how often the rows with an i come
//	-- KEYS[1]     <name>       <pattern>                  one or more; with GROUP[i] first its keys, one a member, and
//	-- KEYS[i]     <name>_i     <pattern>                  behind them others, counted from the number of its members:
//	-- KEYS[W+1]   <name>       <pattern>                  W for a group of windows
//	-- KEYS[k]     <name>       <pattern>                  in a script for many keys, one a subject
//	-- KEYS[ki]    <name>_i     <pattern>                  or one a member of the group, subject by subject
//	--
//	-- ARGV[1]     <name>       <type> <range> <text>      one or more, type int, us, time or str
//	-- ARGV[2i]    <name>_i     <type> <range> <text>      with GROUP[i]: one or more, here two
//	-- ARGV[2i+1]  <name>_i     <type> <range> <text>
//	--
//	-- REPLY[1]    <name>       <type> <range> <text>      one or more, type int, us or time
//	-- REPLY[5+i]  <name>_i     int    <range> <text>      with GROUP[i]: at most one
//	-- EACH[1]     <name>       <type> <range> <text>      for many keys: one or more, which follow for each subject
//	-- EACH[4+i]   <name>_i     int    <range> <text>      with GROUP[i] too: at most one
//	--
//	-- ERROR       <CODE>       <text>                     one or more
//	--
//	-- STATE       <code>/<N>   <layout>                   one or more: a key's pattern names one
//	-- COMPLEXITY  O(<order>)   <cost>
//	-- REDIS       <version>
const (
	wordColumn  = 4
	nameColumn  = 16
	thirdColumn = 29
	rangeColumn = 35
	textColumn  = 59

	minProse, maxProse = 3, 8
	maxExact           = 1<<53 - 1 // the largest integer that Lua numbers hold exactly
)

var (
	groupArgPattern = regexp.MustCompile(`^-- ARGV\[\d+i`)
	memberPattern   = regexp.MustCompile(`i`)

	titlePattern   = regexp.MustCompile(`^-- ([a-z][a-z0-9]*(?:_[a-z0-9]+)*) v([1-9][0-9]*)$`)
	namePattern    = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	codePattern    = regexp.MustCompile(`^[A-Z]+$`)
	rangePattern   = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,15})\.\.(0|[1-9][0-9]{0,15})?$`)
	statePattern   = regexp.MustCompile(`^([a-z]+)/([1-9][0-9]*)$`)
	orderPattern   = regexp.MustCompile(`^O\([A-Za-z0-9 ^*+]+\)$`)
	versionPattern = regexp.MustCompile(`^[1-9][0-9]*\.[0-9]+$`)
	partsPattern   = regexp.MustCompile(`^(:([a-z]+|<[a-z]+>(x<[a-z]+>)?))*$`)
)

// parseHeader parses the header of a script. file is its path, for messages.
func parseHeader(file, source string) (*script, error) {
	s := &script{Source: source, rows: map[string][]string{}}
	h := &header{file: file, lines: strings.Split(source, "\n"), script: s}
	steps := []func() error{
		h.title, h.separator, h.prose, h.separator,
		h.groups, h.keys, h.separator,
		h.args, h.separator,
		h.reply, h.separator,
		h.errors, h.separator,
		h.states, h.complexity, h.redis, h.end,
		h.keyPatterns,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return h.script, nil
}

type header struct {
	file   string
	lines  []string
	next   int // index of the next line
	script *script
}

func (h *header) line() string {
	if h.next >= len(h.lines) {
		return ""
	}
	return h.lines[h.next]
}

func (h *header) at(col int) place { return place{h.file, h.next + 1, col} }

// want refuses the first word of the next line, or the whole line if it does not begin with a word.
func (h *header) want(what string) error {
	found, col := h.line(), 1
	if words := strings.Fields(cut(found, len("-- "), len(found))); len(words) > 0 &&
		strings.HasPrefix(found, "-- "+words[0]) {
		found, col = words[0], wordColumn
	}
	return refuse(h.at(col), "found %q, want %s", found, what)
}

func (h *header) title() error {
	id := strings.TrimSuffix(h.file[strings.LastIndex(h.file, "/")+1:], ".lua")
	parts := titlePattern.FindStringSubmatch(h.line())
	if parts == nil || parts[1]+"_v"+parts[2] != id {
		v := strings.LastIndex(id, "_v")
		return refuse(h.at(1), "first line %q, want %q, to match the file name", h.line(), "-- "+id[:v]+" "+id[v+1:])
	}
	h.script.Name = parts[1]
	h.script.Version, _ = strconv.Atoi(parts[2])
	h.next++
	return nil
}

func (h *header) separator() error {
	if h.line() != "--" {
		return h.want(`"--", or another row of this block`)
	}
	h.next++
	return nil
}

func (h *header) prose() error {
	first := h.next
	for strings.HasPrefix(h.line(), "-- ") {
		h.script.About = append(h.script.About, h.line()[3:])
		h.next++
	}
	if n := h.next - first; n < minProse || n > maxProse {
		return refuse(place{h.file, first + 1, 1}, "%d lines of prose, want %d to %d", n, minProse, maxProse)
	}
	return nil
}

// groups parses the rows that say how many subjects and members there are.
func (h *header) groups() (err error) {
	if h.firstColumn() == "GROUP[k]" {
		if h.script.KeyGroup, err = h.groupRow("GROUP[k]"); err != nil {
			return err
		}
	}
	if h.word() == "GROUP" {
		h.script.Group, err = h.groupRow("GROUP[i]")
	}
	return err
}

func (h *header) keys() error {
	return h.rows("KEYS", func() error {
		cells, err := h.cells(column{nameColumn, "a name"}, column{thirdColumn, "a key pattern"})
		if err != nil {
			return err
		}
		if err := h.index("KEYS", cells[0], h.keyIndices()...); err != nil {
			return err
		}
		member := memberPattern.FindString(cells[0])
		if err := h.name(cells[1], member, append(keyNames(h.script), h.groupNames()...)); err != nil {
			return err
		}
		repeated := member != "" || h.script.KeyGroup != nil
		h.script.Keys = append(h.script.Keys, key{cells[1], cells[2], repeated, h.at(thirdColumn)})
		h.next++
		return nil
	})
}

// keyIndices returns the first column that the next row of keys has; none if there must be no further one.
func (h *header) keyIndices() []string {
	n, group, subjects := len(h.script.Keys), h.script.Group, h.script.KeyGroup
	switch {
	case subjects != nil && n > 0:
		return nil
	case subjects != nil && group != nil:
		return []string{"KEYS[ki]"}
	case subjects != nil:
		return []string{"KEYS[k]"}
	case group != nil && n == 0:
		return []string{"KEYS[i]"}
	case group != nil:
		return []string{fmt.Sprintf("KEYS[%s+%d]", strings.ToUpper(group.Name[:1]), n)}
	}
	return []string{fmt.Sprintf("KEYS[%d]", n+1)}
}

func (h *header) groupNames() (names []string) {
	for _, g := range []*group{h.script.KeyGroup, h.script.Group} {
		if g != nil {
			names = append(names, g.Name)
		}
	}
	return names
}

func (h *header) groupRow(index string) (*group, error) {
	cells, err := h.cells(column{nameColumn, "a name"}, column{thirdColumn, "a range"})
	if err != nil {
		return nil, err
	}
	if err := h.index("GROUP", cells[0], index); err != nil {
		return nil, err
	}
	if err := h.name(cells[1], "", h.groupNames()); err != nil {
		return nil, err
	}
	least, most, err := h.bounds(cells[2], thirdColumn, false)
	if err != nil {
		return nil, err
	}
	h.script.rows["GROUP"] = append(h.script.rows["GROUP"], h.line()+"\n")
	h.next++
	return &group{cells[1], least, most}, nil
}

func (h *header) args() error {
	err := h.rows("ARGV", func() error {
		f, err := h.field(h.argIndices(), argNames(h.script), "int", "us", "time", "str")
		h.script.Args = append(h.script.Args, f)
		return err
	})
	if err == nil && h.script.Group != nil && len(repeated(h.script.Args)) == 0 {
		return h.want(strings.Join(h.argIndices(), " or "))
	}
	return err
}

// argIndices returns the first columns that the next row of arguments may have.
func (h *header) argIndices() (indices []string) {
	args := h.script.Args
	add := func(next field, n int) {
		places := argPlaces(slices.Concat(args, slices.Repeat([]field{next}, n)))
		indices = append(indices, headerIndex(places[len(args)]))
	}
	if len(repeated(args)) == 0 {
		add(field{}, 1)
	}
	if h.script.Group != nil && len(plain(args)) > 0 {
		add(field{Repeated: true}, max(h.groupArgRows(), 1))
	}
	return indices
}

// groupArgRows counts the rows of arguments of the group that are left.
func (h *header) groupArgRows() (n int) {
	for _, line := range h.lines[h.next:] {
		if !strings.HasPrefix(line, "-- ARGV") && !strings.HasPrefix(line, "--  ") {
			break
		}
		if groupArgPattern.MatchString(line) {
			n++
		}
	}
	return n
}

// headerIndex is a place in ARGV as a header has it.
func headerIndex(place string) string {
	return "ARGV[" + strings.NewReplacer(" ", "", "*", "").Replace(place) + "]"
}

func (h *header) reply() error {
	if err := h.replies("REPLY"); err != nil || h.script.KeyGroup == nil {
		return err
	}
	return h.replies("EACH")
}

// replies parses the rows of REPLY, or those of EACH.
func (h *header) replies(word string) error {
	first := len(h.script.Reply)
	return h.rows(word, func() error {
		f, err := h.field(h.replyIndices(word, first), fieldNames(h.script.Reply), "int", "us", "time")
		f.Each = word == "EACH"
		h.script.Reply = append(h.script.Reply, f)
		return err
	})
}

// replyIndices returns the first columns that the next row may have. Rows of this word begin behind the first replies.
func (h *header) replyIndices(word string, first int) []string {
	rows := h.script.Reply[first:]
	alone := len(plain(rows))
	if len(rows) > alone {
		return nil
	}
	indices := []string{fmt.Sprintf("%s[%d]", word, alone+1)}
	if h.script.Group != nil && alone > 0 && (h.script.KeyGroup == nil || word == "EACH") {
		indices = append(indices, fmt.Sprintf("%s[%d+i]", word, alone))
	}
	return indices
}

func (h *header) errors() error {
	return h.rows("ERROR", func() error {
		cells, err := h.cells(column{nameColumn, "a code"}, column{thirdColumn, "a text"})
		if err != nil {
			return err
		}
		known := func(e errorCode) bool { return e.Name == cells[1] }
		if !codePattern.MatchString(cells[1]) || slices.ContainsFunc(h.script.Errors, known) {
			return refuse(h.at(nameColumn), "error code %q, want a new one in capital letters", cells[1])
		}
		at := h.at(nameColumn)
		text, err := h.text(cells[2], thirdColumn)
		h.script.Errors = append(h.script.Errors, errorCode{cells[1], text, at})
		return err
	})
}

func (h *header) states() error {
	return h.rows("STATE", func() error {
		cells, err := h.cells(column{nameColumn, "a code/number"}, column{thirdColumn, "a layout"})
		if err != nil {
			return err
		}
		parts := statePattern.FindStringSubmatch(cells[1])
		known := func(s state) bool { return s.String() == cells[1] }
		if parts == nil || slices.ContainsFunc(h.script.States, known) {
			return refuse(h.at(nameColumn), "state %q, want a new one: letters, a slash and a number, such as gcra/1", cells[1])
		}
		text, err := h.text(cells[2], thirdColumn)
		h.script.States = append(h.script.States, state{parts[1], parts[2], text})
		return err
	})
}

func (h *header) complexity() error {
	cells, err := h.row("COMPLEXITY", column{nameColumn, "O(..)"}, column{thirdColumn, "a cost"})
	if err != nil {
		return err
	}
	if !orderPattern.MatchString(cells[1]) {
		return refuse(h.at(nameColumn), "complexity %q, want O(..)", cells[1])
	}
	text, err := h.text(cells[2], thirdColumn)
	h.script.Cost = cost{cells[1], text}
	return err
}

func (h *header) redis() error {
	cells, err := h.row("REDIS", column{nameColumn, "a version"})
	if err != nil {
		return err
	}
	if !versionPattern.MatchString(cells[1]) {
		return refuse(h.at(nameColumn), "version %q, want the lowest version of Redis that runs it, such as 5.0", cells[1])
	}
	h.script.Redis = cells[1]
	h.next++
	return nil
}

func (h *header) end() error {
	if h.line() != "" || h.next+1 >= len(h.lines) {
		return h.want("a blank line, which ends the header")
	}
	h.script.body = h.next + 2
	return nil
}

// keyPatterns checks the key patterns. It runs last, because it needs the states.
func (h *header) keyPatterns() error {
	seen := map[string]bool{}
	for _, k := range h.script.Keys {
		if !h.stateOf(k) || seen[k.Pattern] {
			return refuse(k.at, "key pattern %q, want a new one: %s, then any of :part and :<part>", k.Pattern,
				strings.Join(h.keyStarts(), " or "))
		}
		seen[k.Pattern] = true
	}
	return nil
}

// stateOf reports whether a key's pattern begins with one of the states and goes on in parts.
func (h *header) stateOf(k key) bool {
	return slices.ContainsFunc(h.keyStarts(), func(start string) bool {
		parts, ok := strings.CutPrefix(k.Pattern, start)
		return ok && partsPattern.MatchString(parts)
	})
}

func (h *header) keyStarts() (starts []string) {
	for _, s := range h.script.States {
		starts = append(starts, "<prefix>:<limiter>:{<subject>}:"+s.Code+s.Number)
	}
	return starts
}
