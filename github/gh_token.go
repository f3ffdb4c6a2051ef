package github

import (
	"fmt"

	"github.com/cli/go-gh/v2/pkg/auth"
)

// GHToken returns the token that gh uses for the endpoint's host, from GH_TOKEN or GITHUB_TOKEN
// (GH_ENTERPRISE_TOKEN for a host of one's own), gh's configuration or its keyring, and where it
// came from.
func GHToken(e Endpoint) (token, from string, err error) {
	host := e.WebHost()
	token, from = auth.TokenForHost(host)
	if token == "" {
		variable := "GH_TOKEN"
		if auth.IsEnterprise(host) {
			variable = "GH_ENTERPRISE_TOKEN"
		}
		return "", "", fmt.Errorf("gh has no token for %s: set %s or run gh auth login --hostname %s, or configure a token for it", host, variable, host)
	}
	return token, from, nil
}
