package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/loader"
)

// limitState is what is known of a limiter.
type limitState string

const (
	stateAbsent  limitState = "absent"  // nothing is stored
	stateLive    limitState = "live"    // permits are in use
	stateIdle    limitState = "idle"    // something is stored, but no permit is live
	stateConfig  limitState = "config"  // a rate; the permits are in other keys
	stateDamaged limitState = "damaged" // the scripts answer BADSTATE
	stateForeign limitState = "foreign" // the scripts answer WRONGTYPE
	stateUnknown limitState = "unknown" // the server refused what is needed to tell
)

// view is what inspect finds out about one key, as printed by --json, in microseconds and microseconds since 1970.
type view struct {
	Key     string     `json:"key"`
	Node    string     `json:"node"`
	Script  string     `json:"script"`
	Limiter string     `json:"limiter"`
	Subject string     `json:"subject"`
	Client  string     `json:"client,omitempty"`
	State   limitState `json:"state"`
	Meaning string     `json:"meaning"`
	Memory  int64      `json:"memory,omitempty"`
	TTL     int64      `json:"ttl,omitempty"` // -1: it never expires

	Now     int64           `json:"now"`
	Permits int64           `json:"permits,omitempty"` // stored
	Live    int64           `json:"live,omitempty"`    // if the window is known
	Newest  int64           `json:"newest,omitempty"`
	Full    int64           `json:"full,omitempty"`    // when a gcra is full again, or the last lease of slots ends
	Limit   int64           `json:"limit,omitempty"`   // the limit of a gcra's newest grant
	Begin   int64           `json:"begin,omitempty"`   // of a quota's period
	Written int64           `json:"written,omitempty"` // when a gcra's newest grant was written
	Window  int64           `json:"window,omitempty"`
	Config  *stored.Config  `json:"config,omitempty"`
	Ring    *stored.Ring    `json:"ring,omitempty"`
	Holders []stored.Holder `json:"holders,omitempty"` // of slots, those whose leases end first

	Left    map[string]int64  `json:"left,omitempty"`    // the script's reply to a look
	Unknown map[string]string `json:"unknown,omitempty"` // what the server refused to tell, and why
	Doubts  []string          `json:"doubts,omitempty"`  // why the limits may not be the application's

	assumed    string // the limits that were asked with, and where they come from
	fromTTL    int64  // the window of the newest permit; 0: not known
	windowFrom string
	widest     int64  // of a gcra: see stored.Bucket
	used       bool   // the limits were used
	wanted     string // the flags with which what is left would be known
	lacks      error  // what inspect could not find out
}

// read reads keys on their server.
func (f inspectFlags) read(ctx context.Context, rdb *redis.Client, keys []stored.Key) ([]view, error) {
	asked := slices.Clone(keys)
	configs := map[int]int{} // of the permits of a token_bucket: where its config is among those asked for
	for i, key := range keys {
		if config := key.Config(); config.Text != key.Text {
			configs[i] = len(asked)
			asked = append(asked, config)
		}
	}
	addr := rdb.Options().Addr
	summaries, _, err := stored.Read(ctx, rdb, asked)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", addr, err)
	}
	views := []view{}
	for i, s := range summaries[:len(keys)] {
		v := newView(s, addr)
		if at, found := configs[i]; found {
			v.Config, v.lacks = summaries[at].Config, cmp.Or(v.lacks, summaries[at].Err)
		}
		if err := f.complete(ctx, rdb, &v, s); err != nil {
			return nil, fmt.Errorf("asking %s: %w", addr, err)
		}
		views = append(views, v)
	}
	return views, nil
}

func newView(s stored.Summary, node string) view {
	script, _ := s.Key.Script()
	v := view{
		Key: s.Key.Text, Node: node, Script: fullName(script), Limiter: s.Key.Limiter, Subject: s.Key.Subject,
		Client: s.Key.Client(), Unknown: map[string]string{},
		Now: s.Now, Permits: s.Permits, Newest: s.Newest, Ring: s.Ring, Config: s.Config, lacks: s.Err,
	}
	if b := s.Bucket; b != nil {
		v.Full, v.Limit, v.Written, v.widest = b.Full, b.Limit, b.Written, b.Widest
	}
	if s.Quota != nil {
		v.Begin = s.Quota.Begin
	}
	if s.Slots != nil {
		v.Full, v.Live = s.Slots.Last, s.Slots.Live
	}
	return v
}

// complete asks for the rest. It returns errors of the connection only.
func (f inspectFlags) complete(ctx context.Context, rdb *redis.Client, v *view, s stored.Summary) error {
	if s.Err == nil && s.Exists {
		if err := f.measure(ctx, rdb, v, s); err != nil {
			return err
		}
	}
	v.State, v.Meaning = v.verdict(s)
	if v.State == stateLive || v.State == stateIdle { // of a config, the keys with the permits say what is left
		return f.look(ctx, rdb, v, s.Key)
	}
	return nil
}

