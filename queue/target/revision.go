package target

import (
	"encoding/json"
	"strconv"
	"strings"
)

// revision returns the git ref and commit that an event is about, as GITHUB_REF and GITHUB_SHA
// name them; each is empty where the event has none or the payload has it in an unexpected shape.
//
// A branch of a fork is never given as a ref: a script that deploys refs/heads/main would take
// the fork's main for its own.
func revision(event string, payload []byte) (ref, sha string) {
	var p eventPayload
	// A field of the wrong type is skipped and the others are read.
	_ = json.Unmarshal(payload, &p)

	switch event {
	case "push":
		ref, sha = p.Ref, p.After
	case "create", "delete":
		ref = qualify(p.RefType, p.Ref)
	case "pull_request", "pull_request_review", "pull_request_review_comment", "pull_request_review_thread":
		if p.PullRequest.Number > 0 {
			ref = "refs/pull/" + strconv.FormatInt(p.PullRequest.Number, 10) + "/merge"
		}
		sha = p.PullRequest.Head.SHA
	case "check_run":
		// GitHub leaves head_branch null where the branch is a fork's.
		ref, sha = qualify("branch", p.CheckRun.CheckSuite.HeadBranch), p.CheckRun.HeadSHA
	case "check_suite":
		ref, sha = qualify("branch", p.CheckSuite.HeadBranch), p.CheckSuite.HeadSHA
	case "workflow_run":
		sha = p.WorkflowRun.HeadSHA
		if p.Repository.ID != 0 && p.WorkflowRun.HeadRepository.ID == p.Repository.ID {
			ref = qualify("branch", p.WorkflowRun.HeadBranch)
		}
	case "workflow_job":
		// It has a branch and no word of whose.
		sha = p.WorkflowJob.HeadSHA
	case "merge_group":
		ref, sha = p.MergeGroup.HeadRef, p.MergeGroup.HeadSHA
	case "release":
		// target_commitish is a branch or a commit; it names the release's commit only as the latter.
		ref, sha = qualify("tag", p.Release.TagName), p.Release.TargetCommitish
	case "deployment", "deployment_status":
		// The ref as it was asked for, which may be a short name: branch or tag is not said.
		ref, sha = p.Deployment.Ref, p.Deployment.SHA
		if ref == sha {
			ref = ""
		}
	case "workflow_dispatch":
		ref = p.Ref
	case "repository_dispatch":
		ref = qualify("branch", p.Branch)
	case "code_scanning_alert":
		ref, sha = p.Ref, p.CommitOID
	case "status":
		sha = p.SHA
	case "commit_comment":
		sha = p.Comment.CommitID
	case "page_build":
		sha = p.Build.Commit
	}
	if !isCommit(sha) {
		sha = ""
	}
	return ref, sha
}

// eventPayload is the little of all payloads that names a revision.
type eventPayload struct {
	Ref         string
	RefType     string `json:"ref_type"`
	After       string
	Branch      string
	SHA         string
	CommitOID   string `json:"commit_oid"`
	Repository  struct{ ID int64 }
	PullRequest struct {
		Number int64
		Head   struct{ SHA string }
	} `json:"pull_request"`
	CheckRun struct {
		HeadSHA    string   `json:"head_sha"`
		CheckSuite headInfo `json:"check_suite"`
	} `json:"check_run"`
	CheckSuite  headInfo `json:"check_suite"`
	WorkflowRun headInfo `json:"workflow_run"`
	WorkflowJob headInfo `json:"workflow_job"`
	MergeGroup  struct {
		HeadRef string `json:"head_ref"`
		HeadSHA string `json:"head_sha"`
	} `json:"merge_group"`
	Release struct {
		TagName         string `json:"tag_name"`
		TargetCommitish string `json:"target_commitish"`
	}
	Deployment struct{ Ref, SHA string }
	Comment    struct {
		CommitID string `json:"commit_id"`
	}
	Build struct{ Commit string }
}

type headInfo struct {
	HeadBranch     string             `json:"head_branch"`
	HeadSHA        string             `json:"head_sha"`
	HeadRepository struct{ ID int64 } `json:"head_repository"`
}

// qualify makes a full ref of a short name.
func qualify(kind, name string) string {
	switch {
	case name == "":
		return ""
	case strings.HasPrefix(name, "refs/"):
		return name
	case kind == "branch":
		return "refs/heads/" + name
	case kind == "tag":
		return "refs/tags/" + name
	}
	return ""
}

// isCommit reports whether s is a full object id. The one of zeros stands for "no commit".
func isCommit(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, "0") != ""
}
