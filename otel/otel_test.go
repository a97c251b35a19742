package sluiceotel_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
	sluiceotel "github.com/sluice-redis/sluice/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

var background = context.Background()

// lab is an observer whose metrics and spans can be read.
type lab struct {
	*sluiceotel.Observer
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
}

func newLab(t *testing.T) lab {
	t.Helper()
	l := lab{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	observer, err := sluiceotel.New(
		sluiceotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(l.reader))),
		sluiceotel.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(l.spans))),
	)
	if err != nil {
		t.Fatal(err)
	}
	l.Observer = observer
	return l
}

// limits are those of a new fake server.
func (l lab) limits(t *testing.T) *loader.Loader {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	limits := loader.New(rdb, loader.Observe(l))
	if err := limits.Preload(background); err != nil {
		t.Fatal(err)
	}
	return limits
}

// told is one event, from beginning to end.
func (l lab) told(e loader.Event) {
	l.End(l.Begin(background, e), e)
}

// metrics are those of the observer, by name.
func (l lab) metrics(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := l.reader.Collect(background, &all); err != nil {
		t.Fatal(err)
	}
	byName := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// counts are the decisions, by attributes as text.
func (l lab) counts(t *testing.T) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	for _, point := range l.metrics(t)["sluice.decisions"].Data.(metricdata.Sum[int64]).DataPoints {
		counts[text(point.Attributes)] = point.Value
	}
	return counts
}

