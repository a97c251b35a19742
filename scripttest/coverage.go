package scripttest

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sluice-redis/sluice/internal/lua51"
)

// Coverage counts where the runs of its scripts go. The zero value is ready; it may be used by several
// goroutines at once.
//
// A line is covered when every statement that begins on it was reached. A branch is one way out of one
// decision; each decision has two, and both must have been taken:
//
//   - every operand of the condition of an if, elseif, while or until that is not itself an and, or, not:
//     true and false. The last one that is asked settles the condition, so both its ways are covered too;
//   - the left operand of an and, or anywhere else: true and false, which is whether the right one is
//     evaluated;
//   - a for: another turn, and the end without a break.
//
// Constants decide nothing and are left out: while true has no branch.
type Coverage struct {
	mu      sync.Mutex
	scripts map[string]counted
}

// Compile is the package's Compile for a script whose runs are to be counted. A source that comes again under
// the same name is counted on; another source under that name is an error. Result.Instructions may be a
// little more than without: a comparison that is counted is computed first and decided upon then.
func (c *Coverage) Compile(name, source string) (*Script, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.scripts[name]
	if ok && known.Source != source {
		return nil, fmt.Errorf("scripttest: %s is counted already, with another source", name)
	}
	if !ok {
		script, err := lua51.CompileCounted(name, source)
		if err != nil {
			return nil, err
		}
		if c.scripts == nil {
			c.scripts = map[string]counted{}
		}
		known = counted{script}
		c.scripts[name] = known
	}
	return newScript(known.Script), nil
}

// ScriptCoverage is what the runs of one script have covered so far.
type ScriptCoverage struct {
	Name, Source string
	Lines        []LineCoverage   // the lines where statements begin, in their order
	Branches     []BranchCoverage // two for each decision, in the order of the source
}

// LineCoverage is a line where at least one statement begins.
type LineCoverage struct {
	Line    int   // from 1
	Hits    int64 // how often its first statement was reached
	Covered bool  // every statement that begins here was reached
}

// BranchCoverage is one way out of a decision.
type BranchCoverage struct {
	Line, Column int    // where the decision stands, from 1; a column is a byte
	Decision     string // as it is written; of a for its first line
	Way          string // "true", "false"; "turn", "end" of a for
	Hits         int64
}

// Scripts returns what has been covered, by the scripts' names.
func (c *Coverage) Scripts() []ScriptCoverage {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []ScriptCoverage
	for _, name := range slices.Sorted(maps.Keys(c.scripts)) {
		all = append(all, c.scripts[name].coverage())
	}
	return all
}

// counted is a script that counts where its runs go.
type counted struct{ *lua51.Counted }

func (k counted) coverage() ScriptCoverage {
	return ScriptCoverage{Name: k.Name, Source: k.Source, Lines: k.lines(), Branches: k.branches()}
}

func (k counted) lines() (lines []LineCoverage) {
	for _, s := range k.Statements {
		hits := k.Count(s.Counter)
		if n := len(lines); n > 0 && lines[n-1].Line == s.Line {
			lines[n-1].Covered = lines[n-1].Covered && hits > 0
		} else {
			lines = append(lines, LineCoverage{Line: s.Line, Hits: hits, Covered: hits > 0})
		}
	}
	return lines
}

func (k counted) branches() (branches []BranchCoverage) {
	for _, d := range k.Decisions {
		ways := [2]string{"true", "false"}
		if d.Loop {
			ways = [2]string{"turn", "end"}
		}
		for i, way := range ways {
			branches = append(branches, BranchCoverage{
				Line: d.Line, Column: d.Column, Decision: d.Text, Way: way, Hits: k.Count(d.Counter + i),
			})
		}
	}
	return branches
}

// CoveredLines returns how many lines are covered, of how many.
func (s ScriptCoverage) CoveredLines() (covered, of int) {
	for _, l := range s.Lines {
		if l.Covered {
			covered++
		}
	}
	return covered, len(s.Lines)
}

// CoveredBranches returns how many branches were taken, of how many.
func (s ScriptCoverage) CoveredBranches() (covered, of int) {
	for _, b := range s.Branches {
		if b.Hits > 0 {
			covered++
		}
	}
	return covered, len(s.Branches)
}

// Missing says what is not covered, a line of text each: "limiter.lua:12: not all reached" and
// "limiter.lua:12:4: never false: n < most".
func (s ScriptCoverage) Missing() (missing []string) {
	for _, l := range s.Lines {
		if !l.Covered {
			missing = append(missing, fmt.Sprintf("%s:%d: not all reached", s.Name, l.Line))
		}
	}
	for _, b := range s.Branches {
		if b.Hits == 0 {
			missing = append(missing, fmt.Sprintf("%s:%d:%d: never %s: %s", s.Name, b.Line, b.Column, b.Way, b.Decision))
		}
	}
	return missing
}

// Missing says what is not covered, of all scripts.
func (c *Coverage) Missing() (missing []string) {
	for _, s := range c.Scripts() {
		missing = append(missing, s.Missing()...)
	}
	return missing
}
