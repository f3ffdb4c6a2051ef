package config

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// minToken is the least length of a system token that an operator chose.
const minToken = 24

// tokenFile holds the generated system token, in the state directory.
const tokenFile = "system-token"

// stateDir is $STATE_DIRECTORY (the first, where systemd names several), else
// $XDG_STATE_HOME/preloop, else ~/.local/state/preloop. It is empty without any of them.
func stateDir(env func(string) string) string {
	if first, _, _ := strings.Cut(env("STATE_DIRECTORY"), ":"); first != "" {
		if abs, err := filepath.Abs(first); err == nil {
			return abs
		}
	}
	if dir := env("XDG_STATE_HOME"); filepath.IsAbs(dir) { // a relative one is to be ignored, its specification says
		return filepath.Join(dir, "preloop")
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "preloop")
	}
	return ""
}

// EnsureSystemToken gives the configured system token, else the state directory's, which it
// generates (mode 0600) if there is none. Processes that start together agree on one.
func (c *Config) EnsureSystemToken() (Secret, error) {
	token, err := c.FindSystemToken()
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return Secret{}, fmt.Errorf("creating the state directory: %w", err)
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	if err := publish(filepath.Join(c.StateDir, tokenFile), base64.RawURLEncoding.EncodeToString(random[:])+"\n"); err != nil {
		return Secret{}, fmt.Errorf("keeping a system token in the state directory: %w", err)
	}
	return c.FindSystemToken() // the one that won
}

// FindSystemToken gives the configured system token, else the one that a server on this host has
// left in the state directory. The error is fs.ErrNotExist when there is neither.
func (c *Config) FindSystemToken() (Secret, error) {
	if c.SystemToken.IsSet() {
		return c.SystemToken, nil
	}
	if c.StateDir == "" {
		return Secret{}, errors.New("looking for the system token: " + noStateDir)
	}
	path := filepath.Join(c.StateDir, tokenFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return Secret{}, fmt.Errorf("reading the system token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if err := checkToken(token); err != nil {
		return Secret{}, fmt.Errorf("reading the system token: %s: %w; remove the file to have one generated", path, err)
	}
	return NewSecret(token), nil
}

const noStateDir = "there is no state directory: set STATE_DIRECTORY, XDG_STATE_HOME or HOME"

// publish writes text to path whole or not at all, and leaves a file that is already there alone.
func publish(path, text string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".system-token-*") // O_EXCL, 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(text)
	if err == nil {
		err = temp.Sync()
	}
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, never replaces what another process has published meanwhile.
	switch err := os.Link(temp.Name(), path); {
	case err == nil, errors.Is(err, fs.ErrExist):
		return nil
	default: // a file system without links
		return os.Rename(temp.Name(), path)
	}
}

func checkToken(token string) error {
	if len(token) < minToken {
		return fmt.Errorf("a system token has at least %d characters", minToken)
	}
	return nil
}

func systemToken(dst *Secret) setter {
	return func(text string) error {
		text = strings.TrimRight(text, "\r\n")
		*dst = NewSecret(text)
		return checkToken(text)
	}
}
