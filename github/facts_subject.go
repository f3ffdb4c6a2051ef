package github

import (
	"bytes"
	"maps"
)

// subjectRule says where an event's payload names the issue, pull request or discussion that it is
// about. Number spaces of other things (alerts, milestones, projects, job steps) have no rule.
type subjectRule struct {
	kind     subjectKind
	paths    [2]string // captured as slotSubject and slotSubject2; the second may be empty
	actions  [2]string // ownSide: how the actions begin that make the one or the other path the own
	compiled *pathNode // the paths and the common ones
}

type subjectKind uint8

const (
	direct     subjectKind = iota // the value is the number
	listed                        // pull_requests lists, of which those into the own repository count
	ownSide                       // two linked issues, perhaps of two repositories: the action says which is the own
	mergeQueue                    // the ref of a merge group names it
	contentURL                    // a URL names it
)

var pathsWithoutSubject = compilePaths(commonPaths)

// subjectRules holds a rule for each event that can have a subject.
var subjectRules = func() map[string]*subjectRule {
	issue := subjectRule{kind: direct, paths: [2]string{"issue.number"}}
	pull := subjectRule{kind: direct, paths: [2]string{"pull_request.number"}}
	discussion := subjectRule{kind: direct, paths: [2]string{"discussion.number"}}
	workflow := subjectRule{kind: listed, paths: [2]string{"workflow_run.pull_requests"}}
	rules := map[string]*subjectRule{}
	for event, rule := range map[string]subjectRule{
		"issues":                      issue,
		"issue_comment":               issue,
		"issue_relates_to":            issue,
		"pull_request":                pull,
		"pull_request_review":         pull,
		"pull_request_review_comment": pull,
		"pull_request_review_thread":  pull,
		"discussion":                  discussion,
		"discussion_comment":          discussion,
		"workflow_run":                workflow,
		"deployment":                  workflow,
		"deployment_review":           workflow,
		"deployment_status":           workflow,
		"deployment_protection_rule":  {kind: listed, paths: [2]string{"pull_requests"}},
		"check_suite":                 {kind: listed, paths: [2]string{"check_suite.pull_requests"}},
		"check_run": {
			kind:  listed,
			paths: [2]string{"check_run.pull_requests", "check_run.check_suite.pull_requests"},
		},
		"issue_dependencies": {
			kind:    ownSide,
			paths:   [2]string{"blocked_issue.number", "blocking_issue.number"},
			actions: [2]string{"blocked_by_", "blocking_"},
		},
		"sub_issues": {
			kind:    ownSide,
			paths:   [2]string{"sub_issue.number", "parent_issue.number"},
			actions: [2]string{"parent_issue_", "sub_issue_"},
		},
		"merge_group":  {kind: mergeQueue, paths: [2]string{"merge_group.head_ref"}},
		"project_card": {kind: contentURL, paths: [2]string{"project_card.content_url"}},
	} {
		paths := maps.Clone(commonPaths)
		for i, path := range rule.paths {
			if path != "" {
				paths[path] = slotSubject + slot(i)
			}
		}
		rule.compiled = compilePaths(paths)
		rules[event] = &rule
	}
	return rules
}()

// number returns the subject's number, 0 when there is none or it is ambiguous. The repository is
// not empty.
func (r *subjectRule) number(found *captures, action, repo []byte, repoID int64) int64 {
	first, second := found[slotSubject], found[slotSubject2]
	switch r.kind {
	case direct:
		return positiveInt(first)
	case listed:
		return onlyOwnPull(repoID, first, second)
	case ownSide:
		switch {
		case hasPrefix(action, r.actions[0]):
			return positiveInt(first)
		case hasPrefix(action, r.actions[1]):
			return positiveInt(second)
		}
	case mergeQueue:
		return mergeQueueNumber(unquote(first))
	case contentURL:
		return contentURLNumber(unquote(first), repo)
	}
	return 0
}

func hasPrefix(text []byte, prefix string) bool {
	return len(text) >= len(prefix) && string(text[:len(prefix)]) == prefix
}

// The values of one element of a pull_requests list.
const (
	slotPullNumber slot = iota
	slotPullBaseID
)

var pullPaths = compilePaths(map[string]slot{"number": slotPullNumber, "base.repo.id": slotPullBaseID})

// onlyOwnPull returns the number of the one pull request into the repository that the lists hold.
// GitHub lists pull requests into other repositories (forks) beside them. Two own ones, or one
// whose number cannot be read, make it ambiguous. The lists are checked JSON, if they are lists.
func onlyOwnPull(repoID int64, lists ...[]byte) int64 {
	var number int64
	for _, list := range lists {
		if repoID == 0 || len(list) == 0 || list[0] != '[' {
			continue
		}
		i := skipSpace(list, 1)
		for list[i] != ']' {
			var found captures
			i, _ = scanJSON(list, i, pullPaths, &found)
			if positiveInt(found[slotPullBaseID]) == repoID {
				n := positiveInt(found[slotPullNumber])
				if n == 0 || number != 0 && number != n {
					return 0
				}
				number = n
			}
			if i = skipSpace(list, i); list[i] == ',' {
				i = skipSpace(list, i+1)
			}
		}
	}
	return number
}

// mergeQueueNumber reads N out of refs/heads/gh-readonly-queue/BASE/pr-N-SHA, the only place where
// a merge group names its pull request. BASE may have slashes.
func mergeQueueNumber(ref []byte) int64 {
	queue, entry := cutLast(ref, '/')
	entry, ok := bytes.CutPrefix(entry, []byte("pr-"))
	number, sha, _ := bytes.Cut(entry, []byte("-"))
	if !ok || len(sha) == 0 || !bytes.Contains(queue, []byte("gh-readonly-queue/")) {
		return 0
	}
	return positiveInt(number)
}

// contentURLNumber reads N out of …/repos/OWNER/NAME/issues/N, where OWNER/NAME is the payload's
// repository: a card of an organization's project may show another's issue.
func contentURLNumber(url, repo []byte) int64 {
	rest, number := cutLast(url, '/')
	rest, kind := cutLast(rest, '/')
	_, named, _ := bytes.Cut(rest, []byte("/repos/"))
	if string(kind) != "issues" && string(kind) != "pulls" || !bytes.EqualFold(named, repo) {
		return 0
	}
	return positiveInt(number)
}

// cutLast splits around the last sep; without one everything is before it.
func cutLast(text []byte, sep byte) (before, after []byte) {
	i := bytes.LastIndexByte(text, sep)
	if i < 0 {
		return text, nil
	}
	return text[:i], text[i+1:]
}
