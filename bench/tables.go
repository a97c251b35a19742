package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// print writes every table of the run.
func (r *Results) print(w io.Writer) error {
	text, err := r.fill(tablesText)
	if err != nil {
		return err
	}
	aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(aligned, text)
	return aligned.Flush()
}

// row joins the cells of a row by tabs.
func row(cells ...any) string {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = fmt.Sprint(cell)
	}
	return strings.Join(texts, "\t")
}

// Audited says "199 of 100 in 1s".
func (p Peer) Audited() string {
	var texts []string
	for _, a := range p.Audits {
		text := fmt.Sprintf("%d of %d in %s", a.Most, a.Limit, a.Window)
		if a.Failed > 0 {
			text += fmt.Sprintf(", %d failed", a.Failed)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// Label is the library and its version.
func (p Peer) Label() string { return strings.TrimSpace(p.Name + " " + p.Version) }

// count writes powers of ten as such.
func count(n int64) string {
	switch n {
	case 1e4:
		return "10^4"
	case 1e5:
		return "10^5"
	case 1e6:
		return "10^6"
	}
	return fmt.Sprint(n)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// duration writes microseconds as people say them.
func duration(us float64) string {
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%.3g s", us/1e6)
	case us >= 1e3:
		return fmt.Sprintf("%.3g ms", us/1e3)
	}
	return fmt.Sprintf("%.0f us", us)
}
