package main

import (
	"errors"
	"io"
	"net/http"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxMessage is the longest request, in bytes.
const maxMessage = 256 << 10

// serveJSON is ShouldRateLimit in proto3 JSON: 200, 429, 400 for what is malformed, 503 without a decision.
func (s *service) serveJSON(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "want POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil {
		http.Error(w, "want a body of at most 256 KiB", http.StatusRequestEntityTooLarge)
		return
	}
	var request ratelimitv3.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		http.Error(w, "want a RateLimitRequest in JSON: "+err.Error(), http.StatusBadRequest)
		return
	}
	response, err := s.answer(r.Context(), &request)
	_, bad := errors.AsType[*malformed](err)
	switch {
	case bad:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	for _, h := range response.ResponseHeadersToAdd {
		w.Header().Add(h.Key, h.Value)
	}
	w.Header().Set("Content-Type", "application/json")
	if response.OverallCode == ratelimitv3.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	text, _ := protojson.Marshal(response) // of a message that this process made
	_, _ = w.Write(text)
}
