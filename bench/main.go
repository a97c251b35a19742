// Bench measures the scripts of Sluice side by side with a floor, with the ways they grew from and with other libraries,
// in one run on one server, and writes what it finds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

// A bench is one run.
type bench struct {
	server *server
	rounds int
	calls  int            // of each row in a round
	match  *regexp.Regexp // the subjects to run
}

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// matching are those of the subjects that the run is about.
func (b *bench) matching(subjects []subject) []subject {
	var list []subject
	for _, s := range subjects {
		if b.match.MatchString(s.name) {
			list = append(list, s)
		}
	}
	return list
}

func main() {
	rounds := flag.Int("rounds", 25, "rounds of each row")
	match := flag.String("run", ".", "only subjects that match")
	flag.Parse()
	ctx := context.Background()
	s, err := startServer(ctx)
	if err != nil {
		panic(err)
	}
	defer s.stop()
	b := &bench{server: s, rounds: *rounds, calls: 400, match: regexp.MustCompile(*match)}
	way, err := others()
	if err != nil {
		panic(err)
	}
	rows, err := b.serverTimes(ctx, b.matching(append(ours(), way...)))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range rows {
		fmt.Printf("%-20s %-8s %-8d %-10s %6.2f  %s\n", r.Subject, r.Outcome, r.Live, r.State, r.Usec.Median, r.Ratio)
	}
}
