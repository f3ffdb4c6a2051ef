package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Repo names a repository and, for an app, the installation that covers it.
type Repo struct {
	FullName     string // owner/name
	Installation int64  // 0: ask GitHub first; meaningless for a token
}

// Files are the paths that a change touches, the old ones of renames included.
type Files struct {
	Paths     []string
	Truncated bool // GitHub does not tell them all: 3,000 of a pull request, 300 of a comparison
}

const (
	maxPullFiles    = 3000
	maxCompareFiles = 300
)

type changedFile struct {
	Filename         string `json:"filename"`
	PreviousFilename string `json:"previous_filename"`
}

func (f *Files) add(files []changedFile) {
	for _, file := range files {
		f.Paths = append(f.Paths, file.Filename)
		if file.PreviousFilename != "" {
			f.Paths = append(f.Paths, file.PreviousFilename)
		}
	}
}

// PullRequestFiles reads the files that a pull request changes.
func (c *Client) PullRequestFiles(ctx context.Context, r Repo, number int64) (Files, error) {
	var files Files
	op := fmt.Sprintf("reading the files of %s#%d", r.FullName, number)
	repo, reader, err := c.reader(ctx, op, r, map[string]string{"pull_requests": "read"})
	if err != nil {
		return files, err
	}
	path, seen := fmt.Sprintf("%s/pulls/%d/files?per_page=100", repo, number), 0
	for path != "" && seen < maxPullFiles {
		var page []changedFile
		header, err := c.do(ctx, request{op: op, method: http.MethodGet, path: path, auth: reader}, &page)
		if err != nil {
			return Files{}, err
		}
		files.add(page)
		seen += len(page)
		if path, err = c.nextPage(header); err != nil {
			return Files{}, fmt.Errorf("%s: %w", op, err)
		}
	}
	files.Truncated = seen >= maxPullFiles
	return files, nil
}

// CompareFiles reads the files that differ between two commits.
func (c *Client) CompareFiles(ctx context.Context, r Repo, base, head string) (Files, error) {
	op := fmt.Sprintf("comparing commits of %s", r.FullName)
	repo, reader, err := c.reader(ctx, op, r, map[string]string{"contents": "read"})
	if err != nil {
		return Files{}, err
	}
	var out struct {
		Files []changedFile `json:"files"`
	}
	path := fmt.Sprintf("%s/compare/%s...%s?per_page=1", repo, url.PathEscape(base), url.PathEscape(head)) // pages are of commits; the first has the files
	if _, err := c.do(ctx, request{op: op, method: http.MethodGet, path: path, auth: reader}, &out); err != nil {
		return Files{}, err
	}
	files := Files{Truncated: len(out.Files) >= maxCompareFiles}
	files.add(out.Files)
	return files, nil
}

// Role is what somebody may do in a repository.
type Role string

// The roles, from the least to the greatest.
const (
	RoleNone     Role = "none"
	RoleRead     Role = "read"
	RoleTriage   Role = "triage"
	RoleWrite    Role = "write"
	RoleMaintain Role = "maintain"
	RoleAdmin    Role = "admin"
)

var roleRank = map[Role]int{RoleNone: 1, RoleRead: 2, RoleTriage: 3, RoleWrite: 4, RoleMaintain: 5, RoleAdmin: 6}

// AtLeast reports whether r includes least. An unknown role includes nothing and is included in nothing.
func (r Role) AtLeast(least Role) bool {
	return roleRank[r] > 0 && roleRank[least] > 0 && roleRank[r] >= roleRank[least]
}

// Permission reads the role of a user in a repository. A role that an organization made up counts
// as the base role that GitHub reports with it.
func (c *Client) Permission(ctx context.Context, r Repo, login string) (Role, error) {
	op := fmt.Sprintf("reading the permission of %s in %s", clean(login), r.FullName)
	user, err := nameSegment(login)
	if err != nil {
		return "", fmt.Errorf("%s: %w", op, err)
	}
	repo, reader, err := c.reader(ctx, op, r, map[string]string{"metadata": "read"})
	if err != nil {
		return "", err
	}
	var out struct {
		Permission Role `json:"permission"`
		RoleName   Role `json:"role_name"`
	}
	path := fmt.Sprintf("%s/collaborators/%s/permission", repo, user)
	if _, err := c.do(ctx, request{op: op, method: http.MethodGet, path: path, auth: reader}, &out); err != nil {
		return "", err
	}
	for _, role := range []Role{out.RoleName, out.Permission} {
		if roleRank[role] > 0 {
			return role, nil
		}
	}
	return "", fmt.Errorf("%s: GitHub's answer has no role that we know", op)
}

// Installation is where an app is installed.
type Installation struct {
	ID          int64             `json:"id"`
	Permissions map[string]string `json:"permissions"`
	SuspendedAt *string           `json:"suspended_at"`
}

// RepoInstallation reads which installation of the app covers a repository.
func (c *Client) RepoInstallation(ctx context.Context, fullName string) (Installation, error) {
	var i Installation
	op := "looking for the installation in " + clean(fullName)
	repo, err := repoPath(fullName)
	if err != nil {
		return i, fmt.Errorf("%s: %w", op, err)
	}
	_, err = c.do(ctx, request{op: op, method: http.MethodGet, path: repo + "/installation", lookup: true}, &i)
	return i, err
}

// reader returns the repository's path and what authorizes reading there: the token, or for an app
// an installation token for this repository and these permissions alone.
func (c *Client) reader(ctx context.Context, op string, r Repo, permissions map[string]string) (string, authorizer, error) {
	repo, err := repoPath(r.FullName)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", op, err)
	}
	if c.app == nil {
		return repo, c.own, nil
	}
	if r.Installation == 0 {
		found, err := c.RepoInstallation(ctx, r.FullName)
		if err != nil {
			return "", nil, err
		}
		r.Installation = found.ID
	}
	_, name, _ := strings.Cut(r.FullName, "/")
	return repo, installation{client: c, request: TokenRequest{
		Installation: r.Installation, Repositories: []string{name}, Permissions: permissions,
	}}, nil
}

// repoPath is a repository's place in the API.
func repoPath(fullName string) (string, error) {
	owner, name, _ := strings.Cut(fullName, "/")
	owner, err := nameSegment(owner)
	if err == nil {
		name, err = nameSegment(name)
	}
	return "/repos/" + owner + "/" + name, err
}

// nameSegment checks a name that becomes one segment of a path. Names come out of payloads.
func nameSegment(name string) (string, error) {
	if name == "" || name == "." || name == ".." || len(name) > 255 || strings.ContainsAny(name, "/\\?#%") {
		return "", fmt.Errorf("%q is no name on GitHub", clean(name))
	}
	return url.PathEscape(name), nil
}
