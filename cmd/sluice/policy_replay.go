package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/accesslog"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/replay"
)

// replayFlags are the flags of policy replay.
type replayFlags struct {
	color, format string
	json, whatIf  bool
	file, log     string
}

func parseReplay(args []string) (f replayFlags, err error) {
	flags := newFlags("policy replay")
	flags.StringVar(&f.color, "color", "auto", "")
	flags.StringVar(&f.format, "format", "", "")
	flags.BoolVar(&f.json, "json", false, "")
	flags.BoolVar(&f.whatIf, "what-if", false, "")
	words, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return f, err
	case len(words) < 2:
		return f, usagef("want a policy file and an access log, or - for standard input")
	case len(words) > 2:
		return f, usagef("unexpected argument %s: for several logs write zcat -f LOG LOG | sluice policy replay FILE -",
			given(words[2]))
	}
	f.file, f.log = words[0], words[1]
	return f, nil
}

// policyReplay decides the requests of an access log by a policy file.
func (a app) policyReplay(ctx context.Context, args []string) error {
	f, err := parseReplay(args)
	if err != nil {
		return err
	}
	out, err := a.newScreen(a.stdout, f.color)
	if err != nil {
		return err
	}
	config, err := a.replayConfig(f)
	if err != nil {
		return err
	}
	log, err := a.openLog(f.log)
	if err != nil {
		return err
	}
	defer log.Close()
	report, err := a.replay(ctx, config, log)
	if report == nil {
		return err
	}
	if printErr := out.replayed(report, f); printErr != nil {
		return printErr
	}
	if err == nil && report.Requests == 0 && report.Lines > 0 {
		return errors.New("no line of the log could be read: see --format")
	}
	return err
}

// replayConfig reads the policy file and the format.
func (a app) replayConfig(f replayFlags) (replay.Config, error) {
	config := replay.Config{WhatIf: f.whatIf, Cores: runtime.GOMAXPROCS(0)}
	var err error
	if config.File, err = a.readPolicies(f.file); err != nil {
		return config, err
	}
	if config.Format, err = accesslog.NewFormat(f.format, config.File.Attributes); err != nil {
		return config, usagef("--format %s: %v", given(f.format), err)
	}
	return config, nil
}

// logFile is an access log, and how much of it was read.
type logFile struct {
	io.ReadCloser
	read atomic.Int64
	size int64 // 0 if it is not known
}

func (l *logFile) Read(to []byte) (int, error) {
	n, err := l.ReadCloser.Read(to)
	l.read.Add(int64(n))
	return n, err
}

// openLog opens a log, or standard input.
func (a app) openLog(path string) (*logFile, error) {
	if path == "-" {
		return &logFile{ReadCloser: io.NopCloser(a.stdin)}, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	l := &logFile{ReadCloser: file}
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		l.size = info.Size()
	}
	return l, nil
}

// replay runs a replay and shows its progress.
func (a app) replay(ctx context.Context, config replay.Config, log *logFile) (*replay.Report, error) {
	var progress replay.Progress
	ended := make(chan struct{})
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		a.showProgress(&progress, log, ended)
	}()
	report, err := replay.Run(ctx, config, log, &progress)
	close(ended)
	<-shown
	return report, err
}

// Time between two updates of the progress: on a terminal, and in a file.
const (
	redrawEvery  = 200 * time.Millisecond
	newLineEvery = 10 * time.Second
)

