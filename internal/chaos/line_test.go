package chaos

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// line is the network between clients and a server, which can be slow and can be cut.
type line struct {
	addr   string // where clients connect to
	server string
	delay  atomic.Int64 // nanoseconds that everything is late, each way

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newLine(t *testing.T, server string) *line {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &line{addr: listener.Addr().String(), server: server, conns: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = listener.Close()
		l.cut()
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go l.join(client)
		}
	}()
	return l
}

// cut closes all connections. New ones can be made at once.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.Close()
	}
}

// join passes on what a client and the server send each other, until one of them hangs up.
func (l *line) join(client net.Conn) {
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		_ = client.Close()
		return
	}
	l.keep(client, server)
	var directions sync.WaitGroup
	directions.Go(func() { l.carry(client, server) })
	directions.Go(func() { l.carry(server, client) })
	directions.Wait()
	l.forget(client, server)
}

func (l *line) keep(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range conns {
		l.conns[conn] = true
	}
}

func (l *line) forget(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range conns {
		delete(l.conns, conn)
	}
}

func (l *line) carry(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		time.Sleep(time.Duration(l.delay.Load()))
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
