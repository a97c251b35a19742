package main

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
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
	Bytes      []Memory     `json:"bytes"`
	EndToEnd   []EndToEnd   `json:"end_to_end"`
	Loader     []LoaderCost `json:"loader"`
	Peers      []Peer       `json:"peers"`
	Targets    []Target     `json:"targets"`
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
	return model + ", " + plural(runtime.NumCPU(), "core")
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
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
