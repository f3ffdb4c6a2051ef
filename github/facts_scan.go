package github

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strings"
)

// maxJSONDepth is encoding/json's limit, so that whatever is accepted here can be decoded later.
const maxJSONDepth = 10_000

// maxPathDepth bounds the length of a compiled path; compilePaths panics beyond it.
const maxPathDepth = 8

// slot numbers one captured value.
type slot uint8

// captures holds the raw JSON of the wanted values, nil where the payload has none.
type captures [slotCount][]byte

// pathNode is one step of the wanted paths: a leaf that captures its value, or an object to look into.
type pathNode struct {
	key      string
	leaf     bool
	slot     slot // of a leaf
	children []*pathNode
	lengths  uint64 // bit n is set if a child's key has n bytes: most keys are dismissed by it
	below    uint64 // the slots of this node and all below it
}

// compilePaths builds the tree of dotted paths. Keys are plain ASCII without a dot.
func compilePaths(paths map[string]slot) *pathNode {
	root := new(pathNode)
	for path, slot := range paths {
		steps := strings.Split(path, ".")
		if len(steps) >= maxPathDepth {
			panic("github: path " + path + " is too long")
		}
		node := root
		for _, key := range steps {
			node.below |= 1 << slot
			child := node.child([]byte(key))
			if child == nil {
				child = &pathNode{key: key}
				node.children = append(node.children, child)
				node.lengths |= 1 << len(key)
			}
			node = child
		}
		node.below |= 1 << slot
		node.leaf, node.slot = true, slot
	}
	return root
}

// child finds the step for a key, nil if no wanted path goes there.
func (n *pathNode) child(key []byte) *pathNode {
	if len(key) >= 64 || n.lengths&(1<<len(key)) == 0 {
		return nil
	}
	for _, c := range n.children {
		if string(key) == c.key {
			return c
		}
	}
	return nil
}

// forget drops what an earlier duplicate of the node's key has captured: as in a decoded map, the
// last one counts, and it counts whole.
func (n *pathNode) forget(found *captures) {
	for set := n.below; set != 0; set &= set - 1 {
		found[bits.TrailingZeros64(set)] = nil
	}
}

// scanJSON checks the one JSON value that begins at data[i], which may have space before it, by the
// rules of encoding/json (invalid UTF-8 in strings passes, deeper than maxJSONDepth does not), and
// captures the values at the wanted paths; want may be nil. It returns the index after the value,
// or where it went wrong and false. It does not recurse and does not allocate, unless a key on a
// wanted path is written with escapes.
func scanJSON(data []byte, i int, want *pathNode, found *captures) (int, bool) {
	var (
		objects [maxJSONDepth/64 + 1]uint64 // bit d: the container at depth d is an object
		path    [maxPathDepth + 1]*pathNode // of the open containers
		depth   int                         // number of open containers
		node    = (*pathNode)(nil)          // of the innermost open container, nil off the paths
		next    = want                      // of the value that begins
		leaf    slot                        // captured container that is open
		start   int                         // where it began
		opened  = maxJSONDepth + 1          // its depth; out of reach while there is none
		ok      bool
	)
value:
	for {
		i = skipSpace(data, i)
		if i >= len(data) {
			return i, false
		}
		begin := i
		switch c := data[i]; c {
		case '"':
			if i, _, ok = skipString(data, i+1); !ok {
				return i, false
			}
		case '{', '[':
			if next != nil && next.leaf {
				leaf, start, opened = next.slot, i, depth
				next = nil
			}
			if depth == maxJSONDepth {
				return i, false
			}
			depth++
			object := c == '{'
			if object {
				objects[depth/64] |= 1 << (depth % 64)
			} else {
				objects[depth/64] &^= 1 << (depth % 64)
				next = nil
			}
			node = next
			if depth <= maxPathDepth {
				path[depth] = node
			}
			i = skipSpace(data, i+1)
			if i >= len(data) {
				return i, false
			}
			if data[i] != c+2 { // the closing brackets stand two after the opening ones
				if object {
					if i, next, ok = scanKey(data, i, node, found); !ok {
						return i, false
					}
				} else {
					next = nil
				}
				continue value
			}
			// Empty: the loop below sees the closing bracket. next is no leaf here.
		case 't':
			if i, ok = skipWord(data, i, "true"); !ok {
				return i, false
			}
		case 'f':
			if i, ok = skipWord(data, i, "false"); !ok {
				return i, false
			}
		case 'n':
			if i, ok = skipWord(data, i, "null"); !ok {
				return i, false
			}
		default:
			if i, ok = skipNumber(data, i); !ok {
				return i, false
			}
		}
		if next != nil && next.leaf {
			found[next.slot] = data[begin:i]
		}
		for {
			if depth == 0 {
				return i, true
			}
			i = skipSpace(data, i)
			if i >= len(data) {
				return i, false
			}
			object := objects[depth/64]&(1<<(depth%64)) != 0
			switch c := data[i]; {
			case c == ',' && object:
				i = skipSpace(data, i+1)
				if i, next, ok = scanKey(data, i, node, found); !ok {
					return i, false
				}
				continue value
			case c == ',':
				i++
				next = nil
				continue value
			case c == '}' && object, c == ']' && !object:
				i++
				depth--
				node = nil
				if depth <= maxPathDepth {
					node = path[depth]
				}
				if depth == opened {
					found[leaf] = data[start:i]
					opened = maxJSONDepth + 1
				}
			default:
				return i, false
			}
		}
	}
}

