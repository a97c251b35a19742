package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/dial"
)

// maxConcurrent is how many nodes are contacted at the same time.
const maxConcurrent = 8

func (a app) load(ctx context.Context, args []string) error { return a.deploy(ctx, "load", args) }

func (a app) verify(ctx context.Context, args []string) error { return a.deploy(ctx, "verify", args) }

// deploy runs load or verify. verify does the same without loading.
func (a app) deploy(ctx context.Context, name string, args []string) error {
	f, d, names, err := parseDeploy(name, args)
	if err != nil {
		return err
	}
	var out screen
	if out, d.target, err = a.open(f); err != nil {
		return err
	}
	nodes, remarks, err := d.nodes(ctx)
	switch wrong := errors.As(err, new(*usageError)); {
	case err != nil && d.json && !wrong && ctx.Err() == nil:
		return d.report(out, visit{placed: failedOn(node{addr: d.target.String()}, err)}, nil, "")
	case err != nil:
		return err
	}

	seen := d.everywhere(ctx, nodes, newScreen(a.stderr))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if d.try {
		seen.found, remarks = append(seen.found, partial(nodes[0], remarks)...), nil
		remarks = append(remarks, fmt.Sprintf("%s of prefix %s looked at, among up to 10000 of each master",
			counted(seen.keys, "key", "keys"), d.prefix))
	}
	if d.json {
		return d.report(out, seen, remarks, d.cure(names))
	}
	out.placements(seen.placed)
	return d.verdictOn(out, seen, remarks, d.cure(names))
}

func parseDeploy(name string, args []string) (f serverFlags, d deployment, names []string, err error) {
	flags := f.register(name)
	flags.BoolVar(&d.functions, "functions", false, "")
	if d.loading = name == "load"; !d.loading {
		flags.BoolVar(&d.json, "json", false, "")
		flags.BoolVar(&d.try, "try", false, "")
		flags.StringVar(&d.prefix, "prefix", "sluice", "")
	}
	if names, err = parseFlags(flags, args); err != nil {
		return f, d, nil, err
	}
	if d.functions && len(names) > 0 {
		return f, d, nil, usagef("--functions wants no script: a library has all of them")
	}
	if d.scripts, d.files, err = findDeployed(names); err == nil && d.try {
		err = d.checkTry()
	}
	return f, d, names, err
}

// deployment is a set of scripts that every node of a target should have, as scripts or as functions.
type deployment struct {
	target    target
	scripts   []sluice.Script
	files     []string // those of the scripts that are not embedded, as sha1sum prints them
	functions bool
	loading   bool

	json   bool
	try    bool
	prefix string // of the keys that a try looks at and makes
}

// nodes returns where to look, or to load.
func (d deployment) nodes(ctx context.Context) ([]node, []string, error) {
	nodes, remarks, err := d.target.nodes(ctx)
	if d.try {
		err = withRights(err, "ACL SETUSER <name> +cluster|nodes "+rightsToLook)
	}
	if !d.functions || !d.loading || len(nodes) == 1 {
		return nodes, remarks, err
	}
	masters := slices.DeleteFunc(nodes, func(n node) bool { return n.role == "replica" })
	return masters, append(remarks, "replicas get functions from their masters"), err
}

// cure returns the command that loads the missing scripts.
func (d deployment) cure(names []string) safe {
	shown := func(text string) string { return string(printable(text)) }
	addrs := namesOf(strings.Split(d.target.String(), ","), shown)
	verb := "sluice load --"
	if d.functions {
		verb += "functions --"
	}
	words := append([]string{verb + d.target.Kind, strings.Join(addrs, ",")}, namesOf(names, shown)...)
	return safe(strings.Join(words, " ")) // not cut: people copy it
}

// placement is the result for one script on one node.
type placement struct {
	node   node
	script string
	sha    string
	state  state
	err    error // why the state is failed
}

// state says whether a node has a script.
type state string

const (
	stateLoaded    state = "loaded"
	stateLoadedNow state = "loaded now"
	stateMissing   state = "missing"
	stateAltered   state = "other bytes" // of a library of this name
	stateTried     state = "loaded, tried"
	stateFailed    state = "failed"
)

// everywhere asks every node and returns the results in the order of the nodes. It shows how many nodes are done.
func (d deployment) everywhere(ctx context.Context, nodes []node, line screen) (all visit) {
	found := make([]visit, len(nodes))
	places := make(chan struct{}, maxConcurrent)
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for i, n := range nodes {
		wg.Go(func() {
			places <- struct{}{}
			found[i] = d.on(ctx, n)
			<-places
			mu.Lock()
			defer mu.Unlock()
			done++
			line.redraw("%d of %d nodes: %s", done, len(nodes), n.addr)
		})
	}
	wg.Wait()
	line.redraw("")
	for _, of := range found {
		all.add(of)
	}
	return all
}

// on checks one node. With load it also loads missing scripts.
func (d deployment) on(ctx context.Context, n node) (v visit) {
	rdb := d.target.Connect(n.addr)
	defer rdb.Close()
	switch {
	case d.try:
		v = d.tryOn(ctx, n, rdb)
	case d.functions:
		v.placed = d.functionsOn(ctx, n, rdb)
	default:
		v.placed = d.scriptsOn(ctx, n, rdb)
	}
	return v
}

