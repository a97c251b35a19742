package sluiceotel

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/sluice-redis/sluice/loader"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scope is the name of what makes the metrics and spans.
const scope = "github.com/sluice-redis/sluice/otel"

// Histogram bounds, in seconds: what the conventions recommend for the duration of database operations, and the
// same on to waits of ten minutes.
var (
	durations = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}
	waits     = append(slices.Clone(durations), 30, 60, 300, 600)
)

// Observer is a loader.Observer that makes metrics and traces. New makes it.
type Observer struct {
	tracer    trace.Tracer // nil: no spans
	decisions metric.Int64Counter
	duration  metric.Float64Histogram
	wait      metric.Float64Histogram
	reported  metric.Int64Counter
	reportAge metric.Float64Histogram
	over      metric.Int64Histogram
	kinds     sync.Map // kind -> metric.MeasurementOption
}

var _ loader.Observer = (*Observer)(nil)

// Option changes what New makes. Nil does nothing.
type Option func(*providers)

type providers struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
}

// WithMeterProvider sets where metrics go, in place of the global provider, which nil stands for.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(to *providers) { to.meters = p }
}

// WithTracerProvider sets where spans go, in place of the global provider, which nil stands for.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(to *providers) { to.tracers = p }
}

// New returns an observer for loader.Observe. Its error is the meter provider's, which has refused an instrument.
func New(opts ...Option) (*Observer, error) {
	var p providers
	for _, opt := range opts {
		if opt != nil {
			opt(&p)
		}
	}
	p.meters, p.tracers = cmp.Or(p.meters, otel.GetMeterProvider()), cmp.Or(p.tracers, otel.GetTracerProvider())
	meter := p.meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	decisions, err := meter.Int64Counter("sluice.decisions",
		metric.WithUnit("{decision}"), metric.WithDescription("Decisions of rate limiters."))
	if err != nil {
		return nil, err
	}
	duration, err := histogram(meter, "sluice.decision.duration", "How long callers waited for decisions.", durations)
	if err != nil {
		return nil, err
	}
	wait, err := histogram(meter, "sluice.wait.duration", "How long callers slept for their permits.", waits)
	if err != nil {
		return nil, err
	}
	reported, err := meter.Int64Counter("sluice.report.permits",
		metric.WithUnit("{permit}"), metric.WithDescription("Permits that were reported after they were granted."))
	if err != nil {
		return nil, err
	}
	age, err := histogram(meter, "sluice.report.age", "How old the oldest permit of a report was.", durations)
	if err != nil {
		return nil, err
	}
	over, err := meter.Int64Histogram("sluice.report.over", metric.WithUnit("{permit}"),
		metric.WithDescription("Permits above the limit that a report found."),
		metric.WithExplicitBucketBoundaries(0, 1, 3, 10, 30, 100, 300, 1000, 10000))
	if err != nil {
		return nil, err
	}
	o := &Observer{decisions: decisions, duration: duration, wait: wait, reported: reported, reportAge: age, over: over}
	if _, none := p.tracers.(noop.TracerProvider); !none {
		o.tracer = p.tracers.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
	}
	return o, nil
}

func histogram(meter metric.Meter, name, description string, bounds []float64) (metric.Float64Histogram, error) {
	return meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(bounds...))
}

