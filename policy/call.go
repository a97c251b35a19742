package policy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// Limited is a match with the limiter of its plan, which decides it.
type Limited struct {
	Match   Match
	Limiter loader.Limiter
	Ban     loader.Limiter // of refusals: see httplimit.Ban; nil if the policy has none

	err error // why a policy in shadow could not be applied: then it has no Limiter
}

// Find returns the policies that match, in the file's order. Use it to ask their limiters together with others, as a
// service does that has more than one file; Decide asks them by itself. Its error joins an *AttributeError for each
// policy that is enforced and could not be applied. Cost: a microsecond for each expression, nothing is sent.
func (p *Policies) Find(a Attributes) ([]Limited, error) {
	found, err := p.find(p.current.Load(), a)
	applied := found[:0]
	for _, l := range found {
		if l.err == nil {
			applied = append(applied, l)
		}
	}
	return applied, err
}

// Charges returns what a request costs by the policies that match, for httplimit.PerRequest: to charge it together with
// other limiters, all or none. Most callers should use Middleware. The values are what the application knows of the
// request, as there. Its error is Find's. Tell the observers by Observed. Cost: as Find.
func (p *Policies) Charges(r *http.Request, values map[string]string) ([]httplimit.Charge, error) {
	s := p.current.Load() // for the whole request, also if the file changes meanwhile
	a := s.attributes(r)
	a.Values = values
	found, err := p.find(s, a)
	charges := make([]httplimit.Charge, len(found))
	for i, l := range found {
		m := &l.Match
		charges[i] = httplimit.Charge{Limiter: l.Limiter, N: m.Cost, Subject: m.Subject, Name: m.Policy.Name,
			Shadow: m.Policy.Mode == Shadow, Ban: l.Ban,
			Delay: m.Policy.Delay, Err: l.err}
		if m.Policy.count != nil && l.err == nil {
			charges[i].CountIf = a.counts(m.Policy)
		}
	}
	return charges, err
}

// Observed tells the observers of the policies what was decided about a request whose Charges were asked.
func (p *Policies) Observed(ctx context.Context, result admission.Result) {
	if len(p.observers) > 0 {
		p.observed(ctx, decisionOf(result), result.Err)
	}
}

// find returns the policies that match, and those in shadow that could not be applied.
func (p *Policies) find(s *set, a Attributes) (found []Limited, err error) {
	v := newValues(a)
	for i, policy := range s.file.Policies {
		m, ok, errOf := policy.match(v)
		wrong, _ := errors.AsType[*AttributeError](errOf)
		byClient := wrong != nil && wrong.Client
		switch {
		case byClient && a.Request != nil && policy.Mode != Shadow: // as a key that it has left out
			m, ok, errOf = Match{Policy: policy, Refused: true}, true, nil
		case errOf != nil && !byClient:
			p.log.Error("a policy cannot be applied to calls", wrong.Policy+" "+wrong.Word, errOf, slog.String("file", p.path))
		}
		switch {
		case errOf != nil && policy.Mode == Shadow:
			found = append(found, Limited{Match: Match{Policy: policy}, err: errOf})
		case errOf != nil:
			err = errors.Join(err, errOf)
		case ok && (!m.Refused || policy.Mode != Shadow):
			found = append(found, Limited{Match: m, Limiter: s.limiters[i][m.limiter], Ban: s.bans[i]})
		}
	}
	return found, err
}

// counts returns the condition by which a call counts, as a function of the status of the response.
func (a Attributes) counts(p *Policy) func(status int) bool {
	if a.Request != nil && p.count.uses("request.header") {
		request := *a.Request
		request.Header = http.Header(request.Header).Clone() // the handler may change it
		a.Request = &request
	}
	return func(status int) bool {
		ended := a
		ended.Status = status
		counts, err := p.Counts(ended)
		return counts || err != nil
	}
}

// attributes returns what expressions may ask about a request, without the values of the application. The client's
// address is the connection's; behind one of the file's proxies, the right-most one in X-Forwarded-For that is none.
func (s *set) attributes(r *http.Request) Attributes {
	request := &Request{Method: r.Method, Path: r.URL.Path, Host: r.Host, Header: r.Header}
	client, err := s.file.clients.Find(r.RemoteAddr, r.Header)
	if request.peerErr = err; client.IsValid() {
		request.IP = client.String()
	}
	if s.query {
		request.Query, request.queryErr = url.ParseQuery(r.URL.RawQuery)
	}
	if s.cookie {
		request.Cookie = cookies(r.Header)
	}
	return Attributes{Request: request}
}

// cookies returns the cookies of a request. net/http would leave out what it takes for wrong, and applications may not.
func cookies(h http.Header) map[string][]string {
	values := map[string][]string{}
	for cookie := range strings.SplitSeq(strings.Join(h["Cookie"], ";"), ";") {
		name, value, _ := strings.Cut(cookie, "=")
		name = strings.TrimSpace(name)
		values[name] = append(values[name], strings.Trim(strings.TrimSpace(value), `"`))
	}
	return values
}
