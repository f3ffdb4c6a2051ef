package target

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// groupAttr puts a command into a process group of its own and has the kernel end it when the
// thread that started it ends, which is no later than when this process does, however it dies.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// groupAlive reports whether a process group has a member that is more than a zombie. In a
// container whose first process reaps nobody, zombies stay, and signals to them succeed for ever.
func groupAlive(id int) bool {
	processes, err := os.Open("/proc")
	if err != nil {
		return true
	}
	defer processes.Close()
	names, err := processes.Readdirnames(-1)
	if err != nil {
		return true
	}
	group := []byte(strconv.Itoa(id))
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state parent group …, where the name may hold anything, parentheses too.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 2 && bytes.Equal(fields[2], group) && fields[0][0] != 'Z' && fields[0][0] != 'X' {
			return true
		}
	}
	return false
}