func (d deployment) scriptsOn(ctx context.Context, n node, rdb *redis.Client) []placement {
	var sums []string
	for _, script := range d.scripts {
		sums = append(sums, script.SHA1)
	}
	exists, err := rdb.ScriptExists(ctx, sums...).Result()
	if err != nil {
		if !d.loading {
			err = withRights(err, rightsCure("verify", "", d.target.Kind == "cluster"))
		}
		return failedOn(n, err)
	}
	var all []placement
	for i, script := range d.scripts {
		p := placement{node: n, script: fullName(script), sha: script.SHA1, state: stateLoaded}
		if !exists[i] {
			p.state, p.err = d.absent(ctx, rdb, script)
		}
		all = append(all, p)
	}
	return all
}

// failedOn is the result of a node that cannot be asked.
func failedOn(n node, err error) []placement {
	return []placement{{node: n, script: "(all)", sha: "-", state: stateFailed, err: err}}
}

// absent handles a script that a node does not have.
func (d deployment) absent(ctx context.Context, rdb *redis.Client, script sluice.Script) (state, error) {
	if !d.loading {
		return stateMissing, nil
	}
	sum, err := rdb.ScriptLoad(ctx, script.Source).Result()
	if err == nil && sum != script.SHA1 {
		err = fmt.Errorf("it returned the SHA1 %s for the script", sum)
	}
	if err != nil {
		// The server calls the script user_script. What follows is the line, and what is wrong with it.
		if _, what, found := strings.Cut(err.Error(), "user_script:"); found {
			err = fmt.Errorf("the server cannot compile %s:%s", script.File, what)
		}
		return stateFailed, err
	}
	return stateLoadedNow, nil
}

// lacks reports whether the node does not have the script, or not in these bytes.
func (p placement) lacks() bool { return p.state == stateMissing || p.state == stateAltered }

// placements prints a row for each script on each node. Of several nodes, one whose scripts are alike has one row.
func (s screen) placements(all []placement) {
	var t table
	t.head("node", "role", "script", "sha", "state")
	for i, n := 0, 0; i < len(all); i += n {
		p := all[i]
		n = slices.IndexFunc(all[i:], func(q placement) bool { return q.node != p.node })
		if n < 0 {
			n = len(all) - i
		}
		first := i == 0 || all[i-1].node != p.node
		alike := !slices.ContainsFunc(all[i:i+n], func(q placement) bool { return q.state != p.state })
		if first && alike && 1 < n && n < len(all) {
			p.script, p.sha = fmt.Sprintf("all %d", n), ""
		} else {
			n = 1
		}
		as := green
		if p.lacks() || p.state == stateFailed {
			as = red
		}
		sha := p.sha[:min(len(p.sha), 12)]
		t.add(cell{text: p.node.addr}, cell{text: p.node.role}, cell{text: p.script}, cell{text: sha},
			cell{text: string(p.state), as: as})
	}
	t.print(s)
}

// verdictOn prints the summary. It returns an error if a node lacks a script, or if a try has found something.
func (d deployment) verdictOn(s screen, seen visit, remarks []string, cure safe) error {
	all := seen.placed
	var errs []error
	missing, nodes := 0, map[string]bool{}
	for _, p := range all {
		nodes[p.node.addr] = true
		switch {
		case p.lacks():
			missing++
		case p.state == stateFailed:
			errs = append(errs, fmt.Errorf("%s, %s: %w", p.node.addr, p.script, p.err))
		}
	}
	s.printf("\n")
	s.failures(errs)
	s.findings(seen.found)
	for _, remark := range remarks {
		s.printf("note: %s\n", remark)
	}
	switch {
	case missing > 0:
		d.tellMissing(s, missing)
		s.printf("cure: %s\n", cure)
		s.shaNote(d.files)
		return errReported
	case len(errs) > 0:
		return errReported
	}
	where := counted(len(nodes), "node", "nodes")
	one, many := d.nouns()
	s.printf("%s\n", s.paint(green, counted(len(all)/len(nodes), one, many)+" on "+where))
	s.shaNote(d.files)
	return seen.verdict()
}

// nouns are the words for what is loaded.
func (d deployment) nouns() (one, many string) {
	if d.functions {
		return "library", "libraries"
	}
	return "script", "scripts"
}

// tellMissing says how many are missing, and when that matters.
func (d deployment) tellMissing(s screen, missing int) {
	one, many := d.nouns()
	what := s.paint(red, counted(missing, one+" is", many+" are")+" missing")
	it := "it"
	if missing > 1 {
		it = "them"
	}
	if d.functions {
		s.printf("%s or old: programs that call functions fail without %s\n", what, it)
		return
	}
	s.printf("%s: harmless if no program uses %s (the Go loader loads\nscripts at first use)\n", what, it)
}

// shaNote says how to compare the SHA1s of the table, and those of files.
func (s screen) shaNote(files []string) {
	s.printf("sha: 12 of the 40 characters of its file's SHA1, as sha1sum prints it\n" +
		"(sluice list has that of each script)\n")
	for _, file := range files {
		s.printf("%s\n", file)
	}
}

// failures prints errors of nodes and what to do about them, each cure once.
func (s screen) failures(errs []error) {
	cures := map[string]bool{}
	for _, err := range errs {
		s.printf("%s\n", s.paint(red, errorText(err)))
		cure := cureFor(err)
		if dial.IsUnreachable(err) {
			cure = "start the node again or remove it from the deployment, then run this command again"
		}
		if cure != "" && !cures[cure] {
			s.printf("cure: %s\n", cure)
		}
		cures[cure] = true
	}
}
