package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
)

// view prints what is known about a key, one line for each fact.
func (s screen) view(v view) {
	s.printf("%s\n", s.paint(bold, v.Key))
	line := func(name string, text any) {
		if fmt.Sprint(text) != "" {
			s.printf("  %-11s%v\n", name, text)
		}
	}
	line("state", s.paint(v.State.style(), string(v.State)+": "+v.Meaning))
	line("script", v.Script)
	line("limiter", v.Limiter)
	line("subject", v.Subject)
	line("client", v.Client)
	line("node", v.Node)
	if v.Config != nil {
		line("rate", configText(*v.Config))
	}
	if v.Window > 0 {
		line("window", length(v.Window)+", "+v.windowFrom)
	}
	line("permits", v.permitsText())
	if v.Limit > 0 {
		line("limit", fmt.Sprintf("%d, as of the newest grant", v.Limit))
	}
	v.times(line)
	for _, holder := range v.Holders {
		line("holder", holder.ID+", for "+length(holder.Ends-v.Now))
	}
	if more := v.Live - int64(len(v.Holders)); more > 0 && len(v.Holders) > 0 {
		line("", fmt.Sprintf("and %d whose leases end later", more))
	}
	for _, name := range []string{"memory", "expires", "left"} {
		if why, found := v.Unknown[name]; found {
			line(name, s.paint(yellow, "not known: "+why))
		}
	}
	s.left(v, line)
	if v.State == stateDamaged || v.State == stateForeign {
		s.printf("cure: find out what the key is for; UNLINK removes it with the permits in use\n")
	}
}

func (state limitState) style() style {
	switch state {
	case stateAbsent, stateIdle:
		return green
	case stateLive:
		return bold
	case stateUnknown, stateConfig:
		return yellow
	}
	return red
}

func (v view) permitsText() string {
	switch {
	case v.State != stateLive && v.State != stateIdle || v.Permits == 0 || v.Full > 0:
		return ""
	case v.Window > 0:
		return fmt.Sprintf("%d live, of %d stored", v.Live, v.Permits)
	}
	return fmt.Sprintf("%d stored", v.Permits)
}

// times prints when permits were granted and when the key expires.
func (v view) times(line func(name string, text any)) {
	at := func(name string, us int64) {
		if us > 0 && v.State != stateDamaged && v.State != stateForeign {
			text := time.UnixMicro(us).UTC().Format("2006-01-02 15:04:05.000 UTC")
			if us > v.Now {
				line(name, text+", "+length(us-v.Now)+" from now")
			} else {
				line(name, text+", "+length(v.Now-us)+" ago")
			}
		}
	}
	at("begin", v.Begin)
	at("written", v.Written)
	at("newest", v.Newest)
	if v.Memory > 0 {
		line("memory", fmt.Sprintf("%d bytes", v.Memory))
	}
	switch {
	case v.TTL > 0:
		line("expires", length(v.TTL)+" from now")
	case v.TTL == -1:
		line("expires", "never")
	}
}

// left prints the script's reply to a look.
func (s screen) left(v view, line func(name string, text any)) {
	for _, why := range v.Doubts {
		line("doubt", s.paint(yellow, why))
	}
	if v.Left == nil {
		if v.wanted != "" && v.Unknown["left"] == "" && v.State == stateLive {
			line("left", "not known: the limit is in the application; add it, as "+v.wanted)
		}
		return
	}
	what := "permit"
	if v.Ring != nil {
		what = "permit in this window"
	}
	if v.Holders != nil || strings.HasPrefix(v.Script, "concurrency") {
		what = "slot"
	}
	line("limit", v.assumed)
	verdict, as := "a "+what+" is granted now", green
	if wait := v.Left["wait"]; wait > 0 {
		verdict, as = fmt.Sprintf("refused: the next %s comes free %s from now (%s UTC)", what, length(wait),
			time.UnixMicro(v.Now+wait).UTC().Format(time.TimeOnly)), red
	}
	if v.Doubts != nil {
		verdict, as = "not known; if this is the limit, "+verdict, yellow
	}
	line("now", s.paint(as, verdict))
	line("remaining", v.Left["remaining"])
	if reset := v.Left["reset_after"]; reset > 0 {
		line("full again", length(reset)+" from now, if no one asks")
	}
}

// configText describes the config of a token_bucket.
func configText(c stored.Config) string {
	scope := "all clients together"
	if c.PerClient {
		scope = "each client by itself"
	}
	return fmt.Sprintf("%d in %s, %s", c.Rate, length(c.Interval), scope)
}
