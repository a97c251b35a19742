//go:build unix

package faultproxy

import (
	"errors"
	"net"
	"syscall"
)

// shortenQueue makes the queue of connects that wait to be accepted as short as the system allows.
func shortenQueue(l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), 0) })
	return errors.Join(err, failed)
}
