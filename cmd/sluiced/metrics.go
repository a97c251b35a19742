package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/loader"
	sluiceotel "github.com/sluice-redis/sluice/otel"
	"github.com/sluice-redis/sluice/policy"
	"github.com/sluice-redis/sluice/policy/envoyfile"
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
	redisDown metric.Float64Gauge
	hashes    atomic.Pointer[hashes] // of the files that are applied
	limits    atomic.Pointer[map[limitKey]limitInForce]

	refusedMost, nearLimit subjects
	loaders                atomic.Pointer[[]*loader.Loader]

	sets    sync.Map // labels -> metric.MeasurementOption: they are the same in most calls
	setSize atomic.Int64
	details atomic.Int64 // of sets, those with a value of a request
}

const (
	maxSets    = 10_000 // bounds the labels of a metric: further ones are counted together, as otel_metric_overflow
	maxDetails = 5_000  // of them with a value of a request: further ones have none, so that no client hides a limit
)

// labels of a decision.
type labels struct{ domain, limit, outcome string }

// newMetrics makes the instruments.
func newMetrics() (*metrics, error) {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.limits.Store(&map[limitKey]limitInForce{})
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
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
	meter := provider.Meter("github.com/sluice-redis/sluice/cmd/sluiced")
	return m, cmp.Or(m.instruments(meter), m.instrumentsOfLimits(meter))
}

func (m *metrics) instruments(meter metric.Meter) error {
	var errs [12]error
	is := metric.WithDescription
	m.decisions, errs[0] = meter.Int64Counter("sluiced.decisions", is("Decisions by domain, limit and outcome."))
	m.duration, errs[1] = meter.Float64Histogram("sluiced.call.duration", metric.WithUnit("s"),
		is("How long calls took in sluiced, by door."), metric.WithExplicitBucketBoundaries(
			0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.05, 0.1))
	m.refusals, errs[2] = meter.Int64Counter("sluiced.refusals",
		is("Calls that were refused before any limit was asked, by reason."))
	m.unmatched, errs[3] = meter.Int64Counter("sluiced.unmatched",
		is("Calls without a limit: no file has the domain or the descriptors."))
	m.reloads, errs[4] = meter.Int64Counter("sluiced.reloads", is("Times that changed files were read, by result."))
	m.loadedAt, errs[5] = meter.Float64Gauge("sluiced.files.applied", metric.WithUnit("s"),
		is("When the files were last applied, in seconds since 1970."))
	m.refused, errs[6] = meter.Int64Gauge("sluiced.files.refused",
		is("1 while the files are wrong and the limits of before hold."))
	m.redisUp, errs[7] = meter.Int64Gauge("sluiced.redis.up", is("1 while Redis decides: it is tried once a second."))
	m.redisDown, errs[8] = meter.Float64Gauge("sluiced.redis.down", metric.WithUnit("s"),
		is("For how long Redis has not decided, 0 while it does."))
	_, errs[9] = meter.Int64ObservableGauge("sluiced.file.info", metric.WithInt64Callback(m.observeFiles),
		is("The files that are applied, and the beginnings of their SHA-256, as labels."))
	_, errs[10] = meter.Int64ObservableGauge("sluiced.redis.breakers.open",
		metric.WithInt64Callback(m.observeBreakers),
		is("Nodes of Redis that no calls are sent to, because they have answered nobody."))
	info, err := meter.Int64Gauge("sluiced.build.info", is("The version, as a label."))
	if err == nil {
		info.Record(context.Background(), 1, metric.WithAttributes(attribute.String("version", buildVersion())))
	}
	errs[11] = err
	return errors.Join(errs[:]...)
}

// By what a call came, as a label of its duration.
var (
	byGRPC = metric.WithAttributeSet(attribute.NewSet(attribute.String("door", "grpc")))
	byJSON = metric.WithAttributeSet(attribute.NewSet(attribute.String("door", "json")))
	byAuth = metric.WithAttributeSet(attribute.NewSet(attribute.String("door", "auth")))
)

// decided counts what was decided about each limit of a request.
func (m *metrics) decided(ctx context.Context, d *decision) {
	if d.Refused {
		m.count(ctx, m.refusals, "no_key")
	}
	for i := range d.Charges {
		l, c := d.labels(i), &d.Charges[i]
		m.decisions.Add(ctx, int64(len(d.limits[i].descriptors)), m.set(l, d.limits[i].rule))
		m.noteCall(limitKey{l.domain, cmp.Or(d.limits[i].name, c.Name)}, c.Subject, c.Decision, l.outcome)
	}
}

