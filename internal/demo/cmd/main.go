// Command cmd runs the demo with an embedded server.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/redis/go-redis/v9/logging"

	"github.com/sluice-redis/sluice/internal/demo"
)

func main() {
	logging.Disable()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := demo.Run(ctx, demo.Config{Out: os.Stdout, Terminal: demo.IsTerminal(os.Stdout), Margin: demo.DefaultMargin})
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}
