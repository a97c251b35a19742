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

// clockPage is what the test and the server share, as shim/clock.c has it.
type clockPage struct {
	offset   atomic.Int64 // microseconds that the clock is ahead
	stopped  atomic.Int64 // microseconds since 1970 at which it stands; 0: it runs
	attached atomic.Int64 // set by the server
}

// Clock is the wall clock of one server. Its methods act at once and are for one goroutine.
type Clock struct{ page *clockPage }

// StartWithClock is StartBinary for a server whose wall clock the test steps. It needs a C compiler:
// without one the test fails in CI and is skipped elsewhere, as it is on other systems than Linux.
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

// compileClock makes the shared library of shim/clock.c.
func compileClock(tb testing.TB, dir string) string {
	tb.Helper()
	source, shim := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		tb.Fatal(err)
	}
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
	withoutClock(tb, "no C compiler (cc, gcc or clang), which a server needs whose clock the test steps")
	return ""
}

// mapClock makes the shared page, a file that both map.
func mapClock(tb testing.TB, path string) *clockPage {
	tb.Helper()
	size := int(unsafe.Sizeof(clockPage{}))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(int64(size)); err != nil {
		tb.Fatal(err)
	}
	bytes, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		tb.Fatalf("mapping %s: %v", path, err)
	}
	tb.Cleanup(func() { _ = syscall.Munmap(bytes) })
	return (*clockPage)(unsafe.Pointer(&bytes[0]))
}

// Now is the server's time.
func (c *Clock) Now() time.Time {
	if us := c.page.stopped.Load(); us != 0 {
		return time.UnixMicro(us)
	}
	return time.UnixMicro(time.Now().UnixMicro() + c.page.offset.Load())
}

// Step moves the clock by d, forward or back, whether it runs or stands. Microseconds are its unit.
func (c *Clock) Step(d time.Duration) {
	if us := c.page.stopped.Load(); us != 0 {
		c.page.stopped.Store(us + d.Microseconds())
		return
	}
	c.page.offset.Add(d.Microseconds())
}

// Stop makes the clock stand where it is, until Resume.
func (c *Clock) Stop() { c.page.stopped.Store(c.Now().UnixMicro()) }

// Resume lets the clock run on from where it stands.
func (c *Clock) Resume() {
	if us := c.page.stopped.Load(); us != 0 {
		c.page.offset.Store(us - time.Now().UnixMicro())
		c.page.stopped.Store(0)
	}
}

// Set makes the clock stand at a moment after 1970.
func (c *Clock) Set(to time.Time) { c.page.stopped.Store(to.UnixMicro()) }
