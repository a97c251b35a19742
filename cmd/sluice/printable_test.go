package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// hostileTexts are what a terminal might obey, or show as something else, or nothing at all.
var hostileTexts = []string{
	"\x1b[31mred", "\x1b]0;title\x07", "\u009b31m", "\u0085", "\u202egnp", "\u2066\u2069", "\u200b\u200d\ufeff",
	"\u00ad", "\u2028\u2029",
	"\u061c", "\ufe0f", "\u115f\u3164", "\U000e0041", "\xff\xfe", "a\rb", "a\x08b", "a\nb", "a\tb", "\x7f", "\x00",
}

// wantPrintable fails if a run has written what does not belong on a terminal.
func wantPrintable(t *testing.T, got outcome, what string) {
	t.Helper()
	all := got.stdout + got.stderr
	if !utf8.ValidString(all) {
		t.Errorf("%s: no UTF-8: %q", what, all)
	}
	for _, r := range all {
		if r != '\n' && !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point,
			unicode.Variation_Selector) {
			t.Errorf("%s: shows %U: %q", what, r, all)
			return
		}
	}
	if len(all) > 20_000 && !json.Valid([]byte(got.stdout)) {
		t.Errorf("%s: %d bytes, which begin with %.200q", what, len(all), all)
	}
}

