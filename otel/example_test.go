package sluiceotel_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/embedded"
	sluiceotel "github.com/sluice-redis/sluice/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A program sets the providers that its exporters read, here one that is read by hand.
func Example() {
	server, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))

	observer, err := sluiceotel.New(sluiceotel.WithMeterProvider(provider))
	if err != nil {
		log.Fatal(err)
	}
	limits := loader.New(server.Client(), loader.Observe(observer))
	codes := limits.ListLog("send-code", loader.PerDay(3))
	for range 5 {
		if _, err := codes.Allow(ctx, "ada@example.com"); err != nil {
			log.Fatal(err)
		}
	}

	var collected metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &collected); err != nil {
		log.Fatal(err)
	}
	for _, m := range collected.ScopeMetrics[0].Metrics {
		if counter, ok := m.Data.(metricdata.Sum[int64]); ok {
			for _, point := range counter.DataPoints {
				outcome, _ := point.Attributes.Value("sluice.decision.outcome")
				fmt.Println(m.Name, outcome.AsString(), point.Value)
			}
		}
	}
	// Unordered output:
	// sluice.decisions granted 3
	// sluice.decisions denied 2
}
