package github

import (
	"context"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	jwtBackdate = time.Minute     // GitHub advises it against clock drift
	jwtLifetime = 9 * time.Minute // GitHub's limit is 10, by its own clock
	jwtReuse    = 8 * time.Minute // sign anew before GitHub sees an expired one
)

// ParsePrivateKey reads an app's RSA key: PEM in PKCS#1, as GitHub hands it out, or PKCS#8. As
// environment variables like single lines, \n may stand for line ends and the whole may be base64.
// The error never holds the text.
func ParsePrivateKey(text []byte) (*rsa.PrivateKey, error) {
	pem := strings.TrimSpace(string(text))
	if !strings.Contains(pem, "-----BEGIN") {
		if plain, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(pem), "")); err == nil {
			pem = string(plain)
		}
	}
	key, err := jwt.ParseRSAPrivateKeyFromPEM([]byte(strings.ReplaceAll(pem, `\n`, "\n")))
	if err != nil {
		return nil, fmt.Errorf("reading the app's private key: want the RSA key in PEM that GitHub hands out, with its BEGIN and END lines")
	}
	return key, nil
}

// signer authorizes requests as the app itself. It is safe for concurrent use.
type signer struct {
	key      *rsa.PrivateKey
	appID    int64
	clientID string

	mu      sync.Mutex
	signed  string
	until   time.Time
	offset  time.Duration // GitHub's clock minus ours, once they were found to differ
	numeric bool          // this GitHub does not take a client id
}

func (s *signer) authorize(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.signed != "" && now.Before(s.until) {
		return s.signed, nil
	}
	theirs := now.Add(s.offset)
	signed, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
		IssuedAt:  jwt.NewNumericDate(theirs.Add(-jwtBackdate)),
		ExpiresAt: jwt.NewNumericDate(theirs.Add(jwtLifetime)),
		Issuer:    s.issuer(),
	}).SignedString(s.key)
	if err != nil {
		return "", fmt.Errorf("signing as the app: %w", err)
	}
	s.signed, s.until = signed, now.Add(jwtReuse)
	return signed, nil
}

func (s *signer) issuer() string {
	if s.clientID != "" && (!s.numeric || s.appID == 0) {
		return s.clientID
	}
	return strconv.FormatInt(s.appID, 10)
}

// refused learns from a 401 and reports whether another try makes sense: once GitHub's clock or
// its taste in issuers is known, the same answer again is final.
func (s *signer) refused(_ context.Context, _ string, e *Error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case skewed(e.Message) && !e.date.IsZero():
		offset := time.Until(e.date).Round(time.Second)
		if (offset - s.offset).Abs() < 2*time.Second {
			return false
		}
		s.offset = offset
	case wantsNumericIssuer(e.Message) && s.clientID != "" && s.appID != 0 && !s.numeric:
		s.numeric = true
	default:
		return false
	}
	s.signed = ""
	return true
}

func (s *signer) String() string { return "the app's private key" }
