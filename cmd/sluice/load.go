package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
)

const loadUsage = `usage: sluice load [flags] [script ...]

Puts the scripts, or those that are named, on every node of a deployment with
SCRIPT LOAD, replicas too, and checks that each made the right SHA1 of them. A
restart or SCRIPT FLUSH forgets them, and nothing copies them to a new node: run
it again then. It does no harm to run it twice.

` + targetUsage + `  --color WHEN      auto (the default), always or never

The exit status is 1 if a node does not have every script afterwards.
`

const verifyUsage = `usage: sluice verify [flags] [script ...]

Asks every node of a deployment with SCRIPT EXISTS whether it has the scripts,
or those that are named, and changes nothing. Replicas are asked too: one that
is promoted has no scripts but those that were loaded on it.

` + targetUsage + `  --color WHEN      auto (the default), always or never

The exit status is 1 if a script is missing somewhere.
`

// atOnce is how many nodes are talked to at a time.
const atOnce = 8

func (a app) load(ctx context.Context, args []string) error { return a.deploy(ctx, "load", args) }

func (a app) verify(ctx context.Context, args []string) error { return a.deploy(ctx, "verify", args) }

// deploy is load, or verify, which is the same without the loading.
func (a app) deploy(ctx context.Context, name string, args []string) error {
	var where targetFlags
	flags := newFlags(name)
	where.register(flags)
	color := flags.String("color", "auto", "")
	names, err := parseFlags(flags, args)
	if err != nil {
		return err
	}
	out, err := a.newScreen(a.stdout, *color)
	if err != nil {
		return err
	}
	scripts, err := findScripts(names)
	if err != nil {
		return err
	}
	t, err := a.target(where)
	if err != nil {
		return err
	}
	nodes, remarks, err := t.nodes(ctx)
	if err != nil {
		return err
	}

	d := deployment{target: t, scripts: scripts, loading: name == "load"}
	placed := d.everywhere(ctx, nodes, a.newCounter(len(nodes)))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out.placements(placed)
	return out.verdictOn(placed, remarks, d.cure(names))
}

// deployment is scripts that belong on every node of a target.
type deployment struct {
	target  target
	scripts []sluice.Script
	loading bool
}

// cure is the command that puts right what verify finds.
func (d deployment) cure(names []string) safe {
	var addrs []string
	for addr := range strings.SplitSeq(d.target.String(), ",") {
		addrs = append(addrs, string(printable(addr)))
	}
	words := append([]string{"sluice load --" + d.target.flag, strings.Join(addrs, ",")}, names...)
	return safe(strings.Join(words, " ")) // whole, to be copied; the names are of scripts
}

// placement is what is known of one script on one node.
type placement struct {
	node   node
	script string
	sha    string
	state  state
	err    error // why the state is failed
}

// state is how a script stands on a node.
type state string

const (
	stateLoaded    state = "loaded"
	stateLoadedNow state = "loaded now"
	stateMissing   state = "missing"
	stateFailed    state = "failed"
)

// everywhere goes to every node and returns what it finds, in the order of the nodes.
func (d deployment) everywhere(ctx context.Context, nodes []node, done *counter) []placement {
	found := make([][]placement, len(nodes))
	places := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			places <- struct{}{}
			found[i] = d.on(ctx, n)
			<-places
			done.add(n.addr)
		})
	}
	wg.Wait()
	done.end()
	var all []placement
	for _, of := range found {
		all = append(all, of...)
	}
	return all
}

// on looks at one node, and loads what is missing there if that is wanted.
func (d deployment) on(ctx context.Context, n node) []placement {
	rdb := d.target.connect(n.addr)
	defer rdb.Close()
	var sums []string
	for _, script := range d.scripts {
		sums = append(sums, script.SHA1)
	}
	exists, err := rdb.ScriptExists(ctx, sums...).Result()
	if err != nil {
		return []placement{{node: n, script: "(all)", sha: "-", state: stateFailed, err: err}}
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

// absent deals with a script that a node does not have.
func (d deployment) absent(ctx context.Context, rdb *redis.Client, script sluice.Script) (state, error) {
	if !d.loading {
		return stateMissing, nil
	}
	sum, err := rdb.ScriptLoad(ctx, script.Source).Result()
	if err == nil && sum != script.SHA1 {
		err = fmt.Errorf("it made the SHA1 %s of the script", sum)
	}
	if err != nil {
		return stateFailed, err
	}
	return stateLoadedNow, nil
}

// placements is the table of what was found.
func (s screen) placements(all []placement) {
	var t table
	t.head("node", "role", "script", "sha", "state")
	for _, p := range all {
		sha := p.sha[:min(len(p.sha), 12)]
		t.add(cell{text: p.node.addr}, cell{text: p.node.role}, cell{text: p.script},
			cell{text: sha}, cell{text: string(p.state), as: styleOf(p.state)})
	}
	t.print(s)
}

func styleOf(s state) style {
	switch s {
	case stateMissing, stateFailed:
		return red
	}
	return green
}

// verdictOn sums up, and fails if a script is not where it belongs.
func (s screen) verdictOn(all []placement, remarks []string, cure safe) error {
	s.printf("\n")
	failed := s.failures(all)
	for _, remark := range remarks {
		s.printf("note: %s\n", remark)
	}
	missing, nodes := 0, map[string]bool{}
	for _, p := range all {
		nodes[p.node.addr] = true
		if p.state == stateMissing {
			missing++
		}
	}
	switch {
	case missing > 0:
		s.printf("%s\n", s.paint(red, counted(missing, "script is", "scripts are")+" missing"))
		s.printf("cure: %s\n", cure)
		return errReported
	case failed:
		return errReported
	}
	where := counted(len(nodes), "node", "nodes")
	s.printf("%s\n", s.paint(green, counted(len(all)/len(nodes), "script", "scripts")+" on "+where))
	return nil
}

// failures lists why placements failed, with their cures, and reports whether there were any.
func (s screen) failures(all []placement) bool {
	failed := false
	cures := map[string]bool{}
	for _, p := range all {
		if p.state != stateFailed {
			continue
		}
		failed = true
		s.printf("%s\n", s.paint(red, p.node.addr+", "+p.script+": "+errorText(p.err)))
		cure := cureFor(p.err)
		if isUnreachable(p.err) {
			cure = "bring the node back, or take it out of the deployment, and run this again"
		}
		if cure != "" && !cures[cure] {
			s.printf("cure: %s\n", cure)
		}
		cures[cure] = true
	}
	return failed
}

// counted is a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// counter shows on the standard error how many nodes are done.
type counter struct {
	screen
	total int

	mu   sync.Mutex
	done int
}

func (a app) newCounter(total int) *counter {
	s, _ := a.newScreen(a.stderr, "never") // it fails for an unknown colour only
	return &counter{screen: s, total: total}
}

// add counts a node as done.
func (c *counter) add(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	if c.live {
		c.printf("\r"+eraseLine+"%d of %d nodes: %s", c.done, c.total, addr)
		return
	}
	c.printf("%d of %d nodes: %s\n", c.done, c.total, addr)
}

// end removes what is drawn.
func (c *counter) end() {
	if c.live {
		c.printf("\r" + eraseLine)
	}
}
