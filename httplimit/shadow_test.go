package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// observed is an option that keeps the results.
func observed(results *[]httplimit.Result) httplimit.Option {
	return httplimit.Observe(func(_ *http.Request, r httplimit.Result) { *results = append(*results, r) })
}

// Shadow lets everything through and tells the observers; only with ShadowHeaders the client sees it.
func TestShadow(t *testing.T) {
	_, limits := fake(t)
	for shown, want := range map[httplimit.HeaderSet]string{0: "", httplimit.ShadowHeaders: `"api";r=0;t=60`} {
		var results []httplimit.Result
		h := check(t, httplimit.New(limits.ListLog("api", loader.PerMinute(1)), httplimit.KeyByIP(), httplimit.Shadow(),
			httplimit.Headers(httplimit.Draft11|shown), observed(&results))).Handler(ok)
		wantStatus(t, h, ada, 200)
		answer := get(h, ada)
		wantHeader(t, answer, "RateLimit", want)
		wantHeader(t, answer, "Retry-After", "")
		if r := results[1]; answer.Code != 200 || !cmp.Equal(r.Denied(true), []string{"api"}) || r.Status != 0 {
			t.Errorf("%d, result %+v", answer.Code, r)
		}
	}
}