func text(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

// attributes are those of a span, by key.
func attributes(span sdktrace.ReadOnlySpan) map[string]any {
	byKey := map[string]any{}
	for _, a := range span.Attributes() {
		byKey[string(a.Key)] = a.Value.AsInterface()
	}
	return byKey
}

func TestCounts(t *testing.T) {
	l := newLab(t)
	limits := l.limits(t)
	codes := limits.ListLog("send-code", loader.PerMinute(1))
	var granted loader.Decision
	for _, subject := range []string{"ada", "ada", "bob"} {
		granted, _ = codes.Allow(background, subject)
	}
	_, _ = codes.Peek(background, "ada")
	_, _ = codes.AllowN(background, "ada", 2)
	soon, cancel := context.WithTimeout(background, 10*time.Second)
	defer cancel()
	_ = codes.Wait(soon, "ada") // a denial: it would take too long
	batch := limits.Batch()
	batch.Allow(codes, "eve")
	_, _ = batch.Do(background)
	tokens := limits.Budget("tokens", []loader.Limit{loader.PerMinute(9)})
	_, _ = tokens.Reserve(background, "ada", "id", 5)
	_ = tokens.Settle(background, "ada", "id", 0)
	_ = tokens.Settle(background, "ada", "no id", 5)

	l.told(loader.Event{Method: "Allow", Script: "list_log_v1", Limiter: "send-code", Permits: 1,
		Decision: loader.Decision{Granted: true, Ahead: true}})
	if returned, err := codes.GiveBack(background, "bob", granted, 1); returned != 1 || err != nil {
		t.Fatal(returned, err)
	}
	returned := "sluice.decision.degraded=false,sluice.decision.method=GiveBack,sluice.decision.outcome=returned" +
		",sluice.limiter.name=send-code,sluice.script.name=list_log_return_v1"

	of := func(method, outcome string) string {
		return "sluice.decision.degraded=false,sluice.decision.method=" + method + ",sluice.decision.outcome=" + outcome +
			",sluice.limiter.name=send-code,sluice.script.name=list_log_v1"
	}
	ofBudget := func(method, outcome, script string) string {
		return strings.NewReplacer("send-code", "tokens", "list_log_v1", script).Replace(of(method, outcome))
	}
	want := map[string]int64{
		ofBudget("Reserve", "granted", "budget_v1"):                                  1,
		ofBudget("Settle", "settled", "budget_settle_v1"):                            1,
		"error.type=not_reserved," + ofBudget("Settle", "error", "budget_settle_v1"): 1,
		of("Allow", "granted"):                                                       3,
		"sluice.decision.ahead=true," + of("Allow", "granted"):                       1,
		returned:              1,
		of("Allow", "denied"): 1,
		of("Peek", "looked"):  1,
		of("Wait", "denied"):  1,
		"error.type=exceeds_limit," + of("Allow", "error"): 1,
	}
	if diff := cmp.Diff(want, l.counts(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInstruments(t *testing.T) {
	l := newLab(t)
	l.told(loader.Event{Method: "Wait", Permits: 1, Latency: 2 * time.Millisecond, Slept: 40 * time.Second})
	l.told(loader.Event{Method: "Acquire", Permits: 1, Slept: 2 * time.Second})
	l.told(loader.Event{Method: "Allow", Permits: 1, Latency: 3 * time.Second})
	l.told(loader.Event{Method: "Report", Permits: 3, Reported: 3, ReportAge: 2 * time.Second, ReportOver: 4})
	type instrument struct {
		Unit   string
		Count  uint64
		Sum    float64
		Bounds []float64
	}
	got := map[string]instrument{}
	for name, m := range l.metrics(t) {
		i := instrument{Unit: m.Unit}
		if data, ok := m.Data.(metricdata.Histogram[float64]); ok {
			for _, point := range data.DataPoints {
				i.Count, i.Sum, i.Bounds = i.Count+point.Count, i.Sum+point.Sum, point.Bounds
			}
		}
		if data, ok := m.Data.(metricdata.Histogram[int64]); ok {
			i.Count, i.Sum, i.Bounds = data.DataPoints[0].Count, float64(data.DataPoints[0].Sum), data.DataPoints[0].Bounds
		}
		if data, ok := m.Data.(metricdata.Sum[int64]); ok && name == "sluice.report.permits" {
			i.Sum = float64(data.DataPoints[0].Value)
		}
		if m.Description == "" {
			t.Errorf("%s has no description", name)
		}
		got[name] = i
	}
	want := map[string]instrument{
		"sluice.decisions":         {Unit: "{decision}"},
		"sluice.report.permits":    {Unit: "{permit}", Sum: 3},
		"sluice.report.age":        {"s", 1, 2, []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}},
		"sluice.report.over":       {"{permit}", 1, 4, []float64{0, 1, 3, 10, 30, 100, 300, 1000, 10000}},
		"sluice.decision.duration": {"s", 4, 3.002, []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}},
		"sluice.wait.duration": {
			"s", 2, 42, []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSpans(t *testing.T) {
	l := newLab(t)
	limits := l.limits(t)
	parent, root := sdktrace.NewTracerProvider().Tracer("caller").Start(background, "request")
	if err := limits.ListLog("send-code", loader.PerMinute(3)).Wait(parent, "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := limits.ListLog("send-code", loader.PerMinute(3)).AllowN(parent, "ada", 2); err != nil {
		t.Fatal(err)
	}
	spans := l.spans.Ended()
	if len(spans) != 2 {
		t.Fatalf("%d spans, want 2", len(spans))
	}
	wait := map[string]any{
		"sluice.limiter.name": "send-code", "sluice.script.name": "list_log_v1", "sluice.decision.method": "Wait",
		"sluice.decision.permits": int64(1), "sluice.decision.attempts": int64(1), "sluice.script.loaded": false,
		"sluice.decision.outcome": "granted", "sluice.decision.degraded": false,
		"sluice.decision.remaining": int64(2), "sluice.decision.wait": 0.0,
	}
	allow := map[string]any{
		"sluice.limiter.name": "send-code", "sluice.script.name": "list_log_v1", "sluice.decision.method": "Allow",
		"sluice.decision.permits": int64(2), "sluice.decision.attempts": int64(1), "sluice.script.loaded": false,
		"sluice.decision.outcome": "granted", "sluice.decision.degraded": false,
		"sluice.decision.remaining": int64(0), "sluice.decision.wait": 0.0,
		"db.system.name": "redis", "db.operation.name": "EVALSHA", "db.stored_procedure.name": "list_log_v1",
	}
	for i, want := range []struct {
		name  string
		kind  trace.SpanKind
		attrs map[string]any
	}{{"Wait send-code", trace.SpanKindInternal, wait}, {"Allow send-code", trace.SpanKindClient, allow}} {
		span := spans[i]
		if span.Name() != want.name || span.SpanKind() != want.kind || span.Status().Code != codes.Unset {
			t.Errorf("%s, %v, %v", span.Name(), span.SpanKind(), span.Status())
		}
		if span.Parent().SpanID() != root.SpanContext().SpanID() {
			t.Errorf("%s is not below its caller's span", span.Name())
		}
		if diff := cmp.Diff(want.attrs, attributes(span)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", span.Name(), diff)
		}
	}
}

// TestNil wants nil to stand for what there is without an option.
func TestNil(t *testing.T) {
	if _, err := sluiceotel.New(nil, sluiceotel.WithMeterProvider(nil), sluiceotel.WithTracerProvider(nil)); err != nil {
		t.Error(err)
	}
}

// TestSpanOfAcquire wants the span of what sleeps, and asks as often as it has to.
func TestSpanOfAcquire(t *testing.T) {
	l := newLab(t)
	l.told(loader.Event{Method: "Acquire", Script: "concurrency_v1", Permits: 1})
	if span := l.spans.Ended()[0]; span.SpanKind() != trace.SpanKindInternal || attributes(span)["db.system.name"] != nil {
		t.Error(span.SpanKind(), attributes(span))
	}
}

func TestSpanOfNever(t *testing.T) {
	l := newLab(t)
	_, _ = l.limits(t).GCRA("none", loader.Limit{}).Allow(background, "ada")
	attrs := attributes(l.spans.Ended()[0])
	if _, ok := attrs["sluice.decision.wait"]; ok || attrs["sluice.decision.attempts"] != int64(0) {
		t.Error(attrs)
	}
}

func TestErrors(t *testing.T) {
	tests := []struct {
		err      error
		attempts int
		want     string
		status   any // db.response.status_code, nil where Redis answered no error
	}{
		{&loader.StateError{Code: "WRONGTYPE", Text: "log", Keys: []string{"ada"}}, 1, "WRONGTYPE", "WRONGTYPE"},
		{&loader.ArgumentError{Argument: "limit", Want: "1"}, 0, "invalid_argument", nil},
		{&loader.ArgumentError{Argument: "limit", Want: "1"}, 1, "invalid_argument", "BADARG"},
		{&loader.ArgumentError{Argument: "permits", Want: "up to 3"}, 1, "exceeds_limit", "BADARG"},
		{fmt.Errorf("loader: gcra_v1: %w: %w", loader.ErrNotLoaded, answer("NOSCRIPT no")), 1, "not_loaded", "NOSCRIPT"},
		{fmt.Errorf("loader: gcra_v1: %w", loader.ErrBreakerOpen), 0, "breaker_open", nil},
		{&loader.OutcomeUnknownError{Err: context.DeadlineExceeded}, 1, "outcome_unknown", nil},
		{fmt.Errorf("loader: gcra_v1: %w", context.DeadlineExceeded), 1, "timeout", nil},
		{context.Canceled, 0, "canceled", nil},
		{fmt.Errorf("loader: gcra_v1: %w", answer("OOM command not allowed")), 1, "OOM", "OOM"},
		{fmt.Errorf("loader: gcra_v1: %w", &net.OpError{Op: "dial", Err: io.EOF}), 1, "*net.OpError", nil},
	}
	for _, test := range tests {
		l := newLab(t)
		l.told(loader.Event{Method: "Allow", Permits: 1, Err: test.err, Subject: "ada", Attempts: test.attempts})
		span := l.spans.Ended()[0]
		if span.Status().Code != codes.Error || span.Status().Description == "" ||
			strings.Contains(span.Status().Description, "ada") {
			t.Errorf("%v: status %+v", test.err, span.Status())
		}
		attrs := attributes(span)
		if attrs["error.type"] != test.want || attrs["sluice.decision.outcome"] != "error" {
			t.Errorf("%v: %v, want error.type %s", test.err, attrs, test.want)
		}
		if got := attrs["db.response.status_code"]; got != test.status {
			t.Errorf("%v: db.response.status_code %v, want %v", test.err, got, test.status)
		}
		if _, ok := attrs["sluice.decision.remaining"]; ok {
			t.Errorf("%v: a decision in %v", test.err, attrs)
		}
	}
}

// answer is an error that Redis answered.
type answer string

func (a answer) Error() string { return string(a) }
func (a answer) RedisError()   {}

// TestOutcomes has a wait that would take too long, which is a denial, and a grant of a policy.
func TestOutcomes(t *testing.T) {
	for want, e := range map[string]loader.Event{
		"denied":  {Method: "Wait", Permits: 1, Err: &loader.WaitError{}},
		"granted": {Method: "Allow", Permits: 1, Decision: loader.Decision{Granted: true, Degraded: true}},
	} {
		l := newLab(t)
		l.told(e)
		span := l.spans.Ended()[0]
		attrs := attributes(span)
		if span.Status().Code != codes.Unset || attrs["sluice.decision.outcome"] != want ||
			attrs["sluice.decision.degraded"] != e.Decision.Degraded {
			t.Error(span.Status(), attrs)
		}
	}
}

// TestNoPersonalData looks for the subject in all that leaves the process.
func TestNoPersonalData(t *testing.T) {
	l := newLab(t)
	limits := l.limits(t)
	const subject = "ada@example.com"
	log := limits.ZSetLog("x", loader.PerMinute(1))
	_, _ = log.WithID(subject).Allow(background, subject)
	_, _ = log.WithID(subject).AllowN(background, subject, 2)
	l.told(loader.Event{Subject: subject, Permits: 1, Err: &loader.StateError{Keys: []string{subject}}})
	for counted := range l.counts(t) {
		if strings.Contains(counted, subject) {
			t.Error(counted)
		}
	}
	for _, span := range l.spans.Ended() {
		if all := fmt.Sprint(span.Name(), span.Attributes(), span.Status()); strings.Contains(all, subject) {
			t.Error(all)
		}
	}
}