func TestPrintable(t *testing.T) {
	tests := map[string]string{
		"plain, wide 日本 and é":     "plain, wide 日本 and é",
		"\x1b[31m":                 `\x1b[31m`,
		"\u009b\u0085":             `\u009b\u0085`,
		"\u202e\u200b\ufeff\u00ad": `\u202e\u200b\ufeff\u00ad`,
		"\U000e0041":               `\U000e0041`,
		"a\nb\tc\rd\x00":           `a\nb\tc\rd\x00`,
		"\xff\xe2\x80":             `\xff\xe2\x80`,
		"":                         "",
	}
	for text, want := range tests {
		if got := string(printable(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	long := strings.Repeat("é\x1b", 10_000_000)
	got := string(printable(long))
	if n := utf8.RuneCountInString(got); n > maxShown+40 || !strings.HasSuffix(got, "... (30000000 bytes)") {
		t.Errorf("%d characters, which end with %q", n, got[len(got)-40:])
	}
}

// TestPrintfIsPrintable passes every kind of text to printf.
func TestPrintfIsPrintable(t *testing.T) {
	type named string
	var out strings.Builder
	s := screen{w: &out, live: true}
	s.printf("%s %v %s %s %s %d %s", "\x1b", errors.New("\u202e, with args beginning with: secret"), named("\u009b"),
		netip.MustParseAddrPort("[::1%25\x1b]:1"),
		s.paint(red, "\x1b"), 7, safe("\x1b"))
	want := `\x1b \u202e \u009b [::1%25\x1b]:1 ` + "\x1b[1;31m" + `\x1b` + "\x1b[0m 7 \x1b"
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
}

func FuzzPrintable(f *testing.F) {
	for _, text := range append(hostileTexts, strings.Repeat("é", 2*maxShown)) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		wantPrintable(t, outcome{stdout: string(printable(text))}, text)
		var out strings.Builder
		must(t, (screen{w: &out}).json(map[string]string{"text": text}))
		wantPrintable(t, outcome{stdout: out.String()}, text)
		var back map[string]string
		if err := json.Unmarshal([]byte(out.String()), &back); err != nil {
			t.Errorf("%q: %v", out.String(), err)
		}
		if utf8.ValidString(text) && back["text"] != text {
			t.Errorf("%q came back as %q", text, back["text"])
		}
	})
}

// TestArgumentsArePrintable passes hostile texts in every place of every subcommand, to a server that repeats them.
func TestArgumentsArePrintable(t *testing.T) {
	addr := fakeServer(t, repeats)
	for _, text := range append(hostileTexts, strings.Repeat("x\x1b", 1_000_000)) {
		for _, args := range [][]string{
			{text}, {"help", text}, {"list", text}, {"list", "--" + text}, {"load", "--redis", "redis://" + text},
			{"load", "--cluster", text + "," + text}, {"load", "--sentinel", text + "@127.0.0.1:1"}, {"acl", "--name", text},
			{"acl", "--format", text}, {"top", text}, {"top", "--limiter", text}, {"top", "--n", text}, {"inspect", text},
			{"inspect", "--redis", addr, text, text}, {"inspect", "--redis", addr, "a:b:{" + text + "}:ll1"},
			{"inspect", "a", "b", "--limit", text}, {"reset", "--redis", addr, "a", text}, {"reset", "a", "b", text},
			{"set-rate", "--redis", addr, "a", text, "1/1s"}, {"set-rate", "a", "b", text},
			{"policy", text}, {"policy", "check", text},
		} {
			wantPrintable(t, sluiceRun(nil, args...), fmt.Sprintf("%.60q", args))
		}
	}
}

// TestServerStoredIsPrintable stores hostile texts under and in the keys of limiters.
func TestServerStoredIsPrintable(t *testing.T) {
	t.Parallel()
	rdb, env := inspected(t)
	for _, text := range append(hostileTexts, strings.Repeat("x\x1b", 1_000_000)) {
		must(t, rdb.FlushDB(background).Err())
		now := rdb.Time(background).Val().UnixMicro()
		subject := strings.NewReplacer("{", "%7B", "}", "%7D").Replace(text)
		for _, put := range [][]any{
			{"rpush", "sluice:" + text + ":{demo}:ll1", now}, {"rpush", "sluice:try:{" + subject + "}:ll1", now},
			{"rpush", "sluice:try:{demo}:ll1", text}, {"zadd", "sluice:try:{demo}:zl1", now, text},
			{"hset", "sluice:try:{demo}:tb1", "rate", text}, {"set", "sluice:try:{demo}:gcra1", text},
			{"zadd", "sluice:try:{demo}:cc1", now + 60_000_000, text}, {"set", "sluice:try:{demo}:sr1:1000x1", text},
			{"rpush", "sluice:try:{demo}:tb1:by:" + text, text}, {"set", "sluice:try:{demo}:" + text, text},
		} {
			must(t, rdb.Do(background, put...).Err())
		}
		for _, args := range [][]string{
			{"top", "--share=100"}, {"top", "--json", "--share=100"}, {"inspect", "try", "demo"},
			{"inspect", "--json", "try", "demo"}, {"inspect", "try", text}, {"inspect", "sluice:" + text + ":{demo}:ll1"},
			{"set-rate", "try", "demo", "1/1s"}, {"reset", "--dry-run", "try", "demo"}, {"reset", "try", text},
			{"reset", "--config", "try", "demo"},
		} {
			wantPrintable(t, sluiceRun(env, args...), fmt.Sprintf("%.60q", args))
		}
	}
}

// TestServerStoredHuge tests values of 20 MB where a number belongs.
func TestServerStoredHuge(t *testing.T) {
	rdb, env := inspected(t)
	huge := strings.Repeat("9", 20_000_000)
	must(t, rdb.HSet(background, "sluice:try:{demo}:tb1", "rate", huge, "interval", huge).Err())
	must(t, rdb.RPush(background, "sluice:try:{demo}:ll1", huge).Err())
	for _, args := range [][]string{{"inspect", "try", "demo"}, {"inspect", "--json", "try", "demo"}, {"top"}} {
		got := sluiceRun(env, args...)
		wantPrintable(t, got, fmt.Sprint(args))
		if args[0] == "inspect" {
			wantText(t, got, exitFailed, "its rate, interval and scope are", "the last entry holds")
		}
	}
}

// TestRepliesArePrintable tests servers that put hostile texts into whatever they are asked.
func TestRepliesArePrintable(t *testing.T) {
	t.Parallel()
	for _, text := range append(hostileTexts, strings.Repeat("x\x1b", 100_000)) {
		line := strings.NewReplacer("\r", "", "\n", "").Replace(text)
		for _, addr := range []string{
			fakeServer(t, func([]string) string { return "-ERR " + line + "\r\n" }),
			fakeServer(t, func([]string) string { return "+" + line + "\r\n" }),
			fakeServer(t, func(args []string) string {
				switch strings.ToLower(args[0]) {
				case "hello":
					return "-ERR no\r\n"
				case "cluster":
					return bulk("id " + line + ":1@2," + text + " master,x - 0 0 1 connected 0-16383\nid2 127.0.0.1:1@2 slave," +
						line + " - 0 0 1 connected")
				case "sentinel":
					return "*2\r\n" + bulk(text) + bulk(text)
				case "info":
					return bulk("role:master\r\nconnected_slaves:" + line + "\r\n")
				case "scan":
					return "*2\r\n$1\r\n0\r\n*1\r\n" + bulk("sluice:try:{"+text+"}:ll1")
				case "time":
					return "*2\r\n" + bulk("1795324372") + bulk("107710")
				case "type":
					return "+" + line + "\r\n"
				case "script":
					return bulk(text)
				}
				return bulk(text)
			}),
		} {
			for _, command := range targetCommands {
				for _, flag := range []string{"--redis=" + addr, "--cluster=" + addr, "--sentinel=main@" + addr} {
					args := append(append([]string{}, command...), flag)
					wantPrintable(t, sluiceRun(nil, args...), fmt.Sprintf("%.60q %.20q", args, text))
				}
			}
		}
	}
}

// TestServerCureIsWhole has a longer cure than a text may be.
func TestServerCureIsWhole(t *testing.T) {
	addr := redistest.Start(t).Addr
	names := strings.Repeat("gcra ", 300)
	got := sluiceRun(nil, append(strings.Fields("verify "+names), "--redis", addr)...)
	wantText(t, got, exitFailed, "cure: sluice load --redis redis://"+addr+" "+strings.TrimSpace(names)+"\n")
}
