package commands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// CompletionCmd prints a shell's completion script.
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// The scripts ask preloop itself, so that they never go stale.
var completionScripts = map[string]string{
	"bash": `# eval "$(preloop completion bash)"
_preloop() {
  local IFS=$'\n'
  COMPREPLY=($(compgen -W "$(preloop __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _preloop preloop
`,
	"zsh": `#compdef preloop
# eval "$(preloop completion zsh)"
_preloop() {
  local -a words_
  local line
  for line in ${(f)"$(preloop __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
    words_+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  _describe preloop words_ || _files
}
compdef _preloop preloop
`,
	"fish": `# preloop completion fish | source
function __preloop_complete
  set -l words (commandline -opc) (commandline -ct)
  preloop __complete $words[2..-1] 2>/dev/null
end
complete -c preloop -a '(__preloop_complete)'
`,
}

// Run prints the script.
func (c *CompletionCmd) Run(a *app) error {
	_, err := fmt.Fprint(a.out, completionScripts[c.Shell])
	return err
}

// CompleteCmd answers the scripts: the words typed so far, the unfinished one last.
type CompleteCmd struct {
	Words []string `arg:"" optional:""`
}

// Run prints a candidate a line, with its help behind a tab.
func (c *CompleteCmd) Run(a *app, k *kong.Context) error {
	node := k.Model.Node
	words := c.Words
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	var pending *kong.Flag // its value is being typed
	for _, w := range words[:len(words)-1] {
		if pending != nil {
			pending = nil
			continue
		}
		if strings.HasPrefix(w, "-") {
			if f := findFlag(node, w); f != nil && !f.IsBool() && !strings.Contains(w, "=") {
				pending = f
			}
			continue
		}
		for _, child := range node.Children {
			if child.Name == w || slices.Contains(child.Aliases, w) {
				node = child
				break
			}
		}
	}
	offer := func(word, help string) {
		if strings.HasPrefix(word, last) && word != "" {
			_, _ = fmt.Fprintf(a.out, "%s\t%s\n", word, help)
		}
	}
	if pending != nil {
		for _, v := range pending.EnumSlice() {
			offer(v, pending.Help)
		}
		return nil
	}
	for _, child := range node.Children {
		if !child.Hidden {
			offer(child.Name, child.Help)
		}
	}
	flags := node.AllFlags(true)
	if d := node.DefaultCmd; d != nil { // what "repairs" alone means
		flags = append(flags, d.Flags)
	}
	for _, group := range flags {
		for _, f := range group {
			if !f.Hidden {
				offer("--"+f.Name, f.Help)
			}
		}
	}
	for _, arg := range node.Positional {
		for _, v := range arg.EnumSlice() {
			offer(v, arg.Help)
		}
	}
	return nil
}

func findFlag(node *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			if f.Name == name || len(name) == 1 && f.Short == rune(name[0]) {
				return f
			}
		}
	}
	return nil
}
