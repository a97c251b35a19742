package main

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/sluice-redis/sluice/loader"
	sluiceotel "github.com/sluice-redis/sluice/otel"
	"github.com/sluice-redis/sluice/policy"
)

// metrics is what /metrics shows. No label holds a value of a request, unless a file asks for it with detailed_metric
// or value_to_metric.
type metrics struct {
	registry *prometheus.Registry
	observer loader.Observer

	decisions metric.Int64Counter
	duration  metric.Float64Histogram
	refusals  metric.Int64Counter
	unmatched metric.Int64Counter
	reloads   metric.Int64Counter
	loadedAt  metric.Float64Gauge
	refused   metric.Int64Gauge // of files
	redisUp   metric.Int64Gauge

	sets    sync.Map // labels -> metric.MeasurementOption: they are the same in most calls
	setSize atomic.Int64
}

// maxSets bounds the labels of a metric: further ones are counted together, as otel_metric_overflow.
const maxSets = 10_000

// labels of a decision.
type labels struct{ domain, limit, outcome string }

// newMetrics makes the instruments.
func newMetrics() (*metrics, error) {
	m := &metrics{registry: prometheus.NewRegistry()}
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(m.registry), otelprometheus.WithoutScopeInfo(),
		otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	provider := sdk.NewMeterProvider(sdk.WithReader(exporter), sdk.WithCardinalityLimit(maxSets))
	m.observer, err = sluiceotel.New(sluiceotel.WithMeterProvider(provider),
		sluiceotel.WithTracerProvider(noop.NewTracerProvider()))
	if err != nil {
		return nil, err
	}
	return m, m.instruments(provider.Meter("github.com/sluice-redis/sluice/cmd/sluiced"))
}

func (m *metrics) instruments(meter metric.Meter) (err error) {
	if m.decisions, err = meter.Int64Counter("sluiced.decisions",
		metric.WithDescription("Decisions by domain, limit and outcome.")); err != nil {
		return err
	}
	if m.duration, err = meter.Float64Histogram("sluiced.call.duration", metric.WithUnit("s"),
		metric.WithDescription("How long calls took in sluiced."), metric.WithExplicitBucketBoundaries(
			0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.05, 0.1)); err != nil {
		return err
	}
	if m.refusals, err = meter.Int64Counter("sluiced.refusals",
		metric.WithDescription("Calls that were refused before any limit was asked, by reason.")); err != nil {
		return err
	}
	if m.unmatched, err = meter.Int64Counter("sluiced.unmatched",
		metric.WithDescription("Calls without a limit: no file has the domain or the descriptors.")); err != nil {
		return err
	}
	if m.reloads, err = meter.Int64Counter("sluiced.reloads",
		metric.WithDescription("Times that changed files were read, by result.")); err != nil {
		return err
	}
	if m.loadedAt, err = meter.Float64Gauge("sluiced.files.applied", metric.WithUnit("s"),
		metric.WithDescription("When the files were last applied, in seconds since 1970.")); err != nil {
		return err
	}
	if m.refused, err = meter.Int64Gauge("sluiced.files.refused",
		metric.WithDescription("1 while the files are wrong and the limits of before hold.")); err != nil {
		return err
	}
	if m.redisUp, err = meter.Int64Gauge("sluiced.redis.up",
		metric.WithDescription("1 while Redis answers and has the scripts.")); err != nil {
		return err
	}
	info, err := meter.Int64Gauge("sluiced.build.info", metric.WithDescription("The version, as a label."))
	if err == nil {
		info.Record(context.Background(), 1, metric.WithAttributes(attribute.String("version", buildVersion())))
	}
	return err
}

// decided counts what was decided about each limit of a call.
func (m *metrics) decided(ctx context.Context, c *call, took time.Duration) {
	for _, q := range c.questions {
		m.decisions.Add(ctx, int64(len(q.descriptors)), m.set(q.labels()))
	}
	m.duration.Record(ctx, took.Seconds())
}

// decidedAuth returns what counts the decisions of a policy file in forward auth.
func (m *metrics) decidedAuth(domain string) func(context.Context, policy.Decision, error) {
	return func(ctx context.Context, d policy.Decision, err error) {
		if err != nil {
			m.decisions.Add(ctx, 1, m.set(labels{domain: domain, outcome: "error"}))
		}
		for _, p := range d.Policies {
			m.decisions.Add(ctx, 1, m.set(labels{domain, p.Policy, outcomeOf(p.Decision, p.Err, p.Shadow)}))
		}
	}
}

// labels is the labels of a question: the limit's place in the file, or its name.
func (q *question) labels() labels {
	l := labels{q.domain, q.name, "not_asked"}
	if q.answered || q.err != nil {
		l.outcome = outcomeOf(q.decision, q.err, q.mode == shadow)
	}
	return l
}

func outcomeOf(d loader.Decision, err error, inShadow bool) string {
	switch {
	case err != nil:
		return "error"
	case d.Degraded && d.Granted:
		return "degraded_ok"
	case d.Degraded:
		return "degraded_over_limit"
	case d.Granted:
		return "ok"
	case inShadow:
		return "shadow_over_limit"
	}
	return "over_limit"
}

// set returns the attributes of labels.
func (m *metrics) set(l labels) metric.AddOption {
	if known, ok := m.sets.Load(l); ok {
		return known.(metric.AddOption)
	}
	made := metric.WithAttributeSet(attribute.NewSet(attribute.String("domain", l.domain),
		attribute.String("limit", l.limit), attribute.String("outcome", l.outcome)))
	if m.setSize.Add(1) <= maxSets {
		m.sets.Store(l, made)
	}
	return made
}

func (m *metrics) count(ctx context.Context, counter metric.Int64Counter, reason string) {
	counter.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
}

func (m *metrics) reloaded(err error) {
	result, refused, ctx := "applied", int64(0), context.Background()
	if err != nil {
		result, refused = "refused", 1
	} else {
		m.loadedAt.Record(ctx, float64(time.Now().Unix()))
	}
	m.refused.Record(ctx, refused)
	m.reloads.Add(ctx, 1, metric.WithAttributes(attribute.String("result", result)))
}

// probed notes whether Redis answers.
func (m *metrics) probed(up bool) {
	value := int64(0)
	if up {
		value = 1
	}
	m.redisUp.Record(context.Background(), value)
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
