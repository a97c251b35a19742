// Command native is package play without a browser. It reads links from its input, one a line, and writes a line of
// JSON for each:
//
//	{"opened": {...}, "records": [[lane, at, client, permits, outcome, wait, remaining, try], ...], "audit": {...}}
//
// or {"error", "parameter"}. With -record it writes what the page draws before it has loaded the engine: the run of one
// link, with its records in base64. With -demo it shows limiters side by side, for people.
package main

import (
	"bufio"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/sluice-redis/sluice/playground/internal/play"
)

func main() {
	link := flag.String("record", "", "write the run of this `link`, for the page")
	shown := flag.Bool("demo", false, "5 a second for many workers: our scripts beside two faulty limiters")
	flag.Parse()
	recorded := false
	flag.Visit(func(f *flag.Flag) { recorded = recorded || f.Name == "record" })
	out := bufio.NewWriter(os.Stdout)
	var err error
	switch {
	case *shown:
		err = demo(out)
	case recorded:
		err = record(*link, out)
	default:
		err = each(os.Stdin, out)
	}
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "native:", err)
		os.Exit(1)
	}
}

func each(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if _, err := fmt.Fprintln(out, result(lines.Text())); err != nil {
			return err
		}
	}
	return lines.Err()
}

func result(link string) string {
	run, err := play.Open(link)
	if err != nil {
		return play.JSON(play.FailureOf(err))
	}
	defer run.Close()
	return play.JSON(struct {
		Opened  play.Opened  `json:"opened"`
		Records [][8]float64 `json:"records"`
		Audit   play.Audit   `json:"audit"`
	}{run.Opened(), numbers(records(run)), run.Audit()})
}

// records runs to the end.
func records(run *play.Run) (all []byte) {
	buffer := make([]byte, 1000*play.RecordSize)
	for {
		n := run.Step(buffer, func() bool { return true })
		if n == 0 {
			return all
		}
		all = append(all, buffer[:n*play.RecordSize]...)
	}
}

func numbers(records []byte) [][8]float64 {
	all := make([][8]float64, len(records)/play.RecordSize)
	for i := range all {
		for j := range all[i] {
			all[i][j] = math.Float64frombits(binary.LittleEndian.Uint64(records[play.RecordSize*i+8*j:]))
		}
	}
	return all
}

// record writes the run of a link with, for each lane, what is stored at its end and its last call.
func record(link string, out io.Writer) error {
	run, err := play.Open(link)
	if err != nil {
		return err
	}
	defer run.Close()
	opened := run.Opened()
	recorded := struct {
		Link    string        `json:"link"`
		Opened  play.Opened   `json:"opened"`
		Records []byte        `json:"records"`
		Audit   play.Audit    `json:"audit"`
		Stored  []play.Stored `json:"stored"`
		Detail  []play.Detail `json:"detail"`
	}{Link: link, Opened: opened, Records: records(run), Audit: run.Audit()}
	for lane := range opened.Lanes {
		stored, err := run.Stored(lane)
		if err != nil {
			return err
		}
		detail, _, err := run.Detail(lane, -1, func() bool { return true })
		if err != nil {
			return err
		}
		recorded.Stored, recorded.Detail = append(recorded.Stored, stored), append(recorded.Detail, detail)
	}
	_, err = fmt.Fprintln(out, play.JSON(recorded))
	return err
}
