package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
	"github.com/sluice-redis/sluice/policy/envoyfile"
)

// limitKey names a limit of the files: its domain, or the name of its policy file, and its name in the file.
type limitKey struct{ domain, name string }

// limitCounts is how many calls a limit was about, and how many it granted with less than a fifth left.
type limitCounts struct{ calls, near atomic.Int64 }

// nearShare is the share of a limit from which it is near.
const nearShare = 0.8

// limitInForce is a limit that is applied.
type limitInForce struct {
	counts      *limitCounts
	rates, mode string
}

// instrumentsOfLimits makes the metrics of the limits that are applied. Their labels are from the files alone.
func (m *metrics) instrumentsOfLimits(meter metric.Meter) error {
	info, err := meter.Int64ObservableGauge("sluiced.limit.info",
		metric.WithDescription("The limits that are applied, with their rates and mode as labels."))
	if err != nil {
		return err
	}
	calls, err := meter.Int64ObservableCounter("sluiced.limit.calls",
		metric.WithDescription("Calls that a limit was about."))
	if err != nil {
		return err
	}
	near, err := meter.Int64ObservableCounter("sluiced.near.limit",
		metric.WithDescription("Calls that were granted and left less than a fifth of the limit."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for key, limit := range *m.limits.Load() {
			names := []attribute.KeyValue{attribute.String("domain", key.domain), attribute.String("limit", key.name)}
			o.ObserveInt64(calls, limit.counts.calls.Load(), metric.WithAttributes(names...))
			o.ObserveInt64(near, limit.counts.near.Load(), metric.WithAttributes(names...))
			o.ObserveInt64(info, 1, metric.WithAttributes(append(names, attribute.String("rates", limit.rates),
				attribute.String("mode", limit.mode))...))
		}
		return nil
	}, info, calls, near)
	return err
}

// apply notes which limits are applied. Those that were there go on counting.
func (m *metrics) apply(read files) {
	old, next := *m.limits.Load(), map[limitKey]limitInForce{}
	add := func(key limitKey, rates string, mode policy.Mode) {
		counts := cmp.Or(old[key].counts, &limitCounts{})
		next[key] = limitInForce{counts, rates, string(mode)}
	}
	for _, file := range read.envoy {
		for _, rule := range file.Rules {
			mode := policy.Enforce
			if rule.Shadow {
				mode = policy.Shadow
			}
			if !rule.Unlimited {
				add(limitKey{file.Domain, nameOfRule(rule)}, fmt.Sprintf("%d/%v", rule.Requests, rule.Unit), mode)
			}
		}
	}
	for name, file := range read.policies {
		for _, p := range file.Policies {
			plans := []string{ratesOf(p, "", p.Rates)}
			for _, plan := range p.Plans {
				if len(plan.Rates) > 0 {
					plans = append(plans, ratesOf(p, plan.Name, plan.Rates))
				}
			}
			add(limitKey{name, p.Name}, strings.TrimSpace(strings.Join(plans, " ")), p.Mode)
		}
	}
	m.limits.Store(&next)
}

// nameOfRule is the label of a rule without a value of a request.
func nameOfRule(rule *envoyfile.Rule) string { return cmp.Or(rule.Name, strings.Join(rule.Path, ".")) }

// ratesOf is the rates of a plan as a file may have them.
func ratesOf(p *policy.Policy, plan string, rates []loader.Limit) string {
	text := strings.ReplaceAll(p.Show(rates), " ", "")
	if plan != "" {
		text = plan + ":" + text
	}
	return text
}