// scanKey reads an object's key at data[i] and the colon after it, and finds the key's step below
// the node.
func scanKey(data []byte, i int, node *pathNode, found *captures) (int, *pathNode, bool) {
	if i >= len(data) || data[i] != '"' {
		return i, nil, false
	}
	begin := i
	i, escaped, ok := skipString(data, i+1)
	if !ok {
		return i, nil, false
	}
	var child *pathNode
	if node != nil {
		if escaped {
			child = node.child(unquote(data[begin:i]))
		} else {
			child = node.child(data[begin+1 : i-1])
		}
		if child != nil {
			child.forget(found)
		}
	}
	i = skipSpace(data, i)
	if i >= len(data) || data[i] != ':' {
		return i, nil, false
	}
	return i + 1, child, true
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && data[i] <= ' ' && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// skipString goes from a string's first character to the index after its closing quote. Eight
// bytes at a time are tested for a quote, a backslash and control characters; the lowest hit of
// the borrow trick is always a true one.
func skipString(data []byte, i int) (end int, escaped, ok bool) {
	const (
		ones      = 0x0101010101010101
		highs     = 0x8080808080808080
		quotes    = ones * '"'
		backslash = ones * '\\'
		spaces    = ones * ' '
	)
	for {
		for {
			if i+8 > len(data) {
				for i < len(data) && data[i] >= ' ' && data[i] != '"' && data[i] != '\\' {
					i++
				}
				if i >= len(data) {
					return i, escaped, false
				}
				break
			}
			w := binary.LittleEndian.Uint64(data[i:])
			q, b := w^quotes, w^backslash
			if hit := ((q-ones)&^q | (b-ones)&^b | (w-spaces)&^w) & highs; hit != 0 {
				i += bits.TrailingZeros64(hit) / 8
				break
			}
			i += 8
		}
		switch data[i] {
		case '"':
			return i + 1, escaped, true
		case '\\':
			escaped = true
			if i, ok = skipEscape(data, i); !ok {
				return i, escaped, false
			}
		default: // a control character
			return i, escaped, false
		}
	}
}

func skipEscape(data []byte, i int) (int, bool) {
	if i+1 >= len(data) {
		return len(data), false
	}
	switch data[i+1] {
	case 'b', 'f', 'n', 'r', 't', '\\', '/', '"':
		return i + 2, true
	case 'u':
		for n := i + 2; n < i+6; n++ {
			if n >= len(data) || !isHex(data[n]) {
				return n, false
			}
		}
		return i + 6, true
	}
	return i + 1, false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func skipWord(data []byte, i int, word string) (int, bool) {
	if len(data)-i < len(word) || string(data[i:i+len(word)]) != word {
		return i, false
	}
	return i + len(word), true
}

func skipNumber(data []byte, i int) (int, bool) {
	if i < len(data) && data[i] == '-' {
		i++
	}
	begin := i
	if i = skipDigits(data, i); i == begin || data[begin] == '0' && i > begin+1 {
		return begin, false
	}
	if i < len(data) && data[i] == '.' {
		begin = i + 1
		if i = skipDigits(data, begin); i == begin {
			return i, false
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		begin = i
		if i = skipDigits(data, begin); i == begin {
			return i, false
		}
	}
	return i, true
}

func skipDigits(data []byte, i int) int {
	for i < len(data) && '0' <= data[i] && data[i] <= '9' {
		i++
	}
	return i
}

// unquote decodes a checked JSON string as encoding/json does: what is no valid UTF-8 or half a
// surrogate pair becomes U+FFFD. It returns nil for another value.
func unquote(raw []byte) []byte {
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && isASCII(inner) {
		return inner
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil
	}
	return []byte(text)
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
