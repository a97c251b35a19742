package loader

import (
	"context"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader/bindings"
)

// TokenBucket is a log of permits that come back one window after they were taken, whose rate is kept in
// Redis: the limit given here is stored by the first grant and used only where none is stored, and
// SetLimit changes it for every process at once. The continuously refilled bucket is GCRA. The limit
// goes up to 1000000, and so do the permits of one call. The zero TokenBucket is not ready for use: see
// Loader.TokenBucket.
//
// Its keys are three. While their slot of a cluster moves from one master to another Redis answers TRYAGAIN, and
// runs nothing. The loader then asks again for a second, or until the deadline, which a slot seldom takes; one that
// stays half moved is an error that says so, until someone ends the move.
type TokenBucket struct{ booker }

// TokenBucket returns the limiter of this name. Use it where an operator changes the rate in Redis, for a subject in
// all processes. PerClient and ClientID are options of this limiter only. Cost: nothing is sent.
// Call Check where the program starts.
func (l *Loader) TokenBucket(name string, limit Limit, opts ...LimiterOption) TokenBucket {
	s := l.configure(&tokenBucket, name, opts)
	return TokenBucket{booker{core{settings: s}.with(limit)}}
}

// With returns the limiter with another limit. Use it for subjects that have no limit stored; for those that have one
// it changes nothing. Where plans differ from call to call another limiter serves better. A limit of 0 denies all the
// same. Cost: nothing is sent, it is a copy.
func (b TokenBucket) With(limit Limit) TokenBucket { return TokenBucket{booker{b.with(limit)}} }

// SetLimit stores the subject's limit. Use it to change a subject's rate in all processes, without a deployment. It
// applies at once to what has been granted before, and stays until it is set again. The scope becomes this limiter's:
// see PerClient. A limit of 0 is an *ArgumentError. A lost reply is an *OutcomeUnknownError: setting it again does no
// harm. Cost: one round trip.
func (b TokenBucket) SetLimit(ctx context.Context, subject string, limit Limit) error {
	key, err := b.key(subject)
	if err != nil {
		return err
	}
	if limit.Permits == 0 {
		return b.refuse("permits", limit.Permits, "1 or more")
	}
	if err := b.check(limit); err != nil {
		return err
	}
	defer b.denials.forget(key)
	_, err = bindings.TokenBucketSetV1(ctx, b.limits, bindings.TokenBucketSetV1Args{
		Config: key, Rate: limit.Permits, Interval: limit.Window, Scope: b.scope(),
	})
	return err
}

var tokenBucket = kind{
	name: "TokenBucket", more: "; GCRA or SliceRing hold more", atOnce: "; GCRA or SliceRing take more",
	script: &sluice.TokenBucketV1, code: codeTokenBucket, books: true, capacity: unbounded, words: tokenBucketWords,
	moreFields: 2, detail: tokenBucketDetail, keys: permitKeys,
}

func tokenBucketWords(c core, key string, q question) []any {
	return bindings.TokenBucketV1Args{
		Config: key, All: key + ":all", ByClient: key + ":by:" + escape(c.clientID),
		Rate: c.limit.Permits, Interval: c.limit.Window, Scope: c.scope(),
		Permits: q.permits, MaxWait: q.maxWait,
	}.Words()
}

// tokenBucketDetail adds the limit that is stored, which the reply ends with.
func tokenBucketDetail(_ core, d Decision, reply []int64) Decision {
	d.Limit = Limit{Permits: reply[basicFields], Window: time.Duration(reply[basicFields+1]) * time.Microsecond}
	return d
}

// permitKeys are the keys of the permits in use, without the config.
func permitKeys(s *settings, key string) []string {
	return []string{key + ":all", key + ":by:" + escape(s.clientID)}
}

// scope is 1 where each client has the rate to itself.
func (s *settings) scope() int64 {
	if s.perClient {
		return 1
	}
	return 0
}
