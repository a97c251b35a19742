package stored

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/internal/layout"
)

// Summary is what the first and last entries of a limiter's state say. Times are in microseconds since 1970.
type Summary struct {
	Key    Key
	Now    int64 // the server's clock
	Exists bool

	Permits        int64 // stored permits: granted and not yet removed; of cc1 the slots that are held
	Entries        int64 // entries of the list or sorted set, slices of the ring
	Oldest, Newest int64 // times of the first and the last permit; unknown for gcra1, cc1 and qt1

	Ring   *Ring   // of sr1
	Bucket *Bucket // of gcra1
	Config *Config // of tb1 without a part
	Slots  *Slots  // of cc1
	Quota  *Quota  // of qt1

	// Damage says why a script would refuse the state; "" if it would accept it. It is the error
	// of a reply (WRONGTYPE), or what is stored and what is wanted.
	Damage string
	Err    error // the server's error reply if it says nothing about the state, such as NOPERM
}

// ErrDamaged is in the error of an entry that the scripts would refuse.
var ErrDamaged = errors.New("the scripts may answer BADSTATE")

// Live counts the stored permits that were granted after a time; of a ring, all that it covers. It reads the key in
// several steps, so the count may be wrong by what changes in between. Cost: for a list of n entries log2(n) commands.
func (s Summary) Live(ctx context.Context, rdb *redis.Client, after int64) (int64, error) {
	switch s.Key.Code {
	case "ll1":
		upTo, err := s.entriesUpTo(ctx, rdb, after, layout.ParseTime)
		return s.Permits - upTo, err
	case "zl1":
		return rdb.ZCount(ctx, s.Key.Text, "("+strconv.FormatInt(after, 10), "+inf").Result()
	case tokenBucket:
		return s.grantsSince(ctx, rdb, after)
	}
	return s.Permits, nil
}

// probe reads one key in up to two rounds of pipelined commands.
type probe interface {
	ask(ctx context.Context, pipe redis.Pipeliner, key string)

	// read takes the replies of the first round. It reports whether another round is needed.
	read(s *Summary) (more bool)
	askMore(ctx context.Context, pipe redis.Pipeliner, key string)
	readMore(s *Summary)
}

// probeOf returns the probe for a key's layout, or nil if the layout is not known.
func probeOf(key Key) probe {
	switch key.Code {
	case "ll1":
		return &listProbe{}
	case "zl1":
		return &zsetProbe{}
	case sliceRing:
		if slice, size, ok := key.Window(); ok {
			return &ringProbe{slice: slice, size: size}
		}
		return nil
	case "gcra1":
		return &stringProbe{longest: layout.LongBucket, parse: (*Summary).readBucket}
	case "cc1":
		return &slotsProbe{}
	case "qt1":
		return &stringProbe{longest: longestQuota, parse: (*Summary).readQuota}
	}
	switch {
	case key.IsConfig():
		return &configProbe{}
	case key.Code == tokenBucket:
		return &grantsProbe{}
	}
	return nil
}

// Read reads the first and last entries of keys that are all on one server. It takes two round trips and up to three
// commands for each key; each takes the server less than a microsecond (LINDEX near an end, ZRANGE of one). busy is how
// long the server took. The error is that of the connection; errors of a key are in its summary.
func Read(ctx context.Context, rdb *redis.Client, keys []Key) (summaries []Summary, busy time.Duration, err error) {
	summaries = make([]Summary, len(keys))
	probes := make([]probe, len(keys))
	pipe := rdb.Pipeline()
	clock, busy, err := Timed(ctx, pipe, func() {
		for i, key := range keys {
			probes[i] = probeOf(key)
			probes[i].ask(ctx, pipe, key.Text)
		}
	})
	if err != nil {
		return nil, busy, err
	}
	var more []int
	for i, key := range keys {
		summaries[i] = Summary{Key: key, Now: clock.Val().UnixMicro()}
		if clock.Err() != nil {
			summaries[i].Err = clock.Err()
		} else if probes[i].read(&summaries[i]) {
			more = append(more, i)
		}
	}
	if len(more) == 0 {
		return summaries, busy, nil
	}
	_, again, err := Timed(ctx, pipe, func() {
		for _, i := range more {
			probes[i].askMore(ctx, pipe, keys[i].Text)
		}
	})
	if err != nil {
		return nil, busy, err
	}
	for _, i := range more {
		probes[i].readMore(&summaries[i])
	}
	return summaries, busy + again, nil
}

// Timed sends the commands that add puts into the pipe, between two TIMEs. busy is how long the server took for them
// by its own clock, or until all were answered if it does not tell the time.
func Timed(ctx context.Context, pipe redis.Pipeliner, add func()) (clock *redis.TimeCmd, busy time.Duration, err error) {
	clock = pipe.Time(ctx)
	add()
	end := pipe.Time(ctx)
	began := time.Now()
	err = Exec(ctx, pipe)
	if err != nil || clock.Err() != nil || end.Err() != nil {
		return clock, time.Since(began), err
	}
	return clock, end.Val().Sub(clock.Val()), nil
}

// Exec sends the commands in the pipe. It does not return errors that the server replied to single commands: read them
// from the commands. It returns errors of the connection and of its handshake (WRONGPASS, no such database).
func Exec(ctx context.Context, pipe redis.Pipeliner) error {
	if pipe.Len() == 0 {
		return nil
	}
	commands, err := pipe.Exec(ctx)
	replied := func(command redis.Cmder) bool { return command.Err() != nil }
	if IsReply(err) && slices.ContainsFunc(commands, replied) {
		return nil
	}
	return err
}

// IsReply reports whether err is an error reply of a server.
func IsReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// failed records the first error reply among the commands and reports whether there is one. WRONGTYPE counts as damage,
// because the scripts answer WRONGTYPE as well.
func (s *Summary) failed(commands ...redis.Cmder) bool {
	for _, command := range commands {
		err := command.Err()
		switch {
		case err == nil, errors.Is(err, redis.Nil):
			continue
		case strings.HasPrefix(err.Error(), "WRONGTYPE"):
			s.Exists = true
			s.Damage = err.Error()
		default:
			s.Err = err
		}
		return true
	}
	return false
}

func (s *Summary) damaged(format string, args ...any) {
	s.Damage = fmt.Sprintf(format, args...)
}

// damagedEnds records what is wrong with the first or the last entry.
func (s *Summary) damagedEnds(entry string, first, last error) {
	if first != nil {
		s.damaged("the first %s %v", entry, first)
	}
	if last != nil {
		s.damaged("the last %s %v", entry, last)
	}
}

// one is a probe with one round.
type one struct{}

func (one) askMore(context.Context, redis.Pipeliner, string) {}
func (one) readMore(*Summary)                                {}
