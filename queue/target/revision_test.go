package target

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRevision(t *testing.T) {
	t.Parallel()
	const sha = "6113728f27ae82c7b1a177c8d03f9e96e0adf246"
	zero := strings.Repeat("0", 40)
	tests := map[string]struct{ event, payload, ref, sha string }{
		"push":                {"push", `{"ref":"refs/heads/main","after":"SHA"}`, "refs/heads/main", sha},
		"push of a tag":       {"push", `{"ref":"refs/tags/v1","after":"SHA"}`, "refs/tags/v1", sha},
		"push that deletes":   {"push", `{"ref":"refs/heads/x","after":"` + zero + `"}`, "refs/heads/x", ""},
		"pull request":        {"pull_request", `{"pull_request":{"number":7,"head":{"sha":"SHA","ref":"main","repo":null}}}`, "refs/pull/7/merge", sha},
		"review":              {"pull_request_review", `{"pull_request":{"number":7,"head":{"sha":"SHA"}}}`, "refs/pull/7/merge", sha},
		"review comment":      {"pull_request_review_comment", `{"pull_request":{"number":7,"head":{"sha":"SHA"}}}`, "refs/pull/7/merge", sha},
		"check run":           {"check_run", `{"check_run":{"head_sha":"SHA","check_suite":{"head_branch":"main"}}}`, "refs/heads/main", sha},
		"check run of a fork": {"check_run", `{"check_run":{"head_sha":"SHA","check_suite":{"head_branch":null}}}`, "", sha},
		"check suite":         {"check_suite", `{"check_suite":{"head_sha":"SHA","head_branch":"main"}}`, "refs/heads/main", sha},
		"workflow run":        {"workflow_run", `{"repository":{"id":1},"workflow_run":{"head_sha":"SHA","head_branch":"main","head_repository":{"id":1}}}`, "refs/heads/main", sha},
		"… of a fork":         {"workflow_run", `{"repository":{"id":1},"workflow_run":{"head_sha":"SHA","head_branch":"main","head_repository":{"id":2}}}`, "", sha},
		"… of nobody":         {"workflow_run", `{"workflow_run":{"head_sha":"SHA","head_branch":"main"}}`, "", sha},
		"workflow job":        {"workflow_job", `{"workflow_job":{"head_sha":"SHA","head_branch":"main"}}`, "", sha},
		"merge group":         {"merge_group", `{"merge_group":{"head_sha":"SHA","head_ref":"refs/heads/gh-readonly-queue/main/pr-1"}}`, "refs/heads/gh-readonly-queue/main/pr-1", sha},
		"release":             {"release", `{"release":{"tag_name":"v1","target_commitish":"main"}}`, "refs/tags/v1", ""},
		"release of a commit": {"release", `{"release":{"tag_name":"v1","target_commitish":"SHA"}}`, "refs/tags/v1", sha},
		"create a branch":     {"create", `{"ref":"x/y","ref_type":"branch"}`, "refs/heads/x/y", ""},
		"create a tag":        {"create", `{"ref":"v1","ref_type":"tag"}`, "refs/tags/v1", ""},
		"create a repository": {"create", `{"ref":null,"ref_type":"repository"}`, "", ""},
		"delete":              {"delete", `{"ref":"x","ref_type":"branch"}`, "refs/heads/x", ""},
		"deployment":          {"deployment", `{"deployment":{"ref":"main","sha":"SHA"}}`, "main", sha},
		"… of a commit":       {"deployment_status", `{"deployment":{"ref":"SHA","sha":"SHA"}}`, "", sha},
		"workflow dispatch":   {"workflow_dispatch", `{"ref":"refs/heads/main"}`, "refs/heads/main", ""},
		"repository dispatch": {"repository_dispatch", `{"branch":"main"}`, "refs/heads/main", ""},
		"code scanning":       {"code_scanning_alert", `{"ref":"refs/heads/main","commit_oid":"SHA"}`, "refs/heads/main", sha},
		"status":              {"status", `{"sha":"SHA"}`, "", sha},
		"commit comment":      {"commit_comment", `{"comment":{"commit_id":"SHA"}}`, "", sha},
		"page build":          {"page_build", `{"build":{"commit":"SHA"}}`, "", sha},
		"an issue":            {"issues", `{"issue":{"number":7},"ref":"refs/heads/main","sha":"SHA"}`, "", ""},
		"an unknown event":    {"new_thing", `{"ref":"refs/heads/main","after":"SHA"}`, "", ""},
		"wrong types":         {"push", `{"ref":7,"repository":"x","pull_request":[],"after":"SHA","n":1e999}`, "", sha},
		"no object":           {"push", `[]`, "", ""},
		"no JSON":             {"push", `{`, "", ""},
		"no commit":           {"push", `{"ref":"refs/heads/main","after":"HEAD"}`, "refs/heads/main", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref, got := revision(tt.event, []byte(strings.ReplaceAll(tt.payload, "SHA", sha)))
			if ref != tt.ref || got != tt.sha {
				t.Errorf("ref %q, sha %q; want %q, %q", ref, got, tt.ref, tt.sha)
			}
		})
	}
}

func FuzzRevision(f *testing.F) {
	f.Add("push", []byte(`{"ref":"refs/heads/main","after":"6113728f27ae82c7b1a177c8d03f9e96e0adf246"}`))
	f.Add("pull_request", []byte(`{"pull_request":{"number":-1,"head":null}}`))
	f.Fuzz(func(t *testing.T, event string, payload []byte) {
		ref, sha := revision(event, payload)
		if sha != "" && !isCommit(sha) || !utf8.ValidString(ref) {
			t.Errorf("ref %q, sha %q", ref, sha)
		}
	})
}
