package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Packages are our packages for other languages, each beside the bare script and a peer, by the same client library.
type Packages struct {
	Date   string    `json:"date"`
	Server string    `json:"server"`
	CPU    string    `json:"cpu"`
	Rounds int       `json:"rounds"`
	Rows   []Package `json:"rows"`
}

// A Package is called by so many callers of one process. Its figures are decisions a second.
type Package struct {
	Language string `json:"language"`
	Client   string `json:"client"`
	Callers  int    `json:"callers"`
	Peer     string `json:"peer"`
	Ours     Spread `json:"ours"`
	Bare     Spread `json:"bare"` // EVALSHA of list_log
	Other    Spread `json:"other"`
	ToBare   Spread `json:"to_bare"` // of the same round
	ToOther  Spread `json:"to_other"`
}

// packageRows are the rows of the table: the driver's name of the client, and the package that the peer is in.
var packageRows = []Package{
	{Language: "Node", Client: "node-redis", Callers: 1, Peer: "rate-limiter-flexible"},
	{Language: "Node", Client: "node-redis", Callers: 64, Peer: "rate-limiter-flexible"},
	{Language: "Node", Client: "ioredis", Callers: 1, Peer: "rate-limiter-flexible"},
	{Language: "Node", Client: "ioredis", Callers: 64, Peer: "rate-limiter-flexible"},
	{Language: "Python", Client: "asyncio", Callers: 1, Peer: "limits"},
	{Language: "Python", Client: "asyncio", Callers: 32, Peer: "limits"},
	{Language: "Python", Client: "threads", Callers: 1, Peer: "limits"},
	{Language: "Python", Client: "threads", Callers: 16, Peer: "limits"},
}

const packageRounds = 5

// A packageRun is a row while it is measured: a program for each of its three figures.
type packageRun struct {
	row      Package
	programs [3]*driver
	figures  [3][]float64 // a round each
}

// packages measures every row, one program after another in each round.
func (b *bench) packages(ctx context.Context) (*Packages, error) {
	if err := preparePackages(); err != nil {
		return nil, err
	}
	server, err := b.server.version(ctx)
	if err != nil {
		return nil, err
	}
	r := &Packages{time.Now().UTC().Format(time.DateOnly), server, cpu(), min(b.rounds, packageRounds), nil}
	var runs []*packageRun
	defer func() {
		for _, run := range runs {
			run.stop()
		}
	}()
	for _, row := range packageRows {
		run := &packageRun{row: row}
		runs = append(runs, run)
		if err := run.start(b.server.process.Addr); err != nil {
			return nil, err
		}
	}
	for round := range r.Rounds {
		b.progress("packages: round %d of %d", round+1, r.Rounds)
		for _, run := range runs {
			if err := run.measure(4 * b.loadSpan); err != nil {
				return nil, err
			}
		}
	}
	for _, run := range runs {
		r.Rows = append(r.Rows, run.result())
	}
	return r, b.server.FlushAll(ctx).Err()
}

// preparePackages makes the programs, and the scripts that the package for Node has.
func preparePackages() error {
	for _, language := range []string{"Node", "Python"} {
		if err := toolchains[language].prepare(); err != nil {
			return err
		}
	}
	cmd := exec.Command("node", "scripts.mjs")
	cmd.Dir = filepath.Join("..", "clients", "node")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("clients/node/scripts.mjs: %w\n%.2000s", err, out)
	}
	return nil
}

func (r *packageRun) start(addr string) error {
	t := toolchains[r.row.Language]
	version, err := t.pinned(r.row.Peer)
	if err != nil {
		return err
	}
	for i, who := range []string{"package", "bare", "peer"} {
		r.programs[i], err = t.startProgram(append(slices.Clone(t.packages), r.row.Client, who), addr,
			[]string{fmt.Sprint(r.row.Callers)})
		if err != nil {
			return fmt.Errorf("%s, %s, %s: %w", r.row.Language, r.row.Client, who, err)
		}
	}
	r.row.Peer += " " + version
	return nil
}

func (r *packageRun) measure(span time.Duration) error {
	for i, program := range r.programs {
		if _, err := fmt.Fprintln(program.in, span.Milliseconds()); err != nil {
			return err
		}
		word, err1 := program.read()
		perSecond, err2 := strconv.ParseFloat(word, 64)
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("%s, %s: %w\n%.2000s", r.row.Language, r.row.Client, err, &program.printed)
		}
		r.figures[i] = append(r.figures[i], perSecond)
	}
	return nil
}

func (r *packageRun) result() Package {
	row := r.row
	row.Ours, row.Bare, row.Other = spreadOf(r.figures[0]), spreadOf(r.figures[1]), spreadOf(r.figures[2])
	row.ToBare, row.ToOther = r.ratios(1), r.ratios(2)
	return row
}

// ratios are ours to another figure of the same round.
func (r *packageRun) ratios(to int) Spread {
	var list []float64
	for i, ours := range r.figures[0] {
		list = append(list, ours/r.figures[to][i])
	}
	return spreadOf(list)
}

func (r *packageRun) stop() {
	for _, program := range r.programs {
		if program != nil {
			program.stop()
		}
	}
}

// Busiest is the row of README: Node with the faster client.
func (r *Results) Busiest() *Package {
	if r.Packages == nil {
		return nil
	}
	i := slices.IndexFunc(r.Packages.Rows, func(p Package) bool { return p.Client == "ioredis" && p.Callers > 1 })
	return &r.Packages.Rows[i]
}
