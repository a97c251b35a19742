package replay

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"
)

// BenchmarkMillion replays 10^6 lines of the combined format, of 10^5 addresses, by one policy of one window.
func BenchmarkMillion(b *testing.B) {
	c := configOf(b, byAddress)
	for b.Loop() {
		in, out := io.Pipe()
		go writeLog(out, 1_000_000, 100_000)
		report, err := Run(context.Background(), c, in, &Progress{})
		must(b, err)
		b.ReportMetric(report.Policies[0].Share(), "denied")
	}
}

// writeLog writes a log in the combined format. Half of the requests come from a thousandth of the addresses.
func writeLog(out *io.PipeWriter, lines, addresses int) {
	for i := range lines {
		n := i * 7919 % addresses
		if i%2 == 0 {
			n /= 1000
		}
		at := start.Add(time.Duration(i) * 10 * time.Millisecond).Format("02/Jan/2006:15:04:05 -0700")
		_, _ = fmt.Fprintf(out, "10.%d.%d.%d - - [%s] \"GET /a/%d HTTP/1.1\" 200 512 \"-\" \"curl/8.5.0\"\n",
			n/62500, n/250%250, n%250, at, i%100)
	}
	_ = out.Close()
}
