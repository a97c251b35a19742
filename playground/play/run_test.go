package play

import (
	"fmt"
	"testing"
	"time"
)

func runLink(t testing.TB, link string) (*Run, []byte) {
	t.Helper()
	r, err := Open(link)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	var all []byte
	buf := make([]byte, 1000*RecordSize)
	for {
		n := r.Step(buf, func() bool { return true })
		if n == 0 {
			return r, all
		}
		all = append(all, buf[:n*RecordSize]...)
	}
}

func TestTmp(t *testing.T) {
	for _, link := range []string{"rate=0&bunch=1s:10", "lanes=list_log,zset_log,gcra,token_bucket,slice_ring&denied=wait", "lanes=fixed_window,two_windows,tutorial_log,tutorial_bucket,s1,s2&denied=wait&skew=1s",
		"lanes=list_log,s3,s4,gcra&denied=wait&skew=1s&ahead=5s"} {
		start := time.Now()
		r, all := runLink(t, link)
		fmt.Println(link, len(all)/RecordSize, time.Since(start))
		for i, l := range r.Audit().Lanes {
			fmt.Println(r.lanes[i].id, JSON(l))
		}
	}
}
