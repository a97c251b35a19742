// Package watch reads configuration files, and applies them again when they have changed.
package watch

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"
)

// MaxFile is the longest file, in bytes: readers refuse what is longer.
const MaxFile = 1 << 20

// ReadFile returns what a regular file holds, or the beginning of it if that is longer than MaxFile. A link to one is
// right; a pipe would block.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, MaxFile+1))
}

// Content is what files hold, by their paths, or why they cannot be read.
type Content struct {
	Files map[string][]byte
	Err   error
}

func (c Content) equal(d Content) bool {
	return (c.Err == nil) == (d.Err == nil) && (c.Err == nil || c.Err.Error() == d.Err.Error()) &&
		maps.EqualFunc(c.Files, d.Files, bytes.Equal)
}

// Watcher applies files. New makes it. It is safe for concurrent use.
type Watcher struct {
	read  func() Content
	apply func(map[string][]byte) error

	mu      sync.Mutex // of applied, and while files are applied
	applied Content    // or refused
}

// New returns a Watcher that reads and applies files by these functions. It looks at nothing yet.
func New(read func() Content, apply func(map[string][]byte) error) *Watcher {
	return &Watcher{read: read, apply: apply}
}

// Apply reads and applies the files now, whether or not they have changed.
func (w *Watcher) Apply() error { return w.applyContent(w.read()) }

func (w *Watcher) applyContent(c Content) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.applied = c
	if c.Err != nil {
		return c.Err
	}
	return w.apply(c.Files)
}

func (w *Watcher) lastApplied() Content {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.applied
}

// Run applies changes until stop is closed, and calls report with what became of each. A change is applied when two
// looks in a row have found the same, so that a half written file is not.
func (w *Watcher) Run(stop <-chan struct{}, every time.Duration, report func(error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := w.lastApplied()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		now := w.read()
		if now.equal(last) && !now.equal(w.lastApplied()) {
			report(w.applyContent(now))
		}
		last = now
	}
}
