package github

import (
	"bytes"
	"fmt"
	"strconv"
)

// Facts are the few things that preloop itself reads out of a payload. Its fields are those of
// queue.Facts, so that one converts into the other. A field is empty (or 0) where the event has no
// such thing or the payload has it in an unexpected shape.
type Facts struct {
	Action       string
	Repo         string // owner/name as the payload spells it
	RepoID       int64  // stable across renames and transfers
	Subject      string // owner/name#number; empty when there is none or it is ambiguous
	SubjectNum   int64
	Sender       string // login
	SenderBot    bool   // type Bot, or a login that ends in [bot]
	Org          string // organization login, or the repository's owner
	Installation int64
}

// maxFact is the longest text taken for a fact, in bytes: GitHub's own names are shorter, and
// databases refuse to index very long ones.
const maxFact = 255

// byteOrderMark may stand before the JSON of a careless sender.
var byteOrderMark = []byte("\uFEFF")

// TrimBOM removes a UTF-8 byte order mark, which is no part of the JSON and which decoders refuse.
func TrimBOM(body []byte) []byte { return bytes.TrimPrefix(body, byteOrderMark) }

// PayloadError says that a body is not what GitHub sends. It holds nothing of the body.
type PayloadError struct {
	Offset    int  // of the first byte that is wrong
	NotObject bool // the body is JSON, or begins like it, but not as an object
}

func (e *PayloadError) Error() string {
	if e.NotObject {
		return "reading the payload: the JSON is not an object"
	}
	return fmt.Sprintf("reading the payload: no valid JSON at byte %d", e.Offset)
}

// The captured values that every event may have; those of the subject follow.
const (
	slotAction slot = iota
	slotFullName
	slotRepoName
	slotRepoOwner
	slotRepoID
	slotSender
	slotSenderType
	slotOrg
	slotInstallation
	slotSubject
	slotSubject2
	slotCount
)

var commonPaths = map[string]slot{
	"action":                 slotAction,
	"repository.full_name":   slotFullName,
	"repository.name":        slotRepoName,
	"repository.owner.login": slotRepoOwner,
	"repository.id":          slotRepoID,
	"sender.login":           slotSender,
	"sender.type":            slotSenderType,
	"organization.login":     slotOrg,
	"installation.id":        slotInstallation,
}

// ReadFacts checks that the body is a JSON object, by the rules of encoding/json but for a leading
// byte order mark, which is tolerated, and reads the facts of the event in the same pass. Keys
// match exactly and of duplicates the last counts, as in a decoded map. The only error is a
// *PayloadError; facts of an unexpected shape are left out. The result keeps no reference to the
// body.
func ReadFacts(event string, body []byte) (Facts, error) {
	rule := subjectRules[event]
	paths := pathsWithoutSubject
	if rule != nil {
		paths = rule.compiled
	}

	data := TrimBOM(body)
	skipped := len(body) - len(data)
	begin := skipSpace(data, 0)
	var found captures
	end, ok := scanJSON(data, begin, paths, &found)
	if ok {
		end = skipSpace(data, end)
		ok = end == len(data)
	}
	switch {
	case !ok:
		return Facts{}, &PayloadError{Offset: skipped + end}
	case data[begin] != '{':
		return Facts{}, &PayloadError{Offset: skipped + begin, NotObject: true}
	}
	return found.facts(rule), nil
}

func (c *captures) facts(rule *subjectRule) Facts {
	f := Facts{
		RepoID:       positiveInt(c[slotRepoID]),
		Installation: positiveInt(c[slotInstallation]),
		SenderBot:    string(unquote(c[slotSenderType])) == "Bot",
	}
	// All texts share one string: one allocation, and nothing of the body is kept.
	all := make([]byte, 0, 256)
	all = append(all, factText(c[slotAction])...)
	action := len(all)
	all = append(all, factText(c[slotSender])...)
	sender := len(all)
	all = append(all, factText(c[slotOrg])...)
	org := len(all)
	all = c.appendRepo(all)
	repo := len(all)
	if rule != nil && repo > org {
		f.SubjectNum = rule.number(c, all[:action], all[org:repo], f.RepoID)
	}
	if f.SubjectNum > 0 {
		all = append(all, '#')
		all = strconv.AppendInt(all, f.SubjectNum, 10)
	}

	text := string(all)
	f.Action, f.Sender, f.Org, f.Repo = text[:action], text[action:sender], text[sender:org], text[org:repo]
	if f.SubjectNum > 0 {
		f.Subject = text[org:]
	}
	if f.Org == "" {
		f.Org = f.Repo[:max(0, bytes.IndexByte(all[org:repo], '/'))]
	}
	f.SenderBot = f.SenderBot || bytes.HasSuffix(all[action:sender], []byte("[bot]"))
	return f
}

// appendRepo appends owner/name. Where full_name and owner.login disagree, as they do after a
// transfer, full_name is right.
func (c *captures) appendRepo(to []byte) []byte {
	if full := factText(c[slotFullName]); len(full) > 0 {
		return append(to, full...)
	}
	owner, name := factText(c[slotRepoOwner]), factText(c[slotRepoName])
	if len(owner) == 0 || len(name) == 0 {
		return to
	}
	to = append(to, owner...)
	to = append(to, '/')
	return append(to, name...)
}

// factText decodes a string that can be a fact, else nothing. A NUL is refused because no name has
// one and Postgres cannot store it.
func factText(raw []byte) []byte {
	text := unquote(raw)
	if len(text) > maxFact || bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	return text
}

// positiveInt reads an integer above zero that fits int64. Everything else, 7.0 and 7e0 included,
// is 0: GitHub's ids and numbers are never written so.
func positiveInt(raw []byte) int64 {
	if len(raw) == 0 || skipDigits(raw, 0) != len(raw) {
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
