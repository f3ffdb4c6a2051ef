package commands

import (
	"fmt"
	"runtime"
)

// VersionCmd prints the version.
type VersionCmd struct{ Output }

// Run prints it.
func (c *VersionCmd) Run(a *app) error {
	if c.asJSON() {
		return c.print(a.out, map[string]string{"version": Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
	}
	_, err := fmt.Fprintf(a.out, "preloop %s %s %s/%s\n", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
