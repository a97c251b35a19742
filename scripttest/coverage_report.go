package scripttest

import (
	"fmt"
	"html/template"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes a line a script: its lines and branches, how many are covered and in percent.
func (c *Coverage) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "script\tlines\tcovered\t%\tbranches\tcovered\t%\t")
	for _, s := range c.Scripts() {
		lines, ofLines := s.CoveredLines()
		branches, ofBranches := s.CoveredBranches()
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%d\t%d\t%s\t\n", s.Name,
			ofLines, lines, percent(lines, ofLines), ofBranches, branches, percent(branches, ofBranches))
	}
	return table.Flush()
}

// percent has one decimal and says 100.0 only of all.
func percent(n, of int) string {
	if of == 0 {
		return "100.0"
	}
	return fmt.Sprintf("%.1f", float64(1000*n/of)/10)
}

// WriteHTML writes a page with the table and each script's source, a count before every line and the
// decisions that went only one way marked.
func (c *Coverage) WriteHTML(w io.Writer) error {
	page, err := template.New("page").Funcs(template.FuncMap{"percent": percent}).Parse(coveragePage)
	if err != nil {
		return err
	}
	var scripts []scriptPage
	for _, s := range c.Scripts() {
		scripts = append(scripts, s.page())
	}
	return page.Execute(w, scripts)
}

// scriptPage is a script as the page shows it.
type scriptPage struct {
	Name                                 string
	Lines, OfLines, Branches, OfBranches int
	Source                               []sourceLine
}

// sourceLine is a line of source with its count, "" where no statement begins.
type sourceLine struct {
	Number   int
	Text     string
	Hits     string
	Class    string // "covered", "missed" or ""
	Branches []BranchCoverage
}

func (s ScriptCoverage) page() scriptPage {
	p := scriptPage{Name: s.Name}
	p.Lines, p.OfLines = s.CoveredLines()
	p.Branches, p.OfBranches = s.CoveredBranches()
	for i, text := range strings.Split(strings.TrimSuffix(s.Source, "\n"), "\n") {
		p.Source = append(p.Source, sourceLine{Number: i + 1, Text: text})
	}
	for _, l := range s.Lines {
		line := &p.Source[l.Line-1]
		line.Hits, line.Class = fmt.Sprint(l.Hits), "covered"
		if !l.Covered {
			line.Class = "missed"
		}
	}
	for _, b := range s.Branches {
		line := &p.Source[b.Line-1]
		line.Branches = append(line.Branches, b)
		if b.Hits == 0 {
			line.Class = "missed"
		}
	}
	return p
}

const coveragePage = `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Coverage of the scripts</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #222; background: #fff }
table { border-collapse: collapse }
.totals td, .totals th { padding: .2rem 1rem .2rem 0; text-align: right }
.totals td:first-child, .totals th:first-child { text-align: left }
.source { font: 13px/1.45 ui-monospace, monospace; width: 100% }
.source td { padding: 0 .6rem 0 0; vertical-align: top; white-space: pre; tab-size: 4 }
.source .number, .source .hits { text-align: right; color: #777; user-select: none }
.source .ways { color: #777; white-space: pre-line; font-size: 12px }
.covered .hits { color: #05610f }
.missed { background: #ffe3e0 }
.missed .hits, .never { color: #a40e00; font-weight: bold }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818 }
  .missed { background: #4a1a16 }
  .covered .hits { color: #7fd28a }
  .missed .hits, .never { color: #ff9d92 }
  a { color: #8ab4f8 }
}
</style>
<h1>Coverage of the scripts</h1>
<p>Before each line: how often its first statement was reached. Behind it: how often each decision on it went either way.</p>
<table class="totals">
<tr><th>script<th>lines<th>covered<th>%<th>branches<th>covered<th>%</tr>
{{range .}}<tr><td><a href="#{{.Name}}">{{.Name}}</a><td>{{.OfLines}}<td>{{.Lines}}<td>{{percent .Lines .OfLines}}<td>{{.OfBranches}}<td>{{.Branches}}<td>{{percent .Branches .OfBranches}}</tr>
{{end}}</table>
{{range .}}<h2 id="{{.Name}}">{{.Name}}</h2>
<table class="source">
{{range .Source}}<tr{{with .Class}} class="{{.}}"{{end}}><td class="number">{{.Number}}<td class="hits">{{.Hits}}<td>{{.Text}}<td class="ways">{{range .Branches}}<span title="column {{.Column}}: {{.Decision}}"{{if eq .Hits 0}} class="never"{{end}}>{{.Way}} {{.Hits}}</span>{{if or (eq .Way "false") (eq .Way "end")}} · {{else}} {{end}}{{end}}</tr>
{{end}}</table>
{{end}}</html>
`
