package adapters_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	sredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/sluice-redis/sluice/adapters/ulule"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/internal/proof/soak"
)

// A service with ulule's middleware lets nearly twice its limit of 100 a second through; with our store, 100.
func TestServerMoved(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	original, err := sredis.NewStore(rdb)
	must(t, err)
	ours, err := ulule.NewStore(rdb)
	must(t, err)
	before, after := audit(original), audit(ours)
	t.Logf("before: %d of 100, after: %d of 100", before, after)
	if before <= 100 || after > 100 {
		t.Error("want more than 100 before, and no more than 100 after")
	}
}

// audit returns the most requests in any second that the service lets through: one opens the window, and the others
// come when 0.9 of it has passed.
func audit(store limiter.Store) int64 {
	limit := limiter.New(store, limiter.Rate{Limit: 100, Period: time.Second})
	service := stdlib.NewMiddleware(limit).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var grants []soak.Spent
	var mu sync.Mutex
	ask := func() {
		sent, answer := time.Now(), httptest.NewRecorder()
		service.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
		mu.Lock()
		defer mu.Unlock()
		if answer.Code == http.StatusOK {
			grants = append(grants, soak.Spent{From: sent, To: time.Now(), Permits: 1})
		}
	}
	begin := time.Now()
	ask()
	var clients sync.WaitGroup
	<-time.After(time.Until(begin.Add(900 * time.Millisecond)))
	for range 4 {
		clients.Go(func() {
			for time.Since(begin) < 1500*time.Millisecond {
				ask()
			}
		})
	}
	clients.Wait()
	return soak.MostWithin(grants, time.Second)
}
