package github

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
	"sync"
)

// signaturePrefix begins every X-Hub-Signature-256 header.
const signaturePrefix = "sha256="

// Signature is the HMAC-SHA256 of a request body. GitHub computes it over the bytes on the wire,
// for form deliveries over the whole encoded form.
type Signature [sha256.Size]byte

// ParseSignature reads the value of an X-Hub-Signature-256 header. It reports false for anything
// but "sha256=" and 64 hexadecimal digits.
func ParseSignature(header string) (Signature, bool) {
	var sig Signature
	digits, ok := strings.CutPrefix(header, signaturePrefix)
	if !ok || len(digits) != hex.EncodedLen(len(sig)) {
		return sig, false
	}
	var buf [2 * sha256.Size]byte // a conversion to []byte would allocate
	copy(buf[:], digits)
	_, err := hex.Decode(sig[:], buf[:])
	return sig, err == nil
}

// Sign returns the X-Hub-Signature-256 header that GitHub would send with the body.
func Sign(secret, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return signaturePrefix + hex.EncodeToString(mac.Sum(nil))
}

// SignatureKey is a webhook secret prepared for verifying many bodies. It is safe for concurrent
// use.
type SignatureKey struct {
	states sync.Pool // of *macState; nil New for an empty secret
}

// macState keeps the sum beside the hash, because what is handed to an interface escapes.
type macState struct {
	mac hash.Hash
	sum Signature
}

// NewSignatureKey prepares a secret. It keeps no reference to the slice.
func NewSignatureKey(secret []byte) *SignatureKey {
	key := new(SignatureKey)
	if len(secret) == 0 {
		return key
	}
	secret = append([]byte(nil), secret...)
	key.states.New = func() any { return &macState{mac: hmac.New(sha256.New, secret)} }
	return key
}

// Verify reports in constant time whether the secret signed the body.
func (k *SignatureKey) Verify(sig Signature, body []byte) bool {
	state, ok := k.states.Get().(*macState)
	if !ok {
		return false
	}
	state.mac.Reset()
	state.mac.Write(body)
	state.mac.Sum(state.sum[:0])
	equal := hmac.Equal(state.sum[:], sig[:])
	k.states.Put(state)
	return equal
}