// measure asks for memory and TTL, and counts the live permits if the window is known: it was given or is stored, or
// follows from the TTL, because a log expires a window after its newest permit.
func (f inspectFlags) measure(ctx context.Context, rdb *redis.Client, v *view, s stored.Summary) error {
	pipe := rdb.Pipeline()
	memory, ttl, expires := pipe.MemoryUsage(ctx, v.Key), pipe.PTTL(ctx, v.Key), pipe.PExpireTime(ctx, v.Key)
	if err := stored.Exec(ctx, pipe); err != nil {
		return err
	}
	for name, err := range map[string]error{"memory": memory.Err(), "expires": ttl.Err()} {
		if stored.IsReply(err) && !errors.Is(err, redis.Nil) {
			v.Unknown[name] = errorText(err)
		}
	}
	v.Memory, v.TTL = memory.Val(), ttl.Val().Microseconds()
	if ttl.Val() == -1 { // no duration
		v.TTL = -1
	}
	if ttl := expires.Val().Microseconds() - s.Newest; expires.Err() == nil && s.Newest > 0 && ttl > 0 {
		v.fromTTL = ttl / 1000 * 1000
	}
	switch {
	case s.Ring != nil:
		v.Window, v.windowFrom = s.Ring.Span(), fmt.Sprintf("%d slices of %s", s.Ring.Size, windowText(micros(s.Ring.Slice)))
	case s.Damage != "" || s.Bucket != nil || s.Config != nil || s.Slots != nil || s.Quota != nil:
	case v.Config != nil:
		v.Window, v.windowFrom = v.Config.Interval, "the stored interval"
	case len(f.limits) == 1 && f.limits[0].Window > 0:
		v.Window, v.windowFrom = f.limits[0].Window.Microseconds(), cmp.Or(f.from, "as given")
	case v.fromTTL > 0:
		v.Window, v.windowFrom = v.fromTTL, "from the TTL"
	}
	var err error
	switch {
	case s.Slots != nil && s.Slots.Live > 0:
		v.Holders, err = s.Holders(ctx, rdb, 20)
	case v.Window > 0:
		v.Live, err = s.Live(ctx, rdb, v.Now-v.Window)
	}
	if err != nil {
		v.lacks = err
	}
	return ctx.Err()
}

// verdict describes the state of the limiter.
func (v *view) verdict(s stored.Summary) (limitState, string) {
	switch ahead := length(v.Newest - v.Now); {
	case s.Err != nil:
		return stateUnknown, "it cannot be read: " + errorText(s.Err)
	case strings.HasPrefix(s.Damage, "WRONGTYPE"):
		return stateForeign, "not one of our limiters: the scripts answer WRONGTYPE"
	case s.Damage != "":
		return stateDamaged, "the scripts answer BADSTATE: " + s.Damage
	case errors.Is(v.lacks, stored.ErrDamaged):
		return stateDamaged, errorText(v.lacks)
	case v.lacks != nil:
		return stateUnknown, "not all of it can be read: " + errorText(v.lacks)
	case !s.Exists:
		return stateAbsent, "nothing is stored under this key"
	case s.Key.IsConfig():
		return stateConfig, "the rate; permits are stored under other keys"
	case s.Bucket != nil && v.Full <= v.Now:
		return stateIdle, "the bucket is full: all permits are free"
	case s.Bucket != nil:
		return stateLive, "all permits are free again in " + length(v.Full-v.Now) + ", if no one asks"
	case s.Slots != nil && v.Live > 0:
		return stateLive, counted(int(v.Live), "slot is held", "slots are held")
	case s.Slots != nil:
		return stateIdle, "no slots are held"
	case s.Quota != nil && v.Permits > 0:
		return stateLive, "permits of a period are in use"
	case v.Permits == 0 || v.Window > 0 && v.Live == 0:
		return stateIdle, "no permits are in use"
	case v.Newest > v.Now:
		return stateLive, "booked " + ahead + " ahead, or written by a clock that was ahead"
	case v.Window == 0:
		return stateLive, "permits are stored: --limit tells whether they still count"
	}
	return stateLive, "permits are in use"
}

