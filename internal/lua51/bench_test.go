package lua51

import (
	"fmt"
	"os"
	"testing"
)

// BenchmarkDecision is one decision of list_log: 10 subjects, of which most calls are denied, and 100000, of which all
// are granted.
func BenchmarkDecision(b *testing.B) {
	source, err := os.ReadFile("../../scripts/list_log_v1.lua")
	if err != nil {
		b.Fatal(err)
	}
	script, err := Compile("list_log", string(source))
	if err != nil {
		b.Fatal(err)
	}
	for _, subjects := range []int{10, 100_000} {
		b.Run(fmt.Sprint(subjects), func(b *testing.B) {
			r, err := Open()
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			b.ReportAllocs()
			for i := range b.N {
				r.SetTime(startTime + int64(i)*1000)
				key := fmt.Sprintf("sluice:api:{%d}:ll1", i*7919%subjects)
				if result := script.Run(r, []string{key}, []string{"60", "60000000", "1", "0"}); result.Err != nil {
					b.Fatal(result.Err)
				}
			}
		})
	}
}
