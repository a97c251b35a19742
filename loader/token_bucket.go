package loader

import (
	"context"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// TokenBucket is a limiter whose rate is stored in Redis: SetRate changes it for every process at once. The limit
// given to the constructor is stored by the first grant, and used only if none is stored. A permit comes back one
// window after it was taken. (The continuously refilled token bucket is GCRA.) The limit goes up to 1000000, and so do
// the permits of one call. Reset keeps a stored limit.
//
// The zero TokenBucket is not ready for use: see Loader.TokenBucket.
//
// It has three keys. While their slot moves between two masters of a cluster, Redis may answer TRYAGAIN and run
// nothing. The loader then retries for a second, or until the deadline; that is usually enough. If the move does not
// end, the call returns an error that says so.
type TokenBucket struct{ booker }

// TokenBucket returns the limiter of this name. Use it if operators change the rate of a subject in Redis, for all
// processes at once. Call Check when the program starts. Cost: nothing is sent.
func (l *Loader) TokenBucket(name string, limit Limit, opts ...LimiterOption) TokenBucket {
	s := l.configure(&tokenBucket, name, opts)
	return TokenBucket{booker{core{settings: s}.with(limit)}}
}

// With returns a copy with another limit. Use it for subjects that have no limit stored; for the others it changes
// nothing, except that a limit of 0 denies. If plans differ from call to call, use another limiter. Cost: nothing is
// sent.
func (b TokenBucket) With(limit Limit) TokenBucket { return TokenBucket{booker{b.with(limit)}} }

// SetRate stores the subject's limit. Use it to change a subject's rate in all processes at once, without a
// deployment. It applies at once, also to what was granted within the old window, and stays until it is set again. The
// scope becomes this limiter's: see PerClient. A limit of 0 is an *ArgumentError. After a lost reply the error is an
// *OutcomeUnknownError; setting the limit again is safe. Cost: one round trip.
func (b TokenBucket) SetRate(ctx context.Context, subject string, limit Limit) error {
	key, err := b.key(subject)
	if err != nil {
		return err
	}
	if limit.Permits == 0 {
		return b.errArgument("permits", limit.Permits, "1 or more")
	}
	if err := b.checkLimit(limit); err != nil {
		return err
	}
	defer b.forgetDenials(key)
	set := b.loader.client.NewCall(&tokenBucketSetV1, key, len(tokenBucketSetV1.Reply))
	set.Args = append(set.Args, limit.Permits, limit.Window.Microseconds(), b.scope())
	_, err = b.loader.run(ctx, set, nil)
	return err
}

var tokenBucket = algorithm{
	name: "TokenBucket", largerLimiters: "; GCRA or SliceRing hold more", largerCalls: "; GCRA or SliceRing take more",
	script: &tokenBucketV1, code: codeTokenBucket, canBook: true, capacity: storedCapacity,
	setArgs: setTokenBucketArgs, permitsAt: 3, maxPermits: maxArgument(&tokenBucketV1, "permits"), moreFields: 2,
	detail: tokenBucketDetail, keys: permitKeys,
}

func setTokenBucketArgs(c core, call *wire.Call, q question) {
	call.Keys = permitKeys(c, call.Key)
	call.Args = append(call.Args,
		c.limit.Permits, c.limit.Window.Microseconds(), c.scope(), q.permits, q.maxWait.Microseconds())
}

// tokenBucketDetail adds the stored limit, which is at the end of the reply.
func tokenBucketDetail(_ core, d Decision, _ *wire.Call, reply []int64) Decision {
	d.Limit = Limit{Permits: reply[minReplyFields], Window: time.Duration(reply[minReplyFields+1]) * time.Microsecond}
	return d
}

// permitKeys returns the keys of the permits in use, without the config.
func permitKeys(c core, key string) []string {
	return []string{key + ":all", key + ":by:" + escaper.Replace(c.clientID)}
}

// scope returns 1 if each client has the rate for itself, otherwise 0.
func (s *settings) scope() int64 {
	if s.perClient {
		return 1
	}
	return 0
}

// ClientID names the client whose permits a TokenBucket counts, if each client has the rate for itself (PerClient). The
// default is a random id for each Loader.
func ClientID(id string) LimiterOption {
	return func(s *settings) {
		s.once("ClientID")
		s.requireAlgorithm("ClientID", &tokenBucket)
		s.clientID = id
		if id == "" {
			s.setErr(s.errArgument("ClientID", `""`, "at least one character"))
		}
	}
}

// PerClient gives each client of a TokenBucket the whole rate for itself. The default is that all clients share it. A
// scope that is stored in Redis takes precedence.
func PerClient() LimiterOption {
	return func(s *settings) {
		s.once("PerClient")
		s.requireAlgorithm("PerClient", &tokenBucket)
		s.perClient = true
	}
}