// look asks the script what is left, if all its arguments are known.
func (f inspectFlags) look(ctx context.Context, rdb *redis.Client, v *view, key stored.Key) error {
	script, _ := key.Script()
	if f.script != "" && f.script != script.Name {
		v.used, v.Doubts = true, []string{"the policy file has " + f.script + ", which does not read this key"}
		return nil
	}
	if v.Ring != nil { // of the limits, that of its window
		others := func(l loader.Limit) bool { return l.Window == 0 || !v.Ring.Counts(l.Window.Microseconds()) }
		given := f.limits
		f.limits = slices.DeleteFunc(slices.Clone(given), others)
		if len(f.limits) == 0 && len(given) > 0 && f.from == "" && v.State == stateLive {
			v.Doubts = []string{"no --limit has this window, which may refuse"}
		}
	}
	keys, args := f.lookArgs(v, key)
	if args == nil {
		return nil
	}
	v.used = true
	reply, err := rdb.EvalShaRO(ctx, script.SHA1, keys, args...).Int64Slice()
	if err != nil && strings.Contains(err.Error(), "unknown command") { // before Redis 7
		reply, err = rdb.EvalSha(ctx, script.SHA1, keys, args...).Int64Slice()
	}
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		missing := err
		if reply, err = rdb.FCallRo(ctx, fullName(script)+"_look", keys, args...).Int64Slice(); isNoFunction(err) {
			err = missing
		}
	}
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT"):
		err = fmt.Errorf("what is left: %w", loader.ErrNotLoaded)
	case err == nil && len(reply) < 5:
		err = fmt.Errorf("the script replied with %d integers", len(reply))
	}
	if err != nil {
		v.Unknown["left"], v.lacks = errorText(err), err
		return ctx.Err()
	}
	f.doubt(v, key)
	v.Left = map[string]int64{"remaining": reply[1], "wait": reply[2], "reset_after": reply[3]}
	return nil
}

// isNoFunction reports whether a server has no such function, or is too old for functions.
func isNoFunction(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "Function not found") || strings.Contains(err.Error(), "unknown command") ||
		strings.HasPrefix(err.Error(), "NOPERM"))
}

// lookArgs returns KEYS and ARGV of a look, with permits 0. The limits that are not stored come from the flags; if they
// do not fit, there are no arguments, and v.wanted says what would.
func (f inspectFlags) lookArgs(v *view, key stored.Key) (keys []string, args []any) {
	keys = []string{v.Key}
	if key.Config().IsConfig() {
		return bucketArgs(v, key)
	}
	one := loader.Limit{}
	if len(f.limits) == 1 {
		one = f.limits[0]
	}
	isWindow, window := one.Window > 0, one.Window.Microseconds()
	switch key.Code {
	case "sr1":
		v.wanted = "--limit N/" + windowText(micros((v.Ring.Size-1)*v.Ring.Slice))
		if f.from != "" {
			v.wanted = "" // the file names all windows; this one is from before
		}
		if isWindow {
			args = []any{0, 0, v.Ring.Slice, v.Ring.Size, one.Permits}
		}
	case "gcra1":
		v.wanted = "--limit 10/1s --burst 20"
		if isWindow && f.burst > 0 {
			args = []any{one.Permits, window, f.burst, 0, 0}
		}
	case "cc1":
		v.wanted = "--limit 20"
		if len(f.limits) == 1 && !isWindow {
			args = []any{one.Permits, time.Second.Microseconds(), 0, ""}
		}
	case "qt1":
		v.wanted = "--limit 10000"
		if len(f.limits) == 1 && !isWindow && v.TTL > 0 { // the period ends when the key expires
			args = []any{one.Permits, 0, 0, min(v.Begin, v.Now) - 1, v.Begin, v.Now + v.TTL, v.Now + v.TTL + 1}
		}
	case "ll1", "zl1":
		v.wanted = "--limit 3/1m"
		if isWindow {
			args = []any{one.Permits, window, 0, 0}
		}
		if isWindow && key.Code == "zl1" {
			args = append(args, "")
		}
	}
	return keys, args
}

// bucketArgs are the arguments of a token_bucket. Its rate is stored; of one with a rate for each client, the client
// must be known.
func bucketArgs(v *view, key stored.Key) (keys []string, args []any) {
	if v.Config == nil || v.Config.PerClient && v.Client == "" {
		return nil, nil
	}
	config, scope := key.Config().Text, 0
	keys = []string{config, config + ":all", config + ":by:cli"}
	if v.Config.PerClient {
		keys[2], scope = v.Key, 1
	}
	return keys, []any{v.Config.Rate, v.Config.Interval, scope, 0, 0}
}

// micros is a number of microseconds.
func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// doubt says what is assumed of the limits, and how they differ from what the last grants left.
func (f inspectFlags) doubt(v *view, key stored.Key) {
	if key.Config().IsConfig() {
		return // the rate is stored
	}
	window, limit := f.limits[0].Window.Microseconds(), f.limits[0].Permits
	v.assumed = cmp.Or(f.assumed, rateList(f.limits))
	if window == 0 && f.assumed == "" { // of slots
		v.assumed = fmt.Sprint(limit)
	}
	v.assumed += ", " + cmp.Or(f.from, "as given") + ": Redis does not store it"
	switch {
	case v.Ring != nil: // its window is that of the limit
	case v.Limit > 0 && v.Limit != limit && f.from == "": // gcra; an override changes the limit too
		v.Doubts = append(v.Doubts, fmt.Sprintf("the newest grant was made under a limit of %d", v.Limit))
	case v.widest > 0 && v.widest != window:
		v.Doubts = append(v.Doubts, "the bucket counts a window of "+length(v.widest))
	case v.fromTTL > 0 && (v.fromTTL-window > 5000 || window-v.fromTTL > 5000):
		v.Doubts = append(v.Doubts, "the newest permit is kept for "+length(v.fromTTL)+", by the TTL")
	}
}