// showProgress writes how far the replay is to standard error until it has ended: one line that is redrawn on a
// terminal, otherwise a line from time to time.
func (a app) showProgress(progress *replay.Progress, log *logFile, ended <-chan struct{}) {
	line, every := a.newStatusLine(), newLineEvery
	if line.live {
		every = redrawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	defer line.end()
	for began := time.Now(); ; {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		text := progressText(progress.Lines(), log.read.Load(), log.size, time.Since(began))
		if line.live {
			line.redraw("%s", text)
		} else {
			line.printf("%s\n", text)
		}
	}
}

// progressText says how many lines were read, which part of the log that is, and how fast.
func progressText(lines, read, size int64, took time.Duration) string {
	text := fmt.Sprintf("%d lines", lines)
	if size > 0 {
		text += fmt.Sprintf(", %d %%", min(100*read/size, 100))
	}
	if seconds := took.Seconds(); seconds >= 1 {
		text += fmt.Sprintf(", %.0f a second", float64(lines)/seconds)
	}
	return text
}

// replayed prints the report.
func (s screen) replayed(r *replay.Report, f replayFlags) error {
	if f.json {
		return s.json(r)
	}
	s.readLines(r, f.log)
	if r.Requests == 0 {
		return nil
	}
	s.printf("\n")
	s.byPolicy(r)
	s.whatIf(r)
	s.busiest(r)
	s.mostDenied(r)
	return nil
}

// readLines says what was read.
func (s screen) readLines(r *replay.Report, log string) {
	s.printf("%s: %s", s.paint(bold, log), counted(int(r.Lines), "line", "lines"))
	if r.Requests > 0 {
		const layout = "2006-01-02 15:04:05"
		s.printf(", %s to %s UTC", r.From.Format(layout), r.To.Format(layout))
	}
	s.printf("\n")
	if r.Unread > 0 {
		s.printf("%s\n", s.paint(yellow, counted(int(r.Unread), "line", "lines")+" could not be read:"))
		for _, bad := range r.Bad {
			s.printf("  line %d: %s\n", bad.Line, bad.Why)
		}
		if more := r.Unread - int64(len(r.Bad)); more > 0 {
			s.printf("  and %d more\n", more)
		}
	}
	if r.Late > 0 {
		s.printf("%s\n", s.paint(yellow, counted(int(r.Late), "request was", "requests were")+
			fmt.Sprintf(" more than %v out of order, and decided later than at their times", replay.MaxDisorder)))
	}
	for _, n := range r.NotApplied {
		s.printf("%s\n", s.paint(yellow, fmt.Sprintf("%s could not be applied to %s: the log does not say enough", n.Policy,
			counted(int(n.Requests), "request", "requests"))))
		s.printf("  line %d: %s\n", n.Line, n.Why)
	}
}

// byPolicy prints the totals.
func (s screen) byPolicy(r *replay.Report) {
	s.printf("%s of %s would have been denied: %s\n\n", s.paint(bold, fmt.Sprint(r.Denied)),
		counted(int(r.Requests), "request", "requests"), percent(r.Denied, r.Requests))
	var t table
	t.head("limit", "requests", "granted", "denied", "share", "keys", "keys denied", "")
	for _, p := range r.Policies {
		as := plain
		if p.Denied+p.Refused > 0 {
			as = red
		}
		t.add(
			cell{text: p.Name},
			number(p.Requests, plain),
			number(p.Granted+p.Free, plain),
			number(p.Denied+p.Refused, as),
			cell{text: percent(p.Denied+p.Refused, p.Requests), right: true, as: as},
			number(p.Keys, plain),
			number(p.KeysDenied, plain),
			cell{text: remarks(p)},
		)
	}
	t.print(s)
}

func number(n int64, as style) cell { return cell{text: fmt.Sprint(n), right: true, as: as} }

// percent is a share, which is 0 % only if there is nothing.
func percent(part, of int64) string {
	share := 100 * float64(part) / float64(max(of, 1))
	if part > 0 && share < 0.01 {
		return "< 0.01 %"
	}
	return fmt.Sprintf("%.2f %%", share)
}

// remarks says what else became of a policy's requests.
func remarks(p replay.Policy) string {
	var all []string
	add := func(n int64, text string) {
		if n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, text))
		}
	}
	if p.Mode == "shadow" {
		all = append(all, "shadow")
	}
	add(p.Free, "not charged")
	add(p.Refused, "empty keys")
	add(p.Withdrawn, "denied by others")
	add(p.Failed, "failed")
	return strings.Join(all, ", ")
}

