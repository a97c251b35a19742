package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Results are one run: what bench/results.json holds, and what the picture and the pages are made from.
type Results struct {
	Date    string            `json:"date"`
	Server  string            `json:"server"`
	Go      string            `json:"go"`
	CPU     string            `json:"cpu"`
	Rounds  int               `json:"rounds"`
	Floor   Floor             `json:"floor"`
	Scripts map[string]string `json:"scripts"` // SHA1 by name

	ServerTime []ServerTime `json:"server_time"`
	Worst      []Worst      `json:"worst"`
	Many       []Many       `json:"many"`
	EndToEnd   []EndToEnd   `json:"end_to_end"`
	Loader     []LoaderCost `json:"loader"`
	Peers      []Peer       `json:"peers"`
	PeersRun   string       `json:"peers_run,omitempty"` // what measured them, if it was a run of its own
	HTTP       []HTTP       `json:"http,omitempty"`
	Languages  *Languages   `json:"languages,omitempty"` // a run of its own
	Packages   *Packages    `json:"packages,omitempty"`  // a run of its own
	Serve      *Serve       `json:"serve,omitempty"`     // a run of its own
	Adapters   *Adapters    `json:"adapters,omitempty"`  // a run of its own
}

// A Floor is the script that everything is a multiple of.
type Floor struct {
	SHA1 string `json:"sha1"`
	Does string `json:"does"`
}

func newResults(ctx context.Context, b *bench, list []subject) (*Results, error) {
	version, err := b.server.version(ctx)
	if err != nil {
		return nil, err
	}
	r := &Results{
		Date: time.Now().UTC().Format(time.DateOnly), Server: version, Go: runtime.Version(), CPU: cpu(),
		Rounds: b.rounds, Floor: Floor{floor().sha1, "TIME, GET, SET PX"}, Scripts: map[string]string{},
	}
	for _, s := range list {
		r.Scripts[s.name] = s.sha1
	}
	for _, g := range givebacks() {
		r.Scripts[g.script.Name] = g.script.SHA1
	}
	return r, nil
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

func (r *Results) write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(rowLines(text), '\n'), 0o644)
}

// rowLines puts each row, an object in a list, on one line of indented JSON.
func rowLines(indented []byte) []byte {
	var text []byte
	row := 0 // indentation of the row that is open
	for line := range bytes.Lines(indented) {
		words := bytes.TrimLeft(line, " ")
		indent := len(line) - len(words)
		switch {
		case row == 0 && indent > 0 && string(words) == "{\n":
			row = indent
			text = append(text, line[:indent+1]...)
		case row == 0:
			text = append(text, line...)
		case indent == row:
			row = 0
			text = append(text, words...)
		default:
			text = append(text, bytes.TrimSuffix(words, []byte("\n"))...)
			if text[len(text)-1] == ',' {
				text = append(text, ' ')
			}
		}
	}
	return text
}

// besides are the results with those of the last run that this one did not measure: a section by itself, or all the rest.
func (r *Results) besides(only string) (*Results, error) {
	last, err := readResults("results.json")
	if err != nil {
		return nil, err
	}
	switch only {
	case languages:
		last.Languages = r.Languages
		return last, nil
	case packages:
		last.Packages = r.Packages
		return last, nil
	case services:
		last.Serve = r.Serve
		return last, nil
	case adapted:
		last.Adapters = r.Adapters
		return last, nil
	case libraries:
		last.Peers = r.Peers
		last.PeersRun = strings.Join([]string{r.Date, r.Server, r.Go, r.CPU}, ", ")
		return last, nil
	}
	r.Languages, r.Packages, r.Serve, r.Adapters = last.Languages, last.Packages, last.Serve, last.Adapters
	return r, nil
}

// A Spread is the median of the rounds, and the quartiles around it.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
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
