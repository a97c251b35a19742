package grpclimit

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

// Interceptor limits calls. New, AllOf and PerRequest make one; the zero Interceptor refuses everything. Its methods
// UnaryServer and StreamServer are interceptors for a server, UnaryClient and StreamClient for a client. It is safe for
// concurrent use, and servers and clients that have the same Interceptor share its limits.
type Interceptor struct {
	door    admit.Door[*Call, Charge]
	options options
}

// Charge is what a call costs one limiter. One limiter twice about one subject is one charge of the sum, under the
// first name.
type Charge struct {
	Limiter loader.Limiter // is asked for N permits
	N       int64          // 0 means 1
	Key     Key            // makes the subject
	Subject string         // in place of Key, if it is known already: see the function Subject

	// Name is the limit in QuotaFailure, which callers see, in printable ASCII characters. "" means the limiter's name.
	Name string

	// CountIf says whether the call counts, by the code of the result: see the option CountIf. Nil means that it always
	// does.
	CountIf func(code codes.Code) bool

	// Ban is a limiter of refusals: see the option Ban. Nil means that of the option, or none.
	Ban loader.Limiter

	// Delay is how long a call is held instead of refused: see the option Delay. 0 means that of the option, or none.
	Delay time.Duration

	// Shadow charges without refusing: see the option Shadow.
	Shadow bool

	// Err is why the limiter cannot be asked: the plan is not known, say. In shadow it is in the Decision, and the call
	// goes on; otherwise it is the error that the function of PerRequest may return.
	Err error
}

// readCharge returns a charge for the engine.
func readCharge(c Charge) admit.Keyed[*Call] {
	return admit.Keyed[*Call]{Key: c.Key.key, Charge: admit.Charge{
		Limiter: c.Limiter, Subject: c.Subject, N: c.N, Name: c.Name, CountIf: byCode(c.CountIf), Shadow: c.Shadow,
		Ban: c.Ban, Delay: c.Delay, Err: c.Err,
	}}
}

// byCode returns a condition on codes for the engine.
func byCode(count func(codes.Code) bool) func(int) bool {
	if count == nil {
		return nil
	}
	return func(code int) bool { return count(codes.Code(code)) }
}

// New returns the Interceptor of one limiter: each subject that key makes of the calls may call as often as limiter
// grants. Call Check when the program starts.
//
//	limit := grpclimit.New(limits.ListLog("api", loader.PerMinute(60)), grpclimit.KeyByIP())
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limit.UnaryServer),
//		grpc.ChainStreamInterceptor(limit.StreamServer))
func New(limiter loader.Limiter, key Key, opts ...Option) *Interceptor {
	return newInterceptor(admit.Door[*Call, Charge]{Charges: []Charge{{Limiter: limiter, Key: key}}}, opts)
}

// AllOf returns the Interceptor of several limiters, for any call the same ones: an address, an account and the whole
// service, say. A call goes on only if all of them grant, and if one denies, none is charged: see loader.All, which
// asks them in one round trip. Only limiters that can give back may be in it (ListLog, ZSetLog without WithID,
// SliceRing, Quota, and Ahead, which then asks Redis), and those in shadow. All limiters are made by limits. Without
// charges it is for the option Slots alone.
func AllOf(limits *loader.Loader, charges []Charge, opts ...Option) *Interceptor {
	return newInterceptor(admit.Door[*Call, Charge]{Limits: limits, Charges: charges}, opts)
}

// PerRequest returns the Interceptor whose charges differ from call to call: plans, costs, methods. The function
// returns the charges of a call, which are asked as in AllOf. If it returns a status (status.Error), that is
// the result of the call; after any other error, or if it returns nil, it is UNAVAILABLE: a plan that is not known is
// not unlimited. A call that is not limited has charges that are empty, but not nil.
//
// What the function returns is checked when a call comes. Check charges that are known at start with
// AllOf(limits, charges).Check().
func PerRequest(limits *loader.Loader, charges func(*Call) ([]Charge, error), opts ...Option) *Interceptor {
	door := admit.Door[*Call, Charge]{Limits: limits, Choose: charges}
	if charges == nil {
		door.Options.Err = errors.New("PerRequest: the function is nil")
	}
	return newInterceptor(door, opts)
}

func newInterceptor(door admit.Door[*Call, Charge], opts []Option) *Interceptor {
	i := &Interceptor{options: options{Options: door.Options}}
	for _, opt := range opts {
		if opt != nil {
			opt(&i.options)
		}
	}
	i.door = door
	i.door.Package, i.door.Options, i.door.Read = "grpclimit", i.options.Options, readCharge
	i.door.Init()
	return i
}

// Check returns what is wrong with the limiters, keys and options: a limiter that cannot give back where it has to,
// say. Call it once, when the program starts. Otherwise every call is refused with INTERNAL, and the default log of
// log/slog says why, once a minute for each cause. Cost: nothing is sent.
func (i *Interceptor) Check() error { return i.door.Check() }

// UnaryServer limits the unary calls of a server: see grpc.ChainUnaryInterceptor. A call that is over the limit is
// RESOURCE_EXHAUSTED, with google.rpc.RetryInfo and google.rpc.QuotaFailure, and UNAVAILABLE if Redis did not decide
// and the limiter has no policy.
//
// If a call ends while it is decided, the handler does not run, and what was charged is given back where the limiter
// can.
//
// Cost: one round trip for each call. A second one for charges in shadow beside others; for what CountIf gives back,
// one for each charge, before the call ends; for a slot, two.
func (i *Interceptor) UnaryServer(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	a := i.begin(Call{Method: info.FullMethod, Message: req, ctx: ctx})
	defer a.Release()
	if err := a.enter(true); err != nil {
		return nil, err
	}
	resp, err := handler(a.call.ctx, req)
	return resp, a.finish(err)
}

// StreamServer limits the streams of a server: see grpc.ChainStreamInterceptor. The rest is as with UnaryServer. With
// PerMessage each message is one decision.
func (i *Interceptor) StreamServer(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	a := i.begin(Call{Method: info.FullMethod, ctx: stream.Context()})
	defer a.Release()
	if err := a.enter(!i.options.perMessage); err != nil {
		return err
	}
	wrapped := &serverStream{ServerStream: stream, limited: a}
	err := handler(srv, wrapped)
	if denial := wrapped.denial.Load(); denial != nil && err == nil {
		err = *denial
	}
	return a.finish(err)
}