// whatIf prints what other rates would have denied.
func (s screen) whatIf(r *replay.Report) {
	if len(r.WhatIf) == 0 {
		return
	}
	s.printf("\nDenied with other rates:\n\n")
	var t table
	head := []string{"limit"}
	for _, w := range r.WhatIf {
		head = append(head, map[float64]string{0.5: "half", 1: "the file's", 2: "twice"}[w.Factor])
	}
	t.head(head...)
	for i, p := range r.Policies {
		row := []cell{{text: p.Name}}
		for _, w := range r.WhatIf {
			row = append(row, number(w.Policies[i], plain))
		}
		t.add(row...)
	}
	row := []cell{{text: "requests"}}
	for _, w := range r.WhatIf {
		row = append(row, cell{text: fmt.Sprintf("%d (%s)", w.Denied, percent(w.Denied, r.Requests)), right: true})
	}
	t.add(row...)
	t.print(s)
}

// busiest draws the requests of the busiest keys over time.
func (s screen) busiest(r *replay.Report) {
	if len(r.Busiest) == 0 {
		return
	}
	s.printf("\nThe busiest keys, from %s on; %s %s:\n", r.ColumnsFrom.Format("2006-01-02 15:04:05"),
		columnText(r), length(r.ColumnMicros))
	for _, k := range r.Busiest {
		s.printf("\n%s %s: %s, %s\n", k.Policy, s.paint(bold, short(k.Subject)),
			counted(int(k.Requests), "request", "requests"), s.deniedText(k))
		s.timeline(k)
	}
}

// columnText says what a column of the timelines is: short logs have several characters for each.
func columnText(r *replay.Report) string {
	if width := columnWidth(r.Busiest[0]); width > 1 {
		return fmt.Sprintf("%d characters are", width)
	}
	return "a column is"
}

func columnWidth(k replay.Key) int { return stripColumns / len(k.Columns) }

func (s screen) deniedText(k replay.Key) safe {
	if k.Denied == 0 {
		return s.paint(green, "none denied")
	}
	return s.paint(red, fmt.Sprintf("%d denied (%s)", k.Denied, percent(k.Denied, k.Requests)))
}

// timeline draws what was granted and, below, what was denied.
func (s screen) timeline(k replay.Key) {
	highest := int64(1)
	for _, c := range k.Columns {
		highest = max(highest, int64(c.Granted), int64(c.Denied))
	}
	var granted, denied []glyph
	for _, c := range k.Columns {
		for range columnWidth(k) {
			granted = append(granted, glyph{s.bar(int64(c.Granted), highest), green})
			denied = append(denied, glyph{s.bar(int64(c.Denied), highest), red})
		}
	}
	s.printf("  %s%s %d\n", pad("granted", wordsGutter), s.ribbon(granted), highest)
	if k.Denied > 0 {
		s.printf("  %s%s\n", pad("denied", wordsGutter), s.ribbon(denied))
	}
}

// bar is a column of one line: at least one eighth for one request.
func (s screen) bar(n, highest int64) string {
	if n == 0 {
		return s.either("·", ".")
	}
	level := (n*8+highest-1)/highest - 1
	if s.unicode {
		return []string{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}[level]
	}
	return string("-~:=+*%#"[level])
}

// maxSubject is how many characters of a key are shown in the report.
const maxSubject = 40

// short cuts a long key.
func short(subject string) string {
	if runes := []rune(subject); len(runes) > maxSubject {
		return string(runes[:maxSubject-3]) + "..."
	}
	return subject
}

// mostDenied prints the keys with the most denials, unless they are the busiest ones.
func (s screen) mostDenied(r *replay.Report) {
	shown := map[string]bool{}
	for _, k := range r.Busiest {
		shown[k.Policy+" "+k.Subject] = true
	}
	var t table
	t.head("limit", "key", "requests", "denied", "share")
	others := false
	for _, k := range r.MostDenied {
		others = others || !shown[k.Policy+" "+k.Subject]
		t.add(cell{text: k.Policy}, cell{text: short(k.Subject)}, number(k.Requests, plain), number(k.Denied, red),
			cell{text: percent(k.Denied, k.Requests), right: true})
	}
	if others {
		s.printf("\nDenied most often:\n\n")
		t.print(s)
	}
}
