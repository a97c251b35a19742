package embedded_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/embedded"
)

func Example() {
	server, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	login := loader.New(server.Client()).ListLog("login", loader.PerMinute(2))
	for _, after := range []time.Duration{0, 1 * time.Second, 2 * time.Second, time.Minute} {
		server.SetTime(now.Add(after))
		d, err := login.Allow(context.Background(), "ada")
		fmt.Println(d.Granted, d.Wait, err)
	}
	// Output:
	// true 0s <nil>
	// true 0s <nil>
	// false 58s <nil>
	// true 0s <nil>
}