// Begin starts the span of a decision.
func (o *Observer) Begin(ctx context.Context, e loader.Event) context.Context {
	if o.tracer == nil {
		return ctx
	}
	kind, attrs := trace.SpanKindInternal, identity(e)
	if !sleeps(e) {
		kind = trace.SpanKindClient
		attrs = append(attrs, semconv.DBSystemNameRedis,
			semconv.DBOperationName("EVALSHA"), semconv.DBStoredProcedureName(e.Script))
	}
	attrs = append(attrs, attribute.Int64("sluice.decision.permits", e.Permits))
	ctx, _ = o.tracer.Start(ctx, spanName(e), trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
	return ctx
}

// End ends the span and counts the decision.
func (o *Observer) End(ctx context.Context, e loader.Event) {
	if o.tracer != nil {
		endSpan(trace.SpanFromContext(ctx), e)
	}
	attrs := o.attributes(e)
	o.decisions.Add(ctx, 1, attrs)
	o.duration.Record(ctx, e.Latency.Seconds(), attrs)
	if sleeps(e) {
		o.wait.Record(ctx, e.Slept.Seconds(), attrs)
	}
	if e.Reported > 0 && !failed(e) {
		o.reported.Add(ctx, e.Reported, attrs)
		o.reportAge.Record(ctx, e.ReportAge.Seconds(), attrs)
		o.over.Record(ctx, e.ReportOver, attrs)
	}
}

// kind is what events have in common whose attributes are equal.
type kind struct {
	script, method, limiter, outcome string
	degraded, ahead                  bool
}

// attributes returns the attributes of an event, made once for each kind: to hash them takes longer than to count.
func (o *Observer) attributes(e loader.Event) metric.MeasurementOption {
	k := kind{e.Script, e.Method, e.Limiter, outcome(e), e.Decision.Degraded, e.Decision.Ahead}
	if known, ok := o.kinds.Load(k); ok {
		return known.(metric.MeasurementOption)
	}
	made := metric.WithAttributeSet(attribute.NewSet(append(identity(e), result(e)...)...))
	if !failed(e) { // errors differ in more
		o.kinds.Store(k, made)
	}
	return made
}

func endSpan(span trace.Span, e loader.Event) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(result(e)...)
	span.SetAttributes(attribute.Int("sluice.decision.attempts", e.Attempts),
		attribute.Bool("sluice.script.loaded", e.Loaded))
	if failed(e) {
		span.SetStatus(codes.Error, description(e.Err))
		if code := statusCode(e); code != "" && !sleeps(e) {
			span.SetAttributes(semconv.DBResponseStatusCode(code))
		}
		return
	}
	switch outcome(e) {
	case outcomeSettled:
		return
	case outcomeReturned:
		span.SetAttributes(attribute.Int64("sluice.decision.returned", e.Returned))
		return
	}
	span.SetAttributes(attribute.Int64("sluice.decision.remaining", e.Decision.Remaining))
	if e.Decision.Wait != loader.Never {
		span.SetAttributes(attribute.Float64("sluice.decision.wait", e.Decision.Wait.Seconds()))
	}
}

// The outcomes of events that are no decisions: of a Budget's cost that is known now, and of a return of permits.
const (
	outcomeSettled  = "settled"
	outcomeReturned = "returned"
)

// spanName is "Allow send-code".
func spanName(e loader.Event) string { return e.Method + " " + e.Limiter }

// identity are the attributes that are known from the beginning.
func identity(e loader.Event) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 8) // with what others append
	return append(attrs, attribute.String("sluice.script.name", e.Script),
		attribute.String("sluice.decision.method", e.Method), attribute.String("sluice.limiter.name", e.Limiter))
}

// result are the attributes that are known in the end.
func result(e loader.Event) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.Bool("sluice.decision.degraded", e.Decision.Degraded),
		attribute.String("sluice.decision.outcome", outcome(e)),
	}
	if e.Decision.Ahead {
		attrs = append(attrs, attribute.Bool("sluice.decision.ahead", true))
	}
	if failed(e) {
		attrs = append(attrs, errorType(e.Err))
	}
	return attrs
}

func outcome(e loader.Event) string {
	if e.Err != nil && failed(e) {
		return "error"
	}
	switch e.Method {
	case "Settle", "Charge":
		return outcomeSettled
	case "GiveBack":
		return outcomeReturned
	}
	switch {
	case e.Permits == 0:
		return "looked"
	case !e.Decision.Granted:
		return "denied"
	}
	return "granted"
}

// sleeps reports whether the event is of a call that sleeps, and asks as often as it has to.
func sleeps(e loader.Event) bool { return e.Method == "Wait" || e.Method == "Acquire" }

// failed reports whether there was no decision, or one that its caller has not got. A wait that would take too
// long is a denial.
func failed(e loader.Event) bool {
	_, tooLong := errors.AsType[*loader.WaitError](e.Err)
	return e.Err != nil && !tooLong
}
