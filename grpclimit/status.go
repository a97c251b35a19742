package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-redis/sluice/loader"
)

// refusal is the status of a call that does not go on. Its cause stays in this process.
type refusal struct {
	outcome Outcome
	status  *status.Status
	cause   error
}

func refuse(outcome Outcome, code codes.Code, text string, cause error) *refusal {
	return &refusal{outcome: outcome, status: status.New(code, text), cause: cause}
}

func (r *refusal) Error() string { return r.status.Err().Error() }

// GRPCStatus returns what the caller gets.
func (r *refusal) GRPCStatus() *status.Status { return r.status }

// Unwrap returns the cause.
func (r *refusal) Unwrap() error { return r.cause }

// denial is the refusal of a call over the limit, with one violation for each limiter that denied. retry is when it may
// come again; Never: not at all.
func denial(denied []Decision, retry time.Duration, cause error) *refusal {
	quota := &errdetails.QuotaFailure{}
	for _, d := range denied {
		quota.Violations = append(quota.Violations, violation(d))
	}
	details, text := []protoadapt.MessageV1{quota}, "limit exceeded"
	if errors.Is(cause, loader.ErrExceedsLimit) {
		text = "the call costs more than its limit"
	}
	if retry < loader.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
		text += ": try again in " + retry.String()
	}
	r := refuse(Denied, codes.ResourceExhausted, text, cause)
	if detailed, err := r.status.WithDetails(details...); err == nil {
		r.status = detailed
	}
	return r
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

// failure is the refusal of a call that nobody decided. Its text has nothing of Redis in it.
func failure(ctx context.Context, err error) *refusal {
	var argument *loader.ArgumentError
	var known *refusal
	switch {
	case errors.As(err, &known):
		return known
	case ctx.Err() != nil:
		return &refusal{CallerGone, status.FromContextError(ctx.Err()), err}
	case errors.As(err, &argument), errors.Is(err, errors.ErrUnsupported):
		return misconfigured(err)
	}
	return refuse(Undecided, codes.Unavailable, "the limit cannot be checked now", err)
}

func misconfigured(err error) *refusal {
	return refuse(Misconfigured, codes.Internal, "the limit is not set up correctly", err)
}

// chooseFailure is the refusal of a call whose charges are not known.
func chooseFailure(ctx context.Context, err error) *refusal {
	if st, ok := status.FromError(err); ok {
		return &refusal{Undecided, st, err}
	}
	return failure(ctx, err)
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
		return refuse(Undecided, codes.Aborted, "the slot of the call was lost", lost)
	}
	return err
}
