package main

import (
	"slices"
	"strconv"
	"strings"
)

// word returns the first column of the next line without its index.
func (h *header) word() string {
	word, _, _ := strings.Cut(h.firstColumn(), "[")
	return word
}

func (h *header) firstColumn() string {
	words := strings.Fields(strings.TrimPrefix(h.line(), "--"))
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// rows parses one or more rows that begin with word.
func (h *header) rows(word string, read func() error) error {
	if h.word() != word {
		return h.want("a row of " + word)
	}
	for h.word() == word {
		first := h.next
		if err := read(); err != nil {
			return err
		}
		written := strings.Join(h.lines[first:h.next], "\n") + "\n"
		h.script.rows[word] = append(h.script.rows[word], written)
	}
	return nil
}

func (h *header) row(word string, columns ...column) ([]string, error) {
	if h.word() != word {
		return nil, h.want("a row of " + word)
	}
	return h.cells(columns...)
}

type column struct {
	col  int
	what string
}

// cells splits the next line into its first column and the given columns.
func (h *header) cells(columns ...column) ([]string, error) {
	line := h.line()
	columns = append([]column{{wordColumn, "a word"}}, columns...)
	cells := make([]string, len(columns))
	for i, c := range columns {
		if len(line) < c.col {
			return nil, refuse(h.at(len(line)+1), "the line ends, want %s in column %d", c.what, c.col)
		}
		if line[c.col-2] != ' ' || line[c.col-1] == ' ' {
			return nil, refuse(h.at(c.col), "want %s to begin in column %d, after a space", c.what, c.col)
		}
		end := len(line)
		if i+1 < len(columns) {
			end = min(end, columns[i+1].col-1)
		}
		cells[i] = strings.TrimRight(line[c.col-1:end], " ")
	}
	return cells, nil
}

func (h *header) field(indices, names []string, types ...string) (f field, err error) {
	cells, err := h.cells(column{nameColumn, "a name"}, column{thirdColumn, "a type"},
		column{rangeColumn, "a range"}, column{textColumn, "a text"})
	if err != nil {
		return f, err
	}
	if err := h.index(h.word(), cells[0], indices...); err != nil {
		return f, err
	}
	member := memberPattern.FindString(cells[0])
	if f.Repeated = member != ""; f.Repeated {
		types = []string{"int", "us"}
	}
	if err := h.name(cells[1], member, names); err != nil {
		return f, err
	}
	if !slices.Contains(types, cells[2]) {
		return f, refuse(h.at(thirdColumn), "type %q, want %s", cells[2], strings.Join(types, ", "))
	}
	f.Name, f.Type, f.at = cells[1], cells[2], h.at(nameColumn)
	if f.Min, f.Max, err = h.bounds(cells[3], rangeColumn, h.word() != "ARGV"); err != nil {
		return f, err
	}
	f.Text, err = h.text(cells[4], textColumn)
	return f, err
}

func (h *header) index(word, found string, wanted ...string) error {
	if slices.Contains(wanted, found) {
		return nil
	}
	if wanted == nil {
		return refuse(h.at(wordColumn), "found %s, want no further %s", found, word)
	}
	return refuse(h.at(wordColumn), "found %s, want %s", found, strings.Join(wanted, " or "))
}

// name checks a name. It ends in _i if the index has an i: each member of the group has one. No two may be equal.
func (h *header) name(name, member string, names []string) error {
	if !namePattern.MatchString(name) {
		return refuse(h.at(nameColumn), "name %q, want lower-case words joined by _", name)
	}
	if (member != "") != strings.HasSuffix(name, "_i") {
		return refuse(h.at(nameColumn), "name %q, want the ending _i where the index has i, and only there", name)
	}
	if slices.Contains(names, name) {
		return refuse(h.at(nameColumn), "name %q is taken, want another", name)
	}
	return nil
}

func (h *header) bounds(cell string, col int, open bool) (least, most int64, err error) {
	parts := rangePattern.FindStringSubmatch(cell)
	if parts == nil || !open && (parts[2] == "" || parts[1][0] == '-') {
		return 0, 0, refuse(h.at(col), "range %q, want <min>..<max>", cell)
	}
	least, _ = strconv.ParseInt(parts[1], 10, 64)
	if parts[2] == "" {
		return least, -1, nil
	}
	most, _ = strconv.ParseInt(parts[2], 10, 64)
	if least > most || most > maxExact {
		return 0, 0, refuse(h.at(col), "range %q, want min <= max <= %d", cell, int64(maxExact))
	}
	return least, most, nil
}

// text returns a text with its continuation lines, and moves past them.
func (h *header) text(text string, col int) (string, error) {
	h.next++
	for strings.HasPrefix(h.line(), "--") && h.line() != "--" && strings.TrimSpace(cut(h.line(), 2, nameColumn-1)) == "" {
		line := h.line()
		if indent := len(line) - len(strings.TrimLeft(line[2:], " ")); indent != col-1 {
			return "", refuse(h.at(indent+1), "the text continues in column %d, want column %d, below its beginning", indent+1,
				col)
		}
		text += " " + line[col-1:]
		h.next++
	}
	return text, nil
}

// cut returns s[from:to], with both limited to the length of s.
func cut(s string, from, to int) string { return s[min(from, len(s)):min(to, len(s))] }
