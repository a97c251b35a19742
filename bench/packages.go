package main

import (
	"context"
	"fmt"
	"time"
)

// A packaged is our package by a client library and so many callers of one process, beside the bare script and a peer.
type packaged struct {
	language string
	client   string
	callers  int64
	peer     string // and the package that it is in
}

var packaging = []packaged{
	{"Node", "node-redis", 1, "rate-limiter-flexible"},
	{"Node", "node-redis", 64, "rate-limiter-flexible"},
	{"Node", "ioredis", 1, "rate-limiter-flexible"},
	{"Node", "ioredis", 64, "rate-limiter-flexible"},
	{"Python", "asyncio", 1, "limits"},
	{"Python", "asyncio", 32, "limits"},
	{"Python", "threads", 1, "limits"},
	{"Python", "threads", 16, "limits"},
}

// A packageRun is one of them while it is measured: a program for each of its three figures, decisions a second.
type packageRun struct {
	*Row
	programs [3]*driver
}

// packages measures every row, one program after another in each round.
func (b *bench) packages(ctx context.Context) ([]*Row, error) {
	if err := b.prepare("Node", "Python"); err != nil {
		return nil, err
	}
	var rows []*Row
	var runs []packageRun
	for _, p := range packaging {
		version, err := toolchains[p.language].pinned(p.peer)
		if err != nil {
			return nil, err
		}
		run := packageRun{Row: &Row{Where: p.language + ", " + p.client, Size: p.callers, Name: p.peer, Version: version}}
		for i, f := range []foreign{{name: "sluice"}, {name: "bare", script: listLogCall}, {name: p.peer}} {
			f.language, f.client.name = p.language, p.client
			d, err := f.start(b.server.process.Addr, peerLimit, time.Second)
			if err != nil {
				return nil, err
			}
			defer d.stop()
			if _, err := d.number("load", p.callers, 100); err != nil {
				return nil, fmt.Errorf("%s: %w\n%.2000s", f.subject("warm"), err, &d.printed)
			}
			run.programs[i] = d
		}
		runs, rows = append(runs, run), append(rows, run.Row)
	}
	return rows, inTurn(b, runs, func(r packageRun, round int) error { return r.measure(round, 4*b.loadSpan) })
}

// measure lets another one begin in each round: the first one runs behind the program of another row.
func (r packageRun) measure(round int, span time.Duration) error {
	var figures [3]float64
	for turn := range figures {
		i := (round + turn) % 3
		figure := []string{"ours", "bare", "peer"}[i]
		_, _ = r.programs[i].number("load", r.Size, 100) // it has slept for a round
		perSecond, err := r.programs[i].number("load", r.Size, span.Milliseconds())
		if err != nil {
			return fmt.Errorf("%s, %s: %w\n%.2000s", r.Where, figure, err, &r.programs[i].printed)
		}
		figures[i] = perSecond
		r.note(figure+" per second", perSecond)
	}
	r.note("to bare", figures[0]/figures[1])
	r.note("to peer", figures[0]/figures[2])
	return nil
}
