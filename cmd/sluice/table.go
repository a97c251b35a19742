package main

import (
	"strings"
	"unicode/utf8"
)

// cell is one field of a table.
type cell struct {
	text  string // made printable when it is added
	as    style
	right bool // aligned to the right
}

// table is rows of cells. Columns are as wide as their widest cell, two spaces apart.
type table struct{ rows [][]cell }

func (t *table) add(cells ...cell) {
	for i := range cells {
		cells[i].text = string(printable(cells[i].text))
	}
	t.rows = append(t.rows, cells)
}

// head adds the row with the names of the columns.
func (t *table) head(names ...string) {
	var cells []cell
	for _, name := range names {
		cells = append(cells, cell{text: name, as: bold})
	}
	t.add(cells...)
}

// print prints the table. Cells of the head are aligned like the cells below them.
func (t *table) print(s screen) {
	if len(t.rows) > 1 {
		for i := range t.rows[0] {
			t.rows[0][i].right = t.rows[1][i].right
		}
	}
	widths := t.widths()
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
			text := string(s.paint(c.as, c.text))
			last := i == len(row)-1
			switch {
			case c.right:
				line.WriteString(pad + text)
			case last:
				line.WriteString(text)
			default:
				line.WriteString(text + pad)
			}
			if !last {
				line.WriteString("  ")
			}
		}
		s.printf("%s\n", safe(line.String()))
	}
}

func (t *table) widths() []int {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	return widths
}
