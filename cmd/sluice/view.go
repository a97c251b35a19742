package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
)

// view is what inspect finds out about one key, as printed by --json, in microseconds and microseconds since 1970.
type view struct {
	Key     string     `json:"key"`
	Node    string     `json:"node"`
	Script  string     `json:"script"`
	Limiter string     `json:"limiter,omitempty"`
	Subject string     `json:"subject,omitempty"`
	Client  string     `json:"client,omitempty"`
	State   limitState `json:"state"`
	Meaning string     `json:"meaning"`

	LeaseAge int64 `json:"lease_age,omitempty"`

	Type     string `json:"type,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Memory   int64  `json:"memory,omitempty"`
	TTL      int64  `json:"ttl,omitempty"` // -1: it never expires

	Now     int64 `json:"now,omitempty"`
	Entries int64 `json:"entries,omitempty"`
	Permits int64 `json:"permits,omitempty"` // stored
	Oldest  int64 `json:"oldest,omitempty"`
	Newest  int64 `json:"newest,omitempty"`
	Full    int64 `json:"full,omitempty"`    // when a gcra is full again, or the last lease of slots ends
	Limit   int64 `json:"limit,omitempty"`   // the limit of a gcra's newest grant
	Written int64 `json:"written,omitempty"` // when the newest grant was written

	Window     int64           `json:"window,omitempty"`
	WindowFrom string          `json:"window_from,omitempty"`
	Live       int64           `json:"live,omitempty"` // live permits, if the window is known
	Config     *stored.Config  `json:"config,omitempty"`
	Ring       *stored.Ring    `json:"ring,omitempty"`
	History    *history        `json:"history,omitempty"`
	Holders    []stored.Holder `json:"holders,omitempty"` // of slots, those whose leases end first

	Left   map[string]int64 `json:"left,omitempty"`   // the script's reply to a look
	Wanted []string         `json:"wanted,omitempty"` // arguments missing for a look
	// The ring is longer than the windows of the look: other windows may refuse.
	WindowsMissing bool              `json:"windows_missing,omitempty"`
	Refused        map[string]string `json:"refused,omitempty"`

	key     stored.Key
	summary stored.Summary
	asked   attempt // the look
	reply   []int64
	windows []window // of the look, as given
	burst   int64    // burst of the look at a gcra

	gone bool // the server says that the key does not exist

	grantedUnder int64 // the window of the newest permit of a log, from the TTL
}

type limitState string

const (
	stateAbsent  limitState = "absent"  // nothing is stored
	stateLive    limitState = "live"    // permits are in use
	stateIdle    limitState = "idle"    // something is stored, but no permit is live
	stateConfig  limitState = "config"  // a rate; the permits are in other keys
	stateVoid    limitState = "void"    // a wrong clock wrote it: the scripts ignore it
	stateDamaged limitState = "damaged" // the scripts answer BADSTATE
	stateForeign limitState = "foreign" // the scripts answer WRONGTYPE
	stateUnknown limitState = "unknown" // the user may not read what is needed to tell
)

// refused reports whether a script would refuse what is stored.
func (v view) refused() bool { return v.State == stateDamaged || v.State == stateForeign }

// newView reads a key on its server.
func newView(ctx context.Context, node *redis.Client, key stored.Key, w words, columns int) (view, error) {
	v := view{key: key, Node: node.Options().Addr, Refused: map[string]string{}}
	if err := v.read(ctx, node, w); err != nil {
		return v, err
	}
	v.Key, v.Limiter, v.Subject = v.key.Text, v.key.Limiter, v.key.Subject
	v.Client, v.LeaseAge = v.key.Client(), v.key.LeaseAge()
	script, _ := v.key.Script()
	v.Script = fullName(script)
	expires, err := v.ask(ctx, node)
	if err != nil {
		return v, err
	}
	w, unfit := w.fitted(v.key, v.summary.Ring)
	v.windows = w.windows
	if err := v.setWindow(w, expires); err != nil {
		return v, err
	}
	s := v.summary
	v.Now, v.Entries, v.Permits, v.Oldest, v.Newest = s.Now, s.Entries, s.Permits, s.Oldest, s.Newest
	v.State, v.Meaning = v.verdict()
	if v.State == stateLive || v.State == stateIdle {
		if err := v.recall(ctx, node, columns); err != nil {
			return v, err
		}
	}
	switch v.State {
	case stateForeign, stateDamaged, stateUnknown, stateConfig:
		return v, nil
	}
	if unfit != nil {
		v.refuse("left", unfit)
		return v, nil
	}
	return v, v.look(ctx, node, w)
}

// read reads the state. For a config it reads the permits too.
func (v *view) read(ctx context.Context, node *redis.Client, w words) error {
	config := v.key.Config()
	if err := v.summarize(ctx, node, config); err != nil {
		return err
	}
	if v.summary.Err != nil && config.IsConfig() {
		v.refuse("rate", v.summary.Err)
	}
	v.Config = v.summary.Config
	if v.summary.Damage != "" {
		v.key = config
	} else if v.key.IsConfig() {
		v.key = v.permitsOf(config, w)
	}
	if v.key.Text == config.Text {
		return nil
	}
	return v.summarize(ctx, node, v.key)
}

// summarize reads one key. Its error says that this is the wrong server.
func (v *view) summarize(ctx context.Context, node *redis.Client, key stored.Key) error {
	all, err := stored.Read(ctx, node, []stored.Key{key})
	if err != nil {
		return fmt.Errorf("asking %s: %w", v.Node, err)
	}
	v.summary = all[0]
	if err := v.summary.Err; err != nil && !isRefusal(err) {
		return fmt.Errorf("reading %s on %s: %w", key.Text, v.Node, err)
	}
	return nil
}

// permitsOf returns the key of the permits of a config, or the config itself if that key is not known.
func (v *view) permitsOf(config stored.Key, w words) stored.Key {
	if v.Config == nil || !v.Config.PerClient {
		return config.With("all")
	}
	if client, given := w.take("client"); given {
		return config.With("by", client)
	}
	return config
}

// isRefusal reports whether the user may not send a command or the server does not know it.
func isRefusal(err error) bool {
	return strings.HasPrefix(err.Error(), "NOPERM") || strings.HasPrefix(err.Error(), "ERR unknown command")
}

// refuse records why a line is missing.
func (v *view) refuse(line string, err error) { v.Refused[line] = errorText(err) }

// ask asks for the key's type, encoding, memory and TTL. A user may be refused some of them, so each has its own
// command. It returns when the key expires, or 0 if that is not known.
func (v *view) ask(ctx context.Context, node *redis.Client) (expires int64, err error) {
	key := v.key.Text
	pipe := node.Pipeline()
	kind, encoding := pipe.Type(ctx, key), pipe.ObjectEncoding(ctx, key)
	memory, ttl := pipe.MemoryUsage(ctx, key), pipe.PTTL(ctx, key)
	expireTime := pipe.PExpireTime(ctx, key) // Redis 7
	exists := pipe.Exists(ctx, key, v.key.Config().Text)
	if err := stored.Exec(ctx, pipe); err != nil {
		return 0, fmt.Errorf("reading %s: %w", key, err)
	}
	for line, reply := range map[string]redis.Cmder{"type": kind, "encoding": encoding, "memory": memory, "expires": ttl} {
		err := reply.Err()
		switch {
		case err == nil, errors.Is(err, redis.Nil):
		case isRefusal(err), strings.HasPrefix(err.Error(), "ERR"):
			v.refuse(line, err)
		default:
			return 0, fmt.Errorf("reading %s: %w", key, err)
		}
	}
	if v.gone = exists.Err() == nil && exists.Val() == 0; v.gone {
		v.Refused = map[string]string{}
		return 0, nil
	}
	v.Type, v.Encoding, v.Memory = kind.Val(), encoding.Val(), memory.Val()
	v.TTL = ttl.Val().Microseconds()
	if ttl.Val() < 0 {
		v.TTL = int64(ttl.Val()) // -1 and -2 are not durations
	}
	switch {
	case expireTime.Err() == nil && expireTime.Val() > 0:
		expires = expireTime.Val().Microseconds()
	case v.TTL > 0:
		expires = v.summary.Now + v.TTL
	}
	return expires, nil
}

// setWindow finds out how long permits count. A log expires a window after its newest permit, in whole milliseconds.
func (v *view) setWindow(w words, expires int64) error {
	given, isGiven := w.take("window")
	if v.summary.HasHistory() && expires > v.summary.Newest {
		v.grantedUnder = (expires - v.summary.Newest) / 1000 * 1000
	}
	switch {
	case v.summary.Damage != "":
	case v.summary.Ring != nil:
		v.Ring = v.summary.Ring
		v.Window, v.WindowFrom = v.Ring.Slice*v.Ring.Size, "the whole ring"
	case v.Config != nil:
		v.Window, v.WindowFrom = v.Config.Interval, "the stored interval"
	case isGiven:
		us, err := microseconds("window", given)
		if err != nil {
			return err
		}
		v.Window, err = strconv.ParseInt(us, 10, 64)
		v.WindowFrom = "as given"
		return err
	case v.grantedUnder > 0:
		v.Window, v.WindowFrom = v.grantedUnder, "from the TTL"
	}
	return nil
}

// verdict describes the state of the limiter.
func (v *view) verdict() (limitState, string) {
	s := v.summary
	switch {
	case v.gone:
		return stateAbsent, "nothing is stored under this key"
	case s.Err != nil:
		return stateUnknown, "it cannot be read: " + errorText(s.Err)
	case strings.HasPrefix(s.Damage, "WRONGTYPE"):
		return stateForeign, strings.TrimSpace("not one of our limiters: the scripts answer WRONGTYPE to a " + v.Type)
	case s.Damage != "":
		return stateDamaged, "the scripts answer BADSTATE: " + s.Damage
	case !s.Exists && v.Refused["rate"] != "":
		return stateUnknown, "its config cannot be read, and clients may have their own permits"
	case !s.Exists && (v.Type == "none" || v.Type == ""):
		return stateAbsent, "nothing is stored under this key"
	case !s.Exists:
		return stateDamaged, "the scripts answer BADSTATE: it is empty"
	case v.key.IsConfig():
		return stateConfig, "each client has this rate: client=<id> shows the permits of one"
	}
	if s.Bucket != nil {
		return v.bucketVerdict()
	}
	if s.Slots != nil {
		return v.slotsVerdict()
	}
	ahead := s.Newest - s.Now
	clock := "written by a clock " + length(ahead) + " ahead: "
	far := s.Ring == nil && ahead > v.Window+clockSlack+maxBooking // a wider window may decide whether this is void
	switch {
	case far && v.Window == 0:
		return stateUnknown, clock + "add the callers' window= to see whether it counts"
	case far && v.Refused["expires"] != "":
		return stateUnknown, clock + "it may not count; the TTL would tell, but cannot be read"
	case v.isVoid(ahead):
		return stateVoid, clock + voidNote
	case s.Ring != nil && s.Permits == 0, s.Ring == nil && v.Window > 0 && s.Newest <= s.Now-v.Window:
		return stateIdle, "no permits are in use"
	case ahead > maxBooking || s.Ring != nil && ahead > 0:
		return stateLive, clock + "permits stay in use that much longer"
	case ahead > 0:
		return stateLive, "booked " + length(ahead) + " ahead: only callers that wait get permits"
	}
	if v.Window == 0 && v.TTL <= 0 {
		return stateLive, "permits are stored: add the callers' window= to see whether they still count"
	}
	return stateLive, "permits are in use"
}

const voidNote = "the next call starts with an empty limiter"

const (
	maxBooking = 60_000_000 // microseconds; how far a call may book ahead
	clockSlack = 60_000_000 // microseconds; how far a clock may be ahead, in addition to a window
)

// isVoid reports whether the scripts drop a log or a ring that was written so far ahead of the clock. For a log the
// wider window counts: the callers', or the one under which the newest permit was granted.
func (v *view) isVoid(ahead int64) bool {
	switch {
	case v.Window == 0:
		return false
	case v.Ring != nil:
		return ahead > v.Window+clockSlack
	}
	return ahead > max(v.Window, v.grantedUnder)+clockSlack+maxBooking
}

func (v *view) bucketVerdict() (limitState, string) {
	b := v.summary.Bucket
	v.Limit, v.Written = b.Limit, b.Written
	if b.Void(v.Now) {
		return stateVoid, "written by a clock " + length(b.Written-v.Now) + " ahead: " + voidNote
	}
	v.Full = b.Full
	if b.Full <= v.Now {
		return stateIdle, "the bucket is full: all permits are free"
	}
	return stateLive, "all permits are free again in " + length(b.Full-v.Now) + ", if no one asks"
}

// slotsVerdict describes the leases of a concurrency. No state of it is void.
func (v *view) slotsVerdict() (limitState, string) {
	slots := v.summary.Slots
	v.Live, v.Full = slots.Live, slots.Last
	if slots.Live == 0 {
		return stateIdle, "no slots are held"
	}
	held := counted(int(slots.Live), "slot is held", "slots are held")
	if ahead := slots.Last - v.Now; ahead > maxLease {
		held += "; a clock that was ahead has written leases of " + length(ahead) + ": sluice reset frees all"
	}
	return stateLive, held
}

const (
	maxLease   = 366 * 86_400_000_000 // microseconds; the longest ttl
	maxHolders = 20                   // that are shown
)

// readHolders reads who holds the slots whose leases end first.
func (v *view) readHolders(ctx context.Context, node *redis.Client) (err error) {
	if v.Live == 0 {
		return nil
	}
	v.Holders, err = v.summary.Holders(ctx, node, maxHolders)
	switch {
	case err == nil:
	case isRefusal(err):
		v.refuse("holders", err)
	case stored.IsReply(err), ctx.Err() != nil:
		return fmt.Errorf("reading %s: %w", v.key.Text, err)
	default:
		v.State, v.Meaning = stateDamaged, "the scripts may answer BADSTATE: a lease "+err.Error()
	}
	return nil
}

// history holds the number of permits in each column of a picture.
type history struct {
	From    int64   `json:"from"`
	Step    int64   `json:"step"`
	Permits []int64 `json:"permits"`
}

// end returns the time at which the last column ends.
func (h history) end() int64 { return h.From + h.Step*int64(len(h.Permits)) }

// recall counts the permits in each column of a picture, and the live ones.
func (v *view) recall(ctx context.Context, node *redis.Client, columns int) error {
	if v.summary.Slots != nil {
		return v.readHolders(ctx, node)
	}
	if !v.summary.HasHistory() || v.Permits == 0 {
		return nil
	}
	h := v.span(int64(columns))
	times := make([]int64, len(h.Permits)+1)
	for i := range times {
		times[i] = h.From + int64(i)*h.Step
	}
	upTo, err := v.summary.UpTo(ctx, node, times)
	switch {
	case err == nil:
	case stored.IsReply(err) && !isRefusal(err), ctx.Err() != nil:
		return fmt.Errorf("reading %s: %w", v.key.Text, err)
	case isRefusal(err):
		v.refuse("history", err)
		return nil
	default:
		v.State, v.Meaning = stateDamaged, "the scripts may answer BADSTATE: "+err.Error()
		return nil
	}
	for i := range h.Permits {
		h.Permits[i] = max(upTo[i+1]-upTo[i], 0) // negative if the key changed during the reads
	}
	if v.Window > 0 {
		v.Live = max(v.Permits-upTo[0], 0)
	}
	v.History = &h
	return nil
}

// span returns the time that a picture shows: from one window ago (or from the oldest permit, if the window is not
// known) to the last booking. Columns of a ring are whole slices.
func (v *view) span(columns int64) history {
	from, to := v.Oldest-1, max(v.Now, v.Newest)
	if v.Window > 0 {
		from = v.Now - v.Window
	}
	step := max((to-from+columns-1)/columns, 1)
	if ring := v.summary.Ring; ring != nil {
		from, to = ring.Start(v.Now), (ring.Current(v.Now)+1)*ring.Slice
		step = (ring.Size + columns - 1) / columns * ring.Slice
	}
	return history{From: from, Step: step, Permits: make([]int64, (to-from+step-1)/step)}
}

// timeText formats a time and its distance from now.
func (v view) timeText(at int64) string {
	text := time.UnixMicro(at).UTC().Format("2006-01-02 15:04:05.000 UTC")
	switch {
	case at > v.Now:
		return text + ", " + length(at-v.Now) + " from now"
	case at < v.Now:
		return text + ", " + length(v.Now-at) + " ago"
	}
	return text + ", now"
}
