//go:build !unix

package faultproxy

import (
	"errors"
	"net"
)

func shortenQueue(*net.TCPListener) error { return errors.ErrUnsupported }
