package play

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/sluice-redis/sluice/internal/layout"
	"github.com/sluice-redis/sluice/internal/lua51"
)

// Stored is what is stored under the keys of a call. Times are in microseconds by the server's clock, 0 when the run
// started.
type Stored struct {
	Now  int64 `json:"now"`
	Keys []Key `json:"keys"`
}

// Key is a key with what it holds, as far as that kind of state has it.
type Key struct {
	Key     string `json:"key"`
	Type    string `json:"type"`
	Expires *int64 `json:"expires,omitempty"` // nil: never
	Text    string `json:"text"`              // a short text of the value

	Entries []Entry           `json:"entries,omitempty"` // of a log, oldest first
	Cells   *Cells            `json:"cells,omitempty"`   // of a ring
	Level   *Level            `json:"level,omitempty"`   // of a bucket
	Leases  *Leases           `json:"leases,omitempty"`  // of slots
	Value   map[string]string `json:"value,omitempty"`   // of a hash
	More    int               `json:"more,omitempty"`    // how many older entries or cells are left out
}

// Entry is a number of permits that were granted for a time.
type Entry struct {
	At      int64 `json:"at"`
	Permits int64 `json:"permits"`
}

// Cells are the slices of a ring, oldest first.
type Cells struct {
	Slice  int64   `json:"slice"`  // length of a slice
	First  int64   `json:"first"`  // start of the first one
	Counts []int64 `json:"counts"` // permits in each
}

// Level is how much of a bucket is in use.
type Level struct {
	Used     float64 `json:"used"`
	Capacity int64   `json:"capacity"`
}

// Leases are those of the slots that are held.
type Leases struct {
	Ends  []int64 `json:"ends"` // in order
	Slots int64   `json:"slots"`
}

// maxEntries is how many entries of a key are shown.
const maxEntries = 2000

// Stored returns what the keys of a lane's last call hold now.
func (r *Run) Stored(lane int) (Stored, error) {
	if lane < 0 || lane >= len(r.lanes) {
		return Stored{}, r.noLane(lane)
	}
	return r.lanes[lane].stored(), nil
}

func (r *Run) noLane(lane int) error {
	return fmt.Errorf("lane %d: want 0 to %d", lane, len(r.lanes)-1)
}

// stored reads the keys of the last call.
func (l *lane) stored() Stored {
	s := Stored{Now: l.redis.Now() - startTime, Keys: []Key{}}
	for _, key := range l.touched() {
		if k, ok := l.readKey(key); ok {
			s.Keys = append(s.Keys, k)
		}
	}
	return s
}

// touched returns the keys that the commands of the last call named.
func (l *lane) touched() (keys []string) {
	for _, command := range l.commands {
		if len(command.Args) > 1 && !slices.Contains(keys, command.Args[1]) {
			keys = append(keys, command.Args[1])
		}
	}
	return keys
}

// readKey reads a key; false if there is none.
func (l *lane) readKey(key string) (k Key, ok bool) {
	kind, err := l.redis.Do("TYPE", key)
	if err != nil || kind == lua51.Status("none") {
		return k, false
	}
	k.Key, k.Type = key, fmt.Sprint(kind)
	if ttl, _ := l.redis.Do("PTTL", key); ttl != nil {
		if ms, _ := ttl.(int64); ms >= 0 {
			expires := (l.redis.Now()/1000+ms)*1000 - startTime
			k.Expires = &expires
		}
	}
	switch k.Type {
	case "string":
		l.readString(&k)
	case "list":
		l.readList(&k)
	case "zset":
		l.readZSet(&k)
	case "hash":
		l.readHash(&k)
	}
	return k, true
}

func (l *lane) readString(k *Key) {
	text := text(l.redis.Do("GET", k.Key))
	k.Text = printable(text)
	switch l.id {
	case "gcra":
		if bucket, ok := layout.ParseBucket(text); ok {
			limit, now := l.scenario.Limits[0], l.redis.Now()
			used := float64(bucket.Backlog(now)) * float64(limit.Permits) / float64(limit.Window)
			k.Level = &Level{Used: used, Capacity: l.scenario.Burst}
		}
	case "quota":
		var begin, count int64
		if n, _ := fmt.Sscanf(text, "%d %d", &begin, &count); n == 2 {
			k.Level = &Level{Used: float64(count), Capacity: l.scenario.Limits[0].Permits}
		}
	case "slice_ring", "ahead":
		k.readRing(text, l.redis.Now())
	case "budget":
		if permits, settled, ok := layout.ParseBudget(text); ok && strings.Contains(k.Key, ":bg1:") {
			k.Text = fmt.Sprint(permits, " permits, ", map[bool]string{false: "estimated", true: "settled"}[settled])
			return
		}
		k.readRing(text, l.redis.Now())
	}
}