// noteCall counts a call that a limit was about, and its subject if it was refused or is about to be.
func (m *metrics) noteCall(key limitKey, subject string, d loader.Decision, outcome string) {
	limit, found := (*m.limits.Load())[key]
	if found {
		limit.counts.calls.Add(1)
	}
	share := used(d)
	switch outcome {
	case "over_limit", "shadow_over_limit", "degraded_over_limit":
		m.refusedMost.add(key, subject, share)
	case "ok":
		if share > nearShare {
			m.nearLimit.add(key, subject, share)
			if found {
				limit.counts.near.Add(1)
			}
		}
	}
}

// used returns the share that a subject has used of a limit, in the window where that is most.
func used(d loader.Decision) float64 {
	share, windows := 0.0, d.Windows
	if len(windows) == 0 {
		windows = []loader.WindowState{{Limit: d.Limit, Remaining: d.Remaining}}
	}
	for _, w := range windows {
		all := cmp.Or(w.Limit.Burst, w.Limit.Permits)
		if all == 0 {
			return 1
		}
		share = max(share, 1-float64(w.Remaining)/float64(all))
	}
	return share
}

// decidedAuth returns what counts the decisions of a policy file in forward auth.
func (m *metrics) decidedAuth(name string) func(context.Context, policy.Decision, error) {
	domain := "auth/" + name
	return func(ctx context.Context, d policy.Decision, err error) {
		if err != nil && len(d.Policies) == 0 { // no limit was asked
			m.decisions.Add(ctx, 1, m.set(labels{domain: domain, outcome: "error"}, nil))
		}
		if d.Refused {
			m.count(ctx, m.refusals, "no_key")
		}
		for _, p := range d.Policies {
			outcome := outcomeOf(p.Decision, p.Err, p.Shadow)
			m.decisions.Add(ctx, 1, m.set(labels{domain, p.Policy, outcome}, nil))
			m.noteCall(limitKey{name, p.Policy}, p.Subject, p.Decision, outcome)
		}
	}
}

// labels is the labels of a charge: the limit's place in the file, or its name.
func (d *decision) labels(i int) labels {
	c := &d.Charges[i]
	l := labels{d.limits[i].domain, c.Name, "not_asked"}
	switch {
	case c.Err != nil && c.Denied: // more hits than the limit
		l.outcome = outcomeOf(c.Decision, nil, c.Shadow)
	case c.Answered:
		l.outcome = outcomeOf(c.Decision, c.Err, c.Shadow)
	case d.Err != nil && d.Outcome != admission.Denied && !c.Shadow: // asked together with others, and nobody answered
		l.outcome = "error"
	}
	return l
}

func outcomeOf(d loader.Decision, err error, inShadow bool) string {
	wrong, _ := errors.AsType[*policy.AttributeError](err)
	switch {
	case wrong != nil && wrong.Client: // would be refused
		return "shadow_over_limit"
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

// set returns the attributes of the labels of a limit, which is by a rule if it is of an Envoy file.
func (m *metrics) set(l labels, rule *envoyfile.Rule) metric.AddOption {
	if known, ok := m.sets.Load(l); ok {
		return known.(metric.AddOption)
	}
	if rule != nil && rule.Name == "" {
		if path := strings.Join(rule.Path, "."); l.limit != path && m.details.Add(1) > maxDetails {
			l.limit = path
			return m.set(l, rule)
		}
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

// reloaded notes what became of files, and returns the hashes of those that were applied before.
func (m *metrics) reloaded(now hashes, err error) (before hashes) {
	result, refused, ctx := "applied", int64(0), context.Background()
	if err != nil {
		result, refused = "refused", 1
	} else {
		m.loadedAt.Record(ctx, float64(time.Now().Unix()))
		if last := m.hashes.Swap(&now); last != nil {
			before = *last
		}
	}
	m.refused.Record(ctx, refused)
	m.reloads.Add(ctx, 1, metric.WithAttributes(attribute.String("result", result)))
	return before
}

// observeFiles tells which files are applied.
func (m *metrics) observeFiles(_ context.Context, o metric.Int64Observer) error {
	if now := m.hashes.Load(); now != nil {
		for path, hash := range *now {
			o.Observe(1, metric.WithAttributes(attribute.String("file", path), attribute.String("hash", hash)))
		}
	}
	return nil
}

// observeBreakers tells how many nodes are not asked.
func (m *metrics) observeBreakers(_ context.Context, o metric.Int64Observer) error {
	nodes := map[string]time.Duration{}
	if loaders := m.loaders.Load(); loaders != nil {
		for _, l := range *loaders {
			maps.Copy(nodes, l.OpenBreakers())
		}
	}
	o.Observe(int64(len(nodes)))
	return nil
}

// probed notes since when Redis does not decide, zero if it does.
func (m *metrics) probed(down time.Time) {
	up, seconds := int64(1), 0.0
	if !down.IsZero() {
		up, seconds = 0, time.Since(down).Seconds()
	}
	m.redisUp.Record(context.Background(), up)
	m.redisDown.Record(context.Background(), seconds)
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
