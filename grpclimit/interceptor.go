package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/grpc"

	"github.com/sluice-redis/sluice/loader"
)

// Interceptor limits calls. New, AllOf and PerCall make one. Its methods UnaryServer and StreamServer are interceptors
// for a server, UnaryClient and StreamClient for a client. It is safe for concurrent use, and servers and clients that
// have the same Interceptor share its limits.
type Interceptor struct {
	limits  *loader.Loader // nil: there is one limiter
	charges []Charge
	choose  func(*Call) ([]Charge, error) // PerCall; nil: charges
	options options
	err     error // what is wrong: every call is refused
}

// New returns the Interceptor of one limiter: each subject that key makes of the calls may call as often as limiter
// grants. Call Check when the program starts.
//
//	limit := grpclimit.New(limits.ListLog("api", loader.PerMinute(60)), grpclimit.KeyByIP())
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limit.UnaryServer),
//		grpc.ChainStreamInterceptor(limit.StreamServer))
func New(limiter loader.Limiter, key Key, opts ...Option) *Interceptor {
	i := newInterceptor(nil, opts)
	charge := Charge{Limiter: limiter, Key: key}
	i.charges = []Charge{charge}
	return i.finish()
}

// AllOf returns the Interceptor of several limiters, for any call the same ones: an address, an account and the whole
// service, say. A call goes on only if all of them grant, and if one denies, none is charged: see loader.All, which
// asks them in one round trip. Only limiters that can give back may be in it (ListLog, ZSetLog without WithID,
// SliceRing), and those in shadow. All limiters are made by limits. Without charges it is for the option Slots alone.
func AllOf(limits *loader.Loader, charges []Charge, opts ...Option) *Interceptor {
	i := newInterceptor(limits, opts)
	i.charges = charges
	return i.finish()
}

// PerCall returns the Interceptor whose charges differ from call to call: plans, costs, methods. The function returns
// the charges of a call, which are asked as those of AllOf are; without any the call is not limited. If it returns a
// status (status.Error), that is the result of the call, and UNAVAILABLE is after any other error.
//
// What the function returns is checked when a call comes. Check charges that are known at start with
// AllOf(limits, charges).Check().
func PerCall(limits *loader.Loader, charges func(*Call) ([]Charge, error), opts ...Option) *Interceptor {
	i := newInterceptor(limits, opts)
	if i.choose = charges; charges == nil {
		i.err = errors.New("grpclimit: PerCall: the function is nil")
	}
	return i.finish()
}

func newInterceptor(limits *loader.Loader, opts []Option) *Interceptor {
	i := &Interceptor{limits: limits}
	for _, opt := range opts {
		if opt != nil {
			opt(&i.options)
		}
	}
	return i
}

// finish applies the options to the charges, and checks all.
func (i *Interceptor) finish() *Interceptor {
	i.charges = slices.Clone(i.charges)
	for n := range i.charges {
		i.options.complete(&i.charges[n])
	}
	i.err = errors.Join(i.err, i.options.check(), i.check())
	return i
}

// check returns what is wrong with the charges and options.
func (i *Interceptor) check() error {
	one := i.choose == nil && len(i.charges) == 1
	if (i.options.limiter != nil || i.options.cost != nil) && !one {
		return errors.New("grpclimit: LimiterBy and Cost are for one limiter, PerCall is for several")
	}
	for _, c := range i.charges {
		if err := c.check(); err != nil {
			return err
		}
	}
	if err := i.checkCall(i.charges); err != nil {
		return err
	}
	return i.checkTogether()
}

// checkTogether returns why the limiters that are enforced cannot be asked together.
func (i *Interceptor) checkTogether() error {
	enforced := slices.DeleteFunc(slices.Clone(i.charges), func(c Charge) bool { return c.Shadow })
	if len(enforced) < 2 {
		return nil
	}
	all := i.limits.All()
	for n, c := range enforced {
		all.AllowN(c.Limiter, strconv.Itoa(n), c.permits()) // whether subjects are the same is not known yet
	}
	if err := all.Check(); err != nil {
		return fmt.Errorf("grpclimit: %w", err)
	}
	return nil
}

// checkCall returns what is wrong with the charges of a call, but for what limiters find themselves.
func (i *Interceptor) checkCall(charges []Charge) error {
	if len(charges) > 1 && i.limits == nil {
		return errors.New("grpclimit: the Loader is nil")
	}
	for _, c := range charges {
		if c.CountIf != nil && i.options.perMessage {
			return errors.New("grpclimit: CountIf with PerMessage: a message has no result")
		}
		if err := c.checkCall(); err != nil {
			return err
		}
	}
	return nil
}

// Check returns what is wrong with the limiters, keys and options: a limiter that cannot give back where it has to,
// say. Call it once, when the program starts. Otherwise every call is refused with INTERNAL. Cost: nothing is sent.
func (i *Interceptor) Check() error { return i.err }

// UnaryServer limits the unary calls of a server: see grpc.ChainUnaryInterceptor. A call that is over the limit is
// RESOURCE_EXHAUSTED, with google.rpc.RetryInfo and google.rpc.QuotaFailure, and UNAVAILABLE if Redis did not decide
// and the limiter has no policy.
//
// If a call ends while it is decided, the handler does not run. What several limiters charged is given back; a single
// limiter may stay charged.
//
// Cost: one round trip for each call. A second one for charges in shadow beside others; for what CountIf gives back,
// one for each charge, before the call ends; for a slot, two.
func (i *Interceptor) UnaryServer(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	a := i.admission(Call{Method: info.FullMethod, Message: req, ctx: ctx})
	defer a.release()
	if err := a.admit(true); err != nil {
		return nil, err
	}
	resp, err := handler(a.call.ctx, req)
	return resp, a.settle(err)
}

// StreamServer limits the streams of a server: see grpc.ChainStreamInterceptor. The rest is as with UnaryServer. With
// PerMessage each message is one decision.
func (i *Interceptor) StreamServer(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	a := i.admission(Call{Method: info.FullMethod, ctx: stream.Context()})
	defer a.release()
	if err := a.admit(!i.options.perMessage); err != nil {
		return err
	}
	limited := &serverStream{ServerStream: stream, admission: a}
	err := handler(srv, limited)
	if denial := limited.denial.Load(); denial != nil && err == nil {
		err = *denial
	}
	return a.settle(err)
}
