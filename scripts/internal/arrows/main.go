// Command arrows checks the imports of every package of the module against the table in rules.go
// and prints each one that the table does not allow.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	module, pkgs, err := list()
	if err != nil {
		fmt.Fprintln(os.Stderr, "arrows:", err)
		os.Exit(2)
	}
	wrong := check(module, pkgs, rules)
	for _, line := range wrong {
		fmt.Println(line)
	}
	if len(wrong) > 0 {
		os.Exit(1)
	}
	fmt.Printf("%d packages import only what they may\n", len(pkgs))
}

// list asks the go command for the packages below the current folder.
func list() (module string, pkgs []pkg, err error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Module,Imports,TestImports,XTestImports", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", nil, fmt.Errorf("listing packages: %w", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath                         string
			Module                             struct{ Path string }
			Imports, TestImports, XTestImports []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		module = p.Module.Path
		path, _ := ours(module, p.ImportPath)
		pkgs = append(pkgs, pkg{path, p.Imports, slices.Concat(p.TestImports, p.XTestImports)})
	}
	if len(pkgs) == 0 {
		return "", nil, errors.New("the module has no packages")
	}
	return module, pkgs, nil
}
