// Package curl sends the requests of tests with curl, so that what they see is what a client sees that is not net/http.
package curl

import (
	"bufio"
	"bytes"
	"net/http"
	"os/exec"
	"testing"
)

// Do sends a request without a body and returns the response. Without curl, net/http sends it.
func Do(tb testing.TB, request *http.Request) *http.Response {
	tb.Helper()
	program, err := exec.LookPath("curl")
	if err != nil {
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	args := []string{"--silent", "--show-error", "--include", "--max-time", "30", "--request", request.Method}
	for name, values := range request.Header {
		for _, value := range values {
			args = append(args, "--header", name+": "+value)
		}
	}
	cmd := exec.Command(program, append(args, request.URL.String())...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("curl %s: %v\n%s", request.URL, err, &stderr)
	}
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), request)
	if err != nil {
		tb.Fatalf("curl %s: %v\n%s", request.URL, err, out)
	}
	return response
}
