package trigger

import "strings"

// GitHub's own limits to what one push event lists; at a limit the rest may be missing.
const (
	maxPushCommits = 2048 // commits in the payload, by GitHub's page on webhook events
	maxCommitFiles = 3000 // files of one commit in its REST API; that payloads list more is not known
)

// pushedFiles collects the files that a push payload's commits name. complete says that these are
// all: not when the list of commits was cut, not after a forced push (which also takes commits
// away), and not when a new ref has no commits of its own.
func pushedFiles(body map[string]any) (files []string, complete bool) {
	if deleted, _ := body["deleted"].(bool); deleted {
		return nil, true
	}
	commits, ok := body["commits"].([]any)
	if !ok {
		return nil, false
	}
	forced, _ := body["forced"].(bool)
	created, _ := body["created"].(bool)
	complete = !forced && len(commits) < maxPushCommits && !(created && len(commits) == 0)
	for _, c := range commits {
		commit, _ := c.(map[string]any)
		n := 0
		for _, key := range []string{"added", "modified", "removed"} {
			names, ok := commit[key].([]any)
			if !ok {
				complete = false
			}
			n += len(names)
			for _, name := range names {
				if s, ok := name.(string); ok {
					files = append(files, s)
				}
			}
		}
		complete = complete && n < maxCommitFiles
	}
	return files, complete
}

// namesPullRequest reports whether the event is about a pull request, whose files GitHub can list.
// Comments on pull requests arrive as issue_comment.
func namesPullRequest(e *Event, body map[string]any) bool {
	d := e.Delivery
	if d.SubjectNum == 0 {
		return false
	}
	if d.Event == "pull_request" || strings.HasPrefix(d.Event, "pull_request_") {
		return true
	}
	issue, _ := body["issue"].(map[string]any)
	return issue["pull_request"] != nil
}
