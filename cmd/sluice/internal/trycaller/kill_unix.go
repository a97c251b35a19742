//go:build unix

package trycaller

import (
	"os/exec"
	"syscall"
)

// groupOf starts a command in a process group of its own, so that kill reaches what it starts.
func groupOf(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

func kill(cmd *exec.Cmd) { _ = cmd.Cancel() }
