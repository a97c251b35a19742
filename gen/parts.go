package main

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// A script holds parts that the generator prints into it, each between two lines:
//
//	-- PART <name>: printed by make generate
//	-- END
//
// The part arguments comes first: it reads and checks KEYS and ARGV as the header says. Any other is the file
// gen/parts/<name>.lua, moved as far to the right as its mark. It begins with a comment that says which locals of the
// script, the host, it uses, and which of its own locals the host may use:
//
//	-- Takes slices, sizes, what ring_read gives. Gives wait, remaining. Text.
//
// One of the two sentences may be left out. The host is refused where a part uses another of its locals, where it uses
// another local of a part, and where what a part takes or gives is not used.
const (
	partMark      = "-- PART %s: printed by make generate"
	partEnd       = "-- END"
	argumentsPart = "arguments"
)

var (
	partPattern  = regexp.MustCompile(`^( *)` + fmt.Sprintf(partMark, "([a-z_]+)") + `$`)
	marksPattern = regexp.MustCompile(`(?m)^ *(` + fmt.Sprintf(partMark, "[a-z_]+") + `|` + partEnd + `)\n`)

	usePattern  = regexp.MustCompile(`^(?:Takes ([a-z_, ]+)\.)?(?: ?Gives ([a-z_, ]+)\.)?(?: |$)`)
	listPattern = regexp.MustCompile(`, and |, | and `)
	whatGives   = regexp.MustCompile(`^what ([a-z_]+) gives$`)
)

// A part is a printed part of a script.
type part struct {
	name         string
	at           place // of its mark
	last         int   // its last line
	text         string
	takes, gives []string
	others       []string        // what it may take of other parts
	used         map[string]bool // what it has taken or given
}

// printParts prints the parts of a script into its source. tree has gen/parts.
func printParts(tree fs.FS, file string, s *script) error {
	lines := strings.Split(s.Source, "\n")
	var printed []string
	for i := 0; i < len(lines); i++ {
		printed = append(printed, lines[i])
		mark := partPattern.FindStringSubmatch(lines[i])
		if mark == nil {
			continue
		}
		at, indent := place{file, len(printed), 1}, mark[1]
		p, err := partOf(tree, mark[2], s)
		if errors.Is(err, fs.ErrNotExist) {
			return refuse(at, "part %q, want arguments or a file of gen/parts", mark[2])
		}
		if err != nil {
			return err
		}
		end := slices.Index(lines[i:], indent+partEnd)
		if end < 0 || slices.ContainsFunc(lines[i+1:i+end], partPattern.MatchString) {
			return refuse(at, "a part without an end, want %q", indent+partEnd)
		}
		for line := range strings.Lines(p.text) {
			printed = append(printed, strings.TrimRight(indent+line, " \n"))
		}
		p.at, p.last = at, len(printed)
		s.parts = append(s.parts, p)
		i += end - 1
	}
	s.Source = strings.Join(printed, "\n")
	if s.KeyGroup == nil && (len(s.parts) == 0 || s.parts[0].name != argumentsPart) {
		return refuse(place{file, s.body, 1}, "nothing reads the arguments, want the lines %q and %q",
			fmt.Sprintf(partMark, argumentsPart), partEnd)
	}
	return nil
}

// partOf reads a part.
func partOf(tree fs.FS, name string, s *script) (*part, error) {
	if name == argumentsPart {
		return &part{name: name, text: arguments(s)}, nil
	}
	p := &part{name: name, used: map[string]bool{}}
	text, takes, gives, err := readPart(tree, name)
	p.text, p.gives = text, gives
	for _, word := range takes {
		of := whatGives.FindStringSubmatch(word)
		if of == nil {
			p.takes = append(p.takes, word)
			continue
		}
		_, _, others, err := readPart(tree, of[1])
		if err != nil {
			return nil, err
		}
		p.others = append(p.others, others...)
	}
	return p, err
}

// readPart returns the text of a part and the names in its first two sentences.
func readPart(tree fs.FS, name string) (text string, takes, gives []string, err error) {
	file := "gen/parts/" + name + ".lua"
	source, err := fs.ReadFile(tree, file)
	if err != nil {
		return "", nil, nil, err
	}
	var comment []string
	for line := range strings.Lines(string(source)) {
		words, ok := strings.CutPrefix(line, "-- ")
		if !ok {
			break
		}
		comment = append(comment, strings.TrimSpace(words))
	}
	said := usePattern.FindStringSubmatch(strings.Join(comment, " "))
	if said == nil || said[1]+said[2] == "" {
		return "", nil, nil, refuse(place{file, 1, 1},
			`a part that does not say what it uses, want "Takes <names>.", "Gives <names>." or both at its beginning`)
	}
	return string(source), namesOf(said[1]), namesOf(said[2]), nil
}

// namesOf are the words of a list: a, b and what c gives.
func namesOf(list string) []string {
	if list == "" {
		return nil
	}
	return listPattern.Split(list, -1)
}

// partAt is the part that a line of the body stands in, nil for the script's own lines.
func (s *script) partAt(line int) *part {
	for _, p := range s.parts {
		if p.at.line < line && line <= p.last {
			return p
		}
	}
	return nil
}

// crosses checks that a local of one part, or of the host, may be used in another. It refuses a name once.
func (b *body) crosses(name string, declared int, at place) {
	from, to := b.script.partAt(declared), b.script.partAt(at.line)
	if from == to {
		return
	}
	if to.checked() && !to.used[name] {
		to.used[name] = true
		if !slices.Contains(slices.Concat(to.takes, to.others), name) {
			b.note(refuse(at, "the part %s uses %s, want it among what the part takes", to.name, name))
		}
	}
	if from.checked() && !from.used[name] {
		from.used[name] = true
		if !slices.Contains(from.gives, name) {
			b.note(refuse(at, "%s is a local of the part %s, want it among what the part gives, or another name", name,
				from.name))
		}
	}
}

// checked reports whether there is a part, and it says what it takes and gives: arguments does not.
func (p *part) checked() bool { return p != nil && p.used != nil }

// unused refuses what a part takes and does not read, and what it gives to a script that does not read it.
func (b *body) unused() {
	for _, p := range b.script.parts {
		for _, name := range slices.Concat(p.takes, p.gives) {
			if !p.used[name] {
				b.note(refuse(p.at, "the part %s takes or gives %s, which is not used, want it left out", p.name, name))
			}
		}
	}
}
