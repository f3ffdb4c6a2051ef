package trigger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// maxRendered bounds the prompt, and each element of a command, in bytes.
const maxRendered = 1 << 20

var errTooLarge = fmt.Errorf("it renders to more than %d bytes", maxRendered)

// textTemplate is a compiled prompt or element.
type textTemplate struct {
	source   string
	template *template.Template // nil where source is literal
	body     bool               // it may read the payload
	dynamic  bool               // it begins with an action, so that a payload may choose its first character
}

// templateNames are what a template sees; a filter sees the first seven of them.
var templateNames = []string{
	"event", "action", "body", "headers", "repo", "sender", "subject",
	"prompt", "session", "delivery_id", "run_id", "trigger", "attempt",
}

// compileTemplate parses source and rewrites it so that whatever a payload lacks renders empty.
// text/template alone prints <no value> for a missing key and fails below a null, which payloads
// are full of (a deleted account is one).
func compileTemplate(name, source string) (*textTemplate, error) {
	t := &textTemplate{source: source}
	if !strings.Contains(source, "{{") {
		return t, nil
	}
	parsed, err := template.New(name).Funcs(functions(nil)).Parse(source)
	if err != nil {
		return nil, err
	}
	// Templates that call templates could do so without end.
	if len(parsed.Templates()) > 1 || parsed.Tree == nil {
		return nil, errors.New("define and block are not supported: write one template")
	}
	r := rewriter{tree: parsed.Tree}
	r.list(parsed.Root, true)
	if r.err != nil {
		return nil, r.err
	}
	t.template = parsed
	t.body = r.whole || strings.Contains(source, "body")
	t.dynamic = len(parsed.Root.Nodes) > 0 && parsed.Root.Nodes[0].Type() != parse.NodeText
	return t, nil
}

// render is safe for concurrent use. A panic is an error, without its value.
func (t *textTemplate) render(data map[string]any) (s string, err error) {
	if t.template == nil {
		return t.source, nil
	}
	defer func() {
		if p := recover(); p != nil {
			s, err = "", errors.New(panicked(p))
		}
	}()
	clone, err := t.template.Clone() // shares the tree; the functions are this rendering's own
	if err != nil {
		return "", err
	}
	var out limited
	if err := clone.Funcs(functions(&meter{left: templateWork})).Execute(&out, data); err != nil {
		for _, bound := range []error{errTooLarge, errTooMuchWork} {
			if errors.Is(err, bound) {
				return "", bound
			}
		}
		return "", err
	}
	return out.String(), nil
}

// limited refuses to grow beyond maxRendered.
type limited struct{ strings.Builder }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxRendered {
		return 0, errTooLarge
	}
	return l.Builder.Write(p)
}

// rewriter replaces every .a.b by a call of the function that looks it up, lets every range ask
// for its elements and every action print text. It also refuses names that no event has: a
// misspelled variable would otherwise render empty for ever.
type rewriter struct {
	tree  *parse.Tree
	whole bool // . or $ as such is used, with everything in it
	err   error
}

// list rewrites nodes; root says that . is still the whole of the data there.
func (r *rewriter) list(l *parse.ListNode, root bool) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			r.pipe(n.Pipe, root)
			if len(n.Pipe.Decl) == 0 {
				r.append(n.Pipe, textFunc)
			}
		case *parse.IfNode:
			r.pipe(n.Pipe, root)
			r.list(n.List, root)
			r.list(n.ElseList, root)
		case *parse.WithNode:
			r.pipe(n.Pipe, root)
			r.list(n.List, false)
			r.list(n.ElseList, root)
		case *parse.RangeNode:
			r.pipe(n.Pipe, root)
			r.append(n.Pipe, rangeFunc)
			r.list(n.List, false)
			r.list(n.ElseList, root)
		case *parse.TemplateNode:
			r.fail(n, errors.New("template is not supported"))
		}
	}
}

func (r *rewriter) pipe(p *parse.PipeNode, root bool) {
	if p == nil {
		return
	}
	for _, c := range p.Cmds {
		for i, arg := range c.Args {
			c.Args[i] = r.arg(arg, root)
		}
	}
}

func (r *rewriter) arg(n parse.Node, root bool) parse.Node {
	switch n := n.(type) {
	case *parse.FieldNode:
		if root {
			r.known(n, n.Ident[0])
		}
		return r.lookup(n, &parse.DotNode{NodeType: parse.NodeDot, Pos: n.Pos}, n.Ident)
	case *parse.VariableNode:
		if len(n.Ident) == 1 {
			r.whole = r.whole || n.Ident[0] == "$"
			return n
		}
		if n.Ident[0] == "$" {
			r.known(n, n.Ident[1])
		}
		return r.lookup(n, &parse.VariableNode{NodeType: parse.NodeVariable, Pos: n.Pos, Ident: n.Ident[:1]}, n.Ident[1:])
	case *parse.ChainNode:
		return r.lookup(n, r.arg(n.Node, root), n.Field)
	case *parse.DotNode:
		r.whole = r.whole || root
	case *parse.PipeNode:
		r.pipe(n, root)
	}
	return n
}

func (r *rewriter) known(at parse.Node, name string) {
	if !slices.Contains(templateNames, name) {
		r.fail(at, fmt.Errorf("no variable .%s (there are .%s)", name, strings.Join(templateNames, ", .")))
	}
}

func (r *rewriter) fail(at parse.Node, err error) {
	if r.err == nil {
		place, _ := r.tree.ErrorContext(at)
		r.err = fmt.Errorf("%s: %w", place, err)
	}
}

// lookup is (field value "name" …), at the place of n.
func (r *rewriter) lookup(n, value parse.Node, names []string) parse.Node {
	args := []parse.Node{r.function(n, fieldFunc), value}
	for _, name := range names {
		args = append(args, &parse.StringNode{
			NodeType: parse.NodeString, Pos: n.Position(), Quoted: fmt.Sprintf("%q", name), Text: name,
		})
	}
	command := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Position(), Args: args}
	return &parse.PipeNode{NodeType: parse.NodePipe, Pos: n.Position(), Cmds: []*parse.CommandNode{command}}
}

// append adds | name to a pipeline.
func (r *rewriter) append(p *parse.PipeNode, name string) {
	p.Cmds = append(p.Cmds, &parse.CommandNode{
		NodeType: parse.NodeCommand, Pos: p.Pos, Args: []parse.Node{r.function(p, name)},
	})
}

func (r *rewriter) function(at parse.Node, name string) parse.Node {
	return parse.NewIdentifier(name).SetTree(r.tree).SetPos(at.Position())
}