// readRing decodes the ring of a window: the difference of the totals of two slices is what was granted in the first.
func (k *Key) readRing(text string, now int64) {
	var slice, size int64
	window := k.Key[strings.LastIndex(k.Key, ":")+1:]
	if n, _ := fmt.Sscanf(window, "%dx%d", &slice, &size); n < 2 || slice < 1 || size < 1 {
		return
	}
	ring, err := layout.ParseRing(text, slice, size)
	if err != nil || int64(len(text)) < layout.RingHeader+layout.RingCell*size {
		return
	}
	current, last := ring.Current(now), ring.Last/slice
	shown := min(size, maxEntries)
	first := current - shown + 1
	cells := &Cells{Slice: slice, First: first*slice - startTime, Counts: make([]int64, shown)}
	after := int64(0) // permits granted behind the slice
	for s := last; s >= max(first, last-size+1); s-- {
		from := ring.Since(layout.CellTotal(text[ring.Offset(s):]))
		cells.Counts[s-first] = from - after
		after = from
	}
	k.Cells, k.More = cells, int(size-shown)
}

func (l *lane) readList(k *Key) {
	items := texts(l.redis.Do("LRANGE", k.Key, -maxEntries, -1))
	length, _ := l.redis.Do("LLEN", k.Key)
	n, _ := length.(int64)
	k.More = int(n) - len(items)
	k.Text = strconv.FormatInt(n, 10) + " entries"
	for _, item := range items {
		if grant, err := layout.ParseGrant(item); err == nil {
			k.entry(grant.At, grant.After-grant.Before)
		} else if at, err := layout.ParseTime(item); err == nil {
			k.entry(at, 1)
		}
	}
}

// readZSet takes scores for times.
func (l *lane) readZSet(k *Key) {
	if l.id == "concurrency" {
		l.readLeases(k)
		return
	}
	items := texts(l.redis.Do("ZRANGE", k.Key, -maxEntries, -1, "WITHSCORES"))
	card, _ := l.redis.Do("ZCARD", k.Key)
	n, _ := card.(int64)
	k.More = int(n) - len(items)/2
	k.Text = strconv.FormatInt(n, 10) + " members"
	for i := 1; i < len(items); i += 2 {
		if score, err := strconv.ParseFloat(items[i], 64); err == nil && score < layout.MaxTime {
			k.entry(int64(score), l.permitsIn(items[i-1]))
		}
	}
}

// readLeases reads when the live leases end.
func (l *lane) readLeases(k *Key) {
	now := l.redis.Now()
	items := texts(l.redis.Do("ZRANGEBYSCORE", k.Key, fmt.Sprint("(", now), "+inf", "WITHSCORES", "LIMIT", 0, maxEntries))
	k.Leases = &Leases{Ends: []int64{}, Slots: l.scenario.Limits[0].Permits}
	for i := 1; i < len(items); i += 2 {
		if score, err := strconv.ParseFloat(items[i], 64); err == nil {
			k.Leases.Ends = append(k.Leases.Ends, int64(score)-startTime)
		}
	}
	k.Text = strconv.Itoa(len(k.Leases.Ends)) + " leases"
}

// permitsIn returns for how many permits a member stands: s4 says it at its end.
func (l *lane) permitsIn(member string) int64 {
	if _, permits, found := strings.Cut(member, ":"); found && l.id == "s4" {
		n, _ := strconv.ParseInt(permits, 10, 64)
		return n
	}
	return 1
}

// entry adds permits of a time; those of the same time are one entry.
func (k *Key) entry(at, permits int64) {
	at -= startTime
	if n := len(k.Entries); n > 0 && k.Entries[n-1].At == at {
		k.Entries[n-1].Permits += permits
		return
	}
	k.Entries = append(k.Entries, Entry{At: at, Permits: permits})
}

func (l *lane) readHash(k *Key) {
	items := texts(l.redis.Do("HGETALL", k.Key))
	k.Value = map[string]string{}
	for i := 1; i < len(items); i += 2 {
		k.Value[items[i-1]] = printable(items[i])
	}
	k.Text = strconv.Itoa(len(k.Value)) + " fields"
	if tokens, err := strconv.ParseFloat(k.Value["tokens"], 64); err == nil && l.id == "tutorial_bucket" {
		limit := l.scenario.Limits[0].Permits
		k.Level = &Level{Used: float64(limit) - tokens, Capacity: limit}
	}
}

// text returns a bulk string, "" if it is none.
func text(reply any, _ error) string {
	text, _ := reply.(string)
	return text
}

func texts(reply any, _ error) (all []string) {
	items, _ := reply.([]any)
	for _, item := range items {
		all = append(all, text(item, nil))
	}
	return all
}

// printable returns a text as it is, or in hexadecimal digits if it has others than letters, digits and signs; cut if
// it is long.
func printable(text string) string {
	const most = 100
	shown := text[:min(len(text), most)]
	if strings.ContainsFunc(shown, func(c rune) bool { return c > unicode.MaxASCII || !unicode.IsPrint(c) }) {
		shown = fmt.Sprintf("%x", shown)
	}
	if len(text) > most {
		shown += "..."
	}
	return shown
}
