package stored

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Summary is what the ends of a limiter's state say. Moments are in microseconds since 1970.
type Summary struct {
	Key    Key
	Now    int64 // the server's clock
	Exists bool

	Permits        int64 // stored: those that were granted, less those that a grant has removed since
	Entries        int64 // elements of the list or sorted set, slices of the ring
	Oldest, Newest int64 // when the first and the last of the permits were granted for; of gcra1 not known

	Ring   *Ring   // of sr1
	Bucket *Bucket // of gcra1
	Config *Config // of tb1 without a part

	// Damage says why a script would refuse the state, "" where it would not: the error
	// of a reply (WRONGTYPE), or what it holds in the place of what.
	Damage string
	Err    error // what the server answered instead, where that says nothing of the state: NOPERM
}

// probe reads one key in up to two rounds of pipelined commands.
type probe interface {
	ask(ctx context.Context, pipe redis.Pipeliner, key string)

	// read takes the replies of the first round. It reports whether it needs another.
	read(s *Summary) (more bool)
	askMore(ctx context.Context, pipe redis.Pipeliner, key string)
	readMore(s *Summary)
}

// probeOf is the one for a layout, nil for one that is not known here.
func probeOf(key Key) probe {
	switch key.Code {
	case "ll1":
		return &listProbe{}
	case "zl1":
		return &zsetProbe{}
	case sliceRing:
		return &ringProbe{}
	case "gcra1":
		return &bucketProbe{}
	}
	switch {
	case key.IsConfig():
		return &configProbe{}
	case key.Code == tokenBucket:
		return &grantsProbe{}
	}
	return nil
}

// Read reads the ends of what keys hold that are all on one server: two round trips, and up to three commands
// a key that take the server less than a microsecond each (a LINDEX near its end, a ZRANGE of one).
// An error is that of the connection; that of a key is in its summary.
func Read(ctx context.Context, rdb *redis.Client, keys []Key) ([]Summary, error) {
	summaries, probes := make([]Summary, len(keys)), make([]probe, len(keys))
	pipe := rdb.Pipeline()
	clock := pipe.Time(ctx)
	for i, key := range keys {
		probes[i] = probeOf(key)
		probes[i].ask(ctx, pipe, key.Text)
	}
	if err := Exec(ctx, pipe); err != nil {
		return nil, err
	}
	var more []int
	for i, key := range keys {
		summaries[i] = Summary{Key: key, Now: clock.Val().UnixMicro()}
		if clock.Err() != nil {
			summaries[i].Err = clock.Err()
			continue
		}
		if probes[i].read(&summaries[i]) {
			more = append(more, i)
			probes[i].askMore(ctx, pipe, key.Text)
		}
	}
	if err := Exec(ctx, pipe); err != nil {
		return nil, err
	}
	for _, i := range more {
		probes[i].readMore(&summaries[i])
	}
	return summaries, nil
}

// Exec sends what is in the pipe. The errors that a server replied to the commands are left to those who read the
// replies. One that it replied to the handshake (WRONGPASS, no such database) is in none of them, and is returned.
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

// IsReply reports whether err is what a server answered.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// failed notes the first error reply among the commands, and reports whether there is one. A value of another
// type is damage: the scripts answer WRONGTYPE as well.
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

// one is a probe of one round.
type one struct{}

func (one) askMore(context.Context, redis.Pipeliner, string) {}
func (one) readMore(*Summary)                                {}
