package replay

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"
)

// BenchmarkReplay replays logs in the combined format by one policy of one window. Their lines are of the same 10000
// keys, so that the memory, which the benchmark prints too, does not grow with the lines. Run each by itself for that:
//
//	go test ./cmd/sluice/internal/replay -run '^$' -bench 'Replay/1000000$' -benchtime 1x
func BenchmarkReplay(b *testing.B) {
	for _, lines := range []int{100_000, 1_000_000, 3_000_000} {
		b.Run(fmt.Sprint(lines), func(b *testing.B) {
			c := configOf(b, byAddress)
			for b.Loop() {
				in, out := io.Pipe()
				go writeLog(out, lines)
				report, err := Run(context.Background(), c, in, &Progress{})
				must(b, err)
				b.ReportMetric(100*report.Policies[0].Share(), "%denied")
			}
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.ReportMetric(float64(memory.Sys)/1e6, "MB")
		})
	}
}

// writeLog writes a log of 100 lines a second. Half of the requests come from 10 addresses.
func writeLog(out *io.PipeWriter, lines int) {
	for i := range lines {
		n := i * 7919 % 10_000
		if i%2 == 0 {
			n = i / 2 % 10
		}
		at := start.Add(time.Duration(i) * 10 * time.Millisecond).Format("02/Jan/2006:15:04:05 -0700")
		_, _ = fmt.Fprintf(out, "10.0.%d.%d - - [%s] \"GET /a/%d HTTP/1.1\" 200 512 \"-\" \"curl/8.5.0\"\n",
			n/250, n%250, at, i%100)
	}
	_ = out.Close()
}
