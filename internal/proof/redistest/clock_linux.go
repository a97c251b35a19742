package redistest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

//go:embed shim/clock.c
var clockSource []byte

// clockPage is the memory that the test and the server share. shim/clock.c has the same layout.
type clockPage struct {
	offset   atomic.Int64 // microseconds by which the clock is ahead
	stopped  atomic.Int64 // time at which it is stopped, in microseconds since 1970; 0: it runs
	attached atomic.Int64 // set by the server
}

// Clock is the wall clock of one server. Changes take effect at once. It is not safe for concurrent use.
type Clock struct{ page *clockPage }

// StartWithClock is StartBinary for tests that step the server's wall clock. It needs Linux and a C compiler. Without
// them the test fails in CI and is skipped elsewhere.
func StartWithClock(tb testing.TB, binary string, extraArgs ...string) (*Server, *Clock) {
	tb.Helper()
	dir := tb.TempDir()
	shim := compileClock(tb, dir)
	path := filepath.Join(dir, "clock")
	clock := &Clock{mapClock(tb, path)}
	server := launch(tb, binary, []string{"LD_PRELOAD=" + shim, "SLUICE_CLOCK=" + path}, extraArgs)
	if clock.page.attached.Load() == 0 {
		tb.Fatalf("%s takes no LD_PRELOAD: it is linked statically, or by another C library than cc's", binary)
	}
	return server, clock
}

func compileClock(tb testing.TB, dir string) string {
	tb.Helper()
	source, shim := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	must(tb, os.WriteFile(source, clockSource, 0o600))
	cmd := exec.Command(compiler(tb), "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", shim, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("compiling the clock: %v\n%s", err, out)
	}
	return shim
}

func compiler(tb testing.TB) string {
	tb.Helper()
	for _, name := range []string{"cc", "gcc", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	withoutClock(tb, "no C compiler (cc, gcc or clang), which is needed to step a server's clock")
	return ""
}

// mapClock creates the shared page: a file that the test and the server map.
func mapClock(tb testing.TB, path string) *clockPage {
	tb.Helper()
	size := int(unsafe.Sizeof(clockPage{}))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	must(tb, err)
	defer file.Close()
	must(tb, file.Truncate(int64(size)))
	bytes, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		tb.Fatalf("mapping %s: %v", path, err)
	}
	tb.Cleanup(func() { _ = syscall.Munmap(bytes) })
	return (*clockPage)(unsafe.Pointer(&bytes[0]))
}

// Now returns the server's time.
func (c *Clock) Now() time.Time {
	if us := c.page.stopped.Load(); us != 0 {
		return time.UnixMicro(us)
	}
	return time.UnixMicro(time.Now().UnixMicro() + c.page.offset.Load())
}

// Step moves a running or stopped clock by d, forward or back, in whole microseconds.
func (c *Clock) Step(d time.Duration) {
	if us := c.page.stopped.Load(); us != 0 {
		c.page.stopped.Store(us + d.Microseconds())
		return
	}
	c.page.offset.Add(d.Microseconds())
}

// Stop stops the clock until Resume.
func (c *Clock) Stop() { c.page.stopped.Store(c.Now().UnixMicro()) }

// Resume starts a stopped clock from its current time.
func (c *Clock) Resume() {
	if us := c.page.stopped.Load(); us != 0 {
		c.page.offset.Store(us - time.Now().UnixMicro())
		c.page.stopped.Store(0)
	}
}

// Set stops the clock at a time after 1970.
func (c *Clock) Set(to time.Time) { c.page.stopped.Store(to.UnixMicro()) }
