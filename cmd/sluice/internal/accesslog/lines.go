package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
)

// MaxLine is the longest line that is read, in bytes.
const MaxLine = 64 << 10

// Lines splits a log into lines. It keeps one line at a time.
type Lines struct {
	in  *bufio.Reader
	err error
}

// NewLines returns the lines of a log, which may be compressed by gzip.
func NewLines(log io.Reader) (*Lines, error) {
	in := bufio.NewReaderSize(log, MaxLine)
	if magic, err := in.Peek(2); err != nil || !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return &Lines{in: in}, nil // an error comes again with the first line
	}
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	return &Lines{in: bufio.NewReaderSize(unzipped, MaxLine)}, nil
}

// Next returns the next line without its end, until the call after it. Of a line longer than MaxLine it returns nil and
// the length. It reports false at the end of the log and after an error: see Err.
func (l *Lines) Next() (line []byte, length int, ok bool) {
	line, err := l.in.ReadSlice('\n')
	length = len(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.in.ReadSlice('\n')
		length += len(line)
		line = nil
	}
	if err != nil && err != io.EOF {
		l.err = err
	}
	if err != nil && (l.err != nil || length == 0) {
		return nil, 0, false
	}
	return bytes.TrimRight(line, "\r\n"), length, true
}

// Err returns the error that ended the log, nil at its end.
func (l *Lines) Err() error { return l.err }
