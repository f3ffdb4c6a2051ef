package github

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"unicode"
)

// advice is a sentence of GitHub's and what to do about it.
type advice struct{ message, hint string }

// refusals lists what GitHub says about app credentials. The first match counts.
var refusals = []advice{
	{"JSON web token could not be decoded", "the private key is not one of this app's, or the app id is another app's: check both in the app's settings"},
	{"claim ('exp') is too far in the future", "this machine's clock is ahead of GitHub's: synchronise it (NTP)"},
	{"claim ('exp') must be a numeric value", "this machine's clock is behind GitHub's: synchronise it (NTP)"},
	{"claim ('iat') must be an Integer", "this machine's clock is ahead of GitHub's: synchronise it (NTP)"},
	{"Missing 'issuer' claim", "the app has neither an id nor a client id in the configuration: set one"},
	{"'Issuer' claim ('iss') must be an Integer", "this GitHub wants the app's numeric id: set id and leave out client_id"},
	{"Integration must generate a public key", "the app has no private key, or the id is not an app's: generate a key in the app's settings and check the id"},
	{"Integration not found", "the app was deleted, or its id is unknown on this host: check id and github_api_url"},
	{"installation has been suspended", "unsuspend the installation in the settings of the account that installed the app"},
	{"permissions requested are not granted", "grant the app these permissions in its settings, then accept them for the installation"},
}

// skewed reports whether GitHub refused a JWT for its times: the clocks differ.
func skewed(message string) bool {
	return strings.Contains(message, "claim ('exp')") || strings.Contains(message, "claim ('iat')")
}

// wantsNumericIssuer reports whether GitHub does not take a client id for an issuer.
func wantsNumericIssuer(message string) bool {
	return strings.Contains(message, "'Issuer' claim ('iss') must be an Integer")
}

// hint says what to fix after an answer, or nothing where the answer speaks for itself.
func (e *Error) hint(header http.Header, credential string) string {
	for _, r := range refusals {
		if strings.Contains(e.Message, r.message) {
			return r.hint
		}
	}
	accepted := header.Get("X-Accepted-GitHub-Permissions")
	switch {
	case e.Status == http.StatusNotFound && (e.minting || e.lookup):
		return "the app is not installed there: install it, or give it access to the repository"
	case e.Status == http.StatusUnauthorized:
		return credential + " was revoked, has expired or is not valid on this host: replace it"
	case e.Status == http.StatusForbidden && accepted != "":
		return "this needs the permission " + clean(accepted)
	case e.Status == http.StatusForbidden:
		return "the credential lacks a permission for this"
	}
	return ""
}

// secretLike matches GitHub's tokens and JWTs. No answer should repeat one; if one does, it stops here.
var secretLike = regexp.MustCompile(`\b(gh[a-z]_|github_pat_|v1\.[0-9a-f]{8})[A-Za-z0-9._-]+|\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9._-]+`)

// maxMessage is how much of GitHub's own words an error keeps, in bytes.
const maxMessage = 300

// clean makes foreign text fit for one line of a log.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, secretLike.ReplaceAllString(text, "[hidden]"))
	text = strings.TrimSpace(text)
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

// problem is the body of an answer that is no success.
type problem struct {
	Message          string            `json:"message"`
	DocumentationURL string            `json:"documentation_url"`
	Errors           []json.RawMessage `json:"errors"` // objects or plain strings
}

// readProblem takes what it can out of an error body, which need not be JSON.
func readProblem(status int, body []byte) problem {
	var p problem
	if json.Unmarshal(body, &p) == nil && p.Message != "" {
		return p
	}
	what := http.StatusText(status)
	if len(body) > 0 {
		what += " (not JSON)"
	}
	return problem{Message: strings.TrimSpace(what)}
}

// sentence is the message with the first of its details.
func (p problem) sentence() string {
	if len(p.Errors) == 0 {
		return clean(p.Message)
	}
	var text string
	var object struct{ Message, Field, Code string }
	if json.Unmarshal(p.Errors[0], &text) != nil && json.Unmarshal(p.Errors[0], &object) == nil {
		if text = object.Message; text == "" {
			text = strings.TrimSpace(fmt.Sprintf("%s %s", object.Field, object.Code))
		}
	}
	if text == "" {
		return clean(p.Message)
	}
	return clean(p.Message + ": " + text)
}
