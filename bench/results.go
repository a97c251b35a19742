package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
)

// Results are what bench/results.json holds, and what the pages are made from.
type Results struct {
	Scripts  map[string]string   `json:"scripts"` // SHA1 of their code by name, in the whole run
	Sections map[string]*Section `json:"sections"`
}

// A Section is what was measured in one run.
type Section struct {
	Run    string `json:"run"` // its day, server, Go and processors
	Rounds int    `json:"rounds"`
	Rows   []*Row `json:"rows"`
}

// A Row is what one contender did in one case. Figures are by name; a time without a unit in its name is a multiple of
// the floor's, or of the figure of the contender beside it.
type Row struct {
	Name    string            `json:"name"`
	Version string            `json:"version,omitempty"`
	Promise string            `json:"promise,omitempty"`
	Where   string            `json:"where,omitempty"` // language and client
	Ours    bool              `json:"ours,omitempty"`
	Case    string            `json:"case,omitempty"`
	Size    int64             `json:"size,omitempty"`  // of the case: live permits, entries, keys, callers, limit
	Bytes   int64             `json:"bytes,omitempty"` // after a thousand permits
	Lost    string            `json:"lost,omitempty"`  // what came of a lost reply
	Figures map[string]Spread `json:"figures"`
	Audits  []Audit           `json:"audits,omitempty"`

	rounds map[string][]float64 // of each figure, while it is measured
}

// note adds a round's value of a figure.
func (r *Row) note(figure string, value float64) {
	if r.rounds == nil {
		r.rounds = map[string][]float64{}
	}
	r.rounds[figure] = append(r.rounds[figure], value)
}

// against notes the ratio of a figure to another row's, round by round.
func (r *Row) against(base *Row, figure, ratio string) {
	for round, value := range r.rounds[figure] {
		r.note(ratio, value/base.rounds[figure][round])
	}
}

func newResults() *Results {
	r := &Results{map[string]string{floor().name: floor().sha1}, map[string]*Section{}}
	for _, script := range sluice.All() {
		r.Scripts[script.Name] = codeSHA1(script)
	}
	return r
}

// codeSHA1 is the SHA1 of what stands behind a script's header.
func codeSHA1(script sluice.Script) string {
	_, code, _ := strings.Cut(script.Source, "\n\n")
	return sha1Hex(code)
}

// add adds a section with its figures.
func (r *Results) add(ctx context.Context, b *bench, rows []*Row) error {
	version, err := b.server.version(ctx)
	run := strings.Join([]string{time.Now().UTC().Format(time.DateOnly), version, runtime.Version(), cpu()}, ", ")
	for _, row := range rows {
		row.Figures = map[string]Spread{}
		for figure, values := range row.rounds {
			row.Figures[figure] = spreadOf(values)
		}
	}
	r.Sections[b.section] = &Section{run, b.rounds, rows}
	return err
}

// cpu is the model and number of the processors, as far as the system tells.
func cpu() string {
	model := runtime.GOARCH
	info, _ := os.ReadFile("/proc/cpuinfo")
	if _, rest, found := strings.Cut(string(info), "model name"); found {
		line, _, _ := strings.Cut(rest, "\n")
		model = strings.TrimLeft(line, "\t :")
	}
	return fmt.Sprintf("%s, cores: %d", model, runtime.NumCPU())
}

func readResults(path string) (*Results, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Results)
	return r, json.Unmarshal(text, r)
}

// write writes a row a line.
func (r *Results) write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	for _, section := range r.Sections {
		for _, row := range section.Rows {
			line, err1 := json.Marshal(row)
			indented, err2 := json.MarshalIndent(row, "    ", " ")
			text, err = bytes.Replace(text, indented, line, 1), errors.Join(err, err1, err2)
		}
	}
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// A Spread is the median of the rounds, and the quartiles around it.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low,omitempty"`
	High   float64 `json:"high,omitempty"`
}

func spreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	return Spread{Median: quantile(sorted, 0.5), Low: quantile(sorted, 0.25), High: quantile(sorted, 0.75)}
}

// quantile interpolates between the two nearest of the sorted values, which must not be empty.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i == len(sorted)-1 {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
