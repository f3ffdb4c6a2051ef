package github

import (
	"fmt"

	"github.com/cli/go-gh/v2/pkg/auth"
)

// GHToken returns the token that gh uses for the endpoint's host, from GH_TOKEN, GITHUB_TOKEN, gh's
// configuration or its keyring, and where it came from.
func GHToken(e Endpoint) (token, from string, err error) {
	token, from = auth.TokenForHost(e.WebHost())
	if token == "" {
		return "", "", fmt.Errorf("gh has no token for %s: set GH_TOKEN or run gh auth login", e.WebHost())
	}
	return token, from, nil
}
