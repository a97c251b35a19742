package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/loader"
)

// refusal is the status of a call that does not go on. Its cause stays in this process.
type refusal struct {
	status *status.Status
	cause  error
}

func (r *refusal) Error() string { return r.status.Err().Error() }

// GRPCStatus returns what the caller gets.
func (r *refusal) GRPCStatus() *status.Status { return r.status }

// Unwrap returns the cause.
func (r *refusal) Unwrap() error { return r.cause }

// code returns the code of a refusal; OK of nil.
func (r *refusal) code() codes.Code {
	if r == nil {
		return codes.OK
	}
	return r.status.Code()
}

// refusalOf returns the refusal of a call, nil if it goes on. Its text has nothing of Redis in it.
func refusalOf(r admission.Result) *refusal {
	refuse := func(code codes.Code, text string) *refusal { return &refusal{status.New(code, text), r.Err} }
	switch r.Outcome {
	case Allowed:
		return nil
	case Denied:
		if errors.Is(r.Err, context.DeadlineExceeded) {
			return refuse(codes.DeadlineExceeded, "the limit would be free after the deadline")
		}
		return denial(r)
	case NoKey:
		return refuse(codes.InvalidArgument, "the call has no value for the key of its limit")
	case Misconfigured:
		return refuse(codes.Internal, "the limit is not set up correctly")
	case CallerGone:
		return &refusal{status.FromContextError(cmp.Or(r.Err, context.Canceled)), r.Err}
	}
	if st, ok := status.FromError(r.Err); ok { // of PerRequest
		return &refusal{st, r.Err}
	}
	if _, lost := errors.AsType[*loader.SlotLostError](r.Err); lost {
		return refuse(codes.Aborted, "the slot of the call was lost")
	}
	return refuse(codes.Unavailable, "the limit cannot be checked now")
}

// denial is the refusal of a call over the limit, with one violation for each limiter that denied.
func denial(r admission.Result) *refusal {
	quota := &errdetails.QuotaFailure{}
	for _, d := range r.Decisions {
		if d.Denies() && !d.Shadow {
			quota.Violations = append(quota.Violations, violation(d))
		}
	}
	details, text := []protoadapt.MessageV1{quota}, "limit exceeded"
	if errors.Is(r.Err, loader.ErrExceedsLimit) {
		text = "the call costs more than its limit"
	}
	if r.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
		text += ": try again in " + r.RetryAfter.String()
	}
	st := status.New(codes.ResourceExhausted, text)
	if detailed, err := st.WithDetails(details...); err == nil {
		st = detailed
	}
	return &refusal{st, r.Err}
}

// violation says which limit was exceeded. It has no subject, because that may be personal data.
func violation(d Decision) *errdetails.QuotaFailure_Violation {
	v := &errdetails.QuotaFailure_Violation{
		Subject: "limiter:" + d.Policy, QuotaId: d.Policy, QuotaValue: d.Limit.Permits,
	}
	switch {
	case d.Limit == loader.Limit{}: // of a client that waited, or a TokenBucket whose limit is stored
	case d.Slot:
		v.Description = fmt.Sprintf("%d at once", d.Limit.Permits)
	default:
		v.Description = fmt.Sprintf("%d in %v", d.Limit.Permits, d.Limit.Window)
	}
	return v
}

// codeOf returns the code that a caller gets for a handler's error.
func codeOf(err error) codes.Code {
	if st, ok := status.FromError(err); ok {
		return st.Code()
	}
	return status.FromContextError(err).Code()
}

// slotLost is the result of a call: ABORTED if it was cancelled because it lost a slot.
func slotLost(ctx context.Context, err error) error {
	var lost *loader.SlotLostError
	if err != nil && errors.As(context.Cause(ctx), &lost) && codeOf(err) == codes.Canceled {
		return refusalOf(admission.Result{Outcome: Undecided, Err: lost})
	}
	return err
}
