package config

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
)

// hidden is what every printed secret looks like.
const hidden = "[hidden]"

// Secret is a value that no formatting, logging or encoding shows. The zero Secret is unset.
type Secret struct{ value *string } // a pointer: reflection into a private field prints an address, not the text

// NewSecret wraps a value. An empty one is unset.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// Reveal gives the value itself, empty when unset.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsSet reports whether there is a value.
func (s Secret) IsSet() bool { return s.value != nil }

// Equal compares two secrets in constant time for values of one length.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return hidden
}

// Format implements fmt.Formatter for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler, which JSON, YAML and slog's text use.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
