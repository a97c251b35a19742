package httplimit

import (
	"encoding/json"
	"net/http"
)

// problem is a body of RFC 9457 with the extension of the draft.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Violated []string `json:"violated-policies,omitempty"`
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

// WriteProblem answers with application/problem+json (RFC 9457). The types are those of
// draft-ietf-httpapi-ratelimit-headers-11: quota-exceeded for a 429, with the names that RateLimit has for the windows
// that denied, and temporary-reduced-capacity for a 503. It is the default of Refuse.
func WriteProblem(w http.ResponseWriter, _ *http.Request, result Result) {
	body := problem{Type: "about:blank", Title: http.StatusText(result.Status), Status: result.Status}
	switch result.Outcome {
	case Denied:
		body.Type, body.Violated = problemTypes+"quota-exceeded", violated(result.Decisions)
		body.Title = "Request cannot be satisfied as assigned quota has been exceeded"
	case Undecided:
		body.Type = problemTypes + "temporary-reduced-capacity"
		body.Title = "Request cannot be satisfied due to temporary server capacity constraints"
	case NoKey:
		body.Title = "The request does not say whom it is counted for"
	case CallerGone:
		w.WriteHeader(result.Status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(result.Status)
	_ = json.NewEncoder(w).Encode(body)
}
