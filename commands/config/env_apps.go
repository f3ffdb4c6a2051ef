package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// putApp adds an app of the environment. It has the last word on an app of the file with the same
// id: what it brings replaces what the file says, the rest stays.
func (c *Config) putApp(r *reader, a App) {
	for i := range c.Apps {
		b := &c.Apps[i]
		if b.ID != a.ID || a.ID == 0 || r.at[b.path].name != "" {
			continue
		}
		if a.Name != "" {
			b.Name = a.Name
		}
		if a.ClientID != "" {
			b.ClientID = a.ClientID
		}
		if a.PrivateKey.IsSet() {
			b.PrivateKey = a.PrivateKey
		}
		if len(a.WebhookSecrets) > 0 {
			b.WebhookSecrets = a.WebhookSecrets
			r.at[join(b.path, "webhook_secrets")] = r.at[a.path]
		}
		return
	}
	if a.Name == "" {
		a.Name = a.Key()
	}
	c.Apps = append(c.Apps, a)
}

// appFromVariables gives the app of a set-up without a file: at most one. A variable that the file
// names with {env: …} belongs to that place and does not count here.
func (r *reader) appFromVariables() []App {
	const (
		idVar, keyVar, pathVar = "PRELOOP_GITHUB_APP_ID", "PRELOOP_GITHUB_APP_PRIVATE_KEY", "PRELOOP_GITHUB_APP_PRIVATE_KEY_PATH"
		secretVar              = "PRELOOP_WEBHOOK_SECRET"
	)
	own := func(name string) string {
		if r.namedInEnv[name] {
			return ""
		}
		return r.env(name)
	}
	fail := func(name, format string, args ...any) {
		r.errs = append(r.errs, &Error{Field: name, Message: fmt.Sprintf(format, args...)})
	}
	id, key, path := own(idVar), own(keyVar), own(pathVar)
	secret := strings.TrimRight(own(secretVar), "\r\n")
	a := App{path: secretVar}
	if id != "" {
		a.path = idVar
		if err := identifier(&a.ID)(id); err != nil {
			fail(idVar, "%v", err)
		}
	}
	r.at[a.path] = place{name: a.path}
	switch {
	case key != "" && path != "":
		fail(pathVar, "%s is set too: the key is in one place", keyVar)
	case key != "":
		a.PrivateKey = r.checkedKey(keyVar, unescapeNewlines(key), nil)
	case path != "":
		text, err := readSecret(path)
		a.PrivateKey = r.checkedKey(pathVar, text, err)
	}
	if id == "" && key+path != "" {
		fail(idVar, "it is not set: whose is the private key?")
	}
	if secret != "" {
		a.WebhookSecrets = []NamedSecret{{Name: secretVar, Value: r.remember(secret)}}
	}
	if id == "" && secret == "" {
		return nil
	}
	return []App{a}
}

func (r *reader) checkedKey(name, text string, err error) Secret {
	if err == nil {
		err = checkKey(text)
	}
	if err != nil {
		if !r.options.LenientSecrets {
			r.errs = append(r.errs, &Error{Field: name, Message: err.Error()})
		}
		return Secret{}
	}
	return r.remember(text)
}

// unescapeNewlines mends a PEM whose line ends an environment file could only write as \n.
func unescapeNewlines(key string) string {
	if strings.Contains(key, "\n") {
		return key
	}
	return strings.ReplaceAll(key, `\n`, "\n")
}

const appsVar = "PRELOOP_GITHUB_APPS_JSON"

// jsonApp is an element of PRELOOP_GITHUB_APPS_JSON, which is an array of
//
//	{"id": 12345, "name": "acme-bot", "client_id": "Iv23…",
//	 "private_key": "-----BEGIN…" or "private_key_path": "/etc/preloop/acme-bot.pem",
//	 "webhook_secret": "…" or "webhook_secrets": [{"name": "current", "secret": "…"}, …]}
//
// All but id may be left out. The variable is itself a place for secrets, so they stand in it.
type jsonApp struct {
	ID             json.Number `json:"id"`
	Name           string      `json:"name"`
	ClientID       string      `json:"client_id"`
	PrivateKey     string      `json:"private_key"`
	PrivateKeyPath string      `json:"private_key_path"`
	WebhookSecret  string      `json:"webhook_secret"`
	WebhookSecrets []struct {
		Name   string `json:"name"`
		Secret string `json:"secret"`
	} `json:"webhook_secrets"`
}

func (r *reader) appsFromJSON() []App {
	text := r.env(appsVar)
	if text == "" || r.namedInEnv[appsVar] {
		return nil
	}
	var raw []jsonApp
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&raw)
	if err == nil {
		if _, tail := decoder.Token(); !errors.Is(tail, io.EOF) {
			err = errors.New("a tail")
		}
	}
	if err != nil {
		r.errs = append(r.errs, &Error{Field: appsVar, Message: jsonMessage(err, decoder.InputOffset())})
		return nil
	}
	apps := make([]App, len(raw))
	for i, j := range raw {
		apps[i] = r.appFromJSON(j, i)
	}
	return apps
}

func (r *reader) appFromJSON(j jsonApp, i int) App {
	a := App{ClientID: j.ClientID, path: fmt.Sprintf("%s[%d]", appsVar, i)}
	r.at[a.path] = place{name: a.path}
	fail := func(key string, err error) {
		if err != nil {
			r.errs = append(r.errs, &Error{Field: join(a.path, key), Message: err.Error()})
		}
	}
	fail("id", identifier(&a.ID)(j.ID.String()))
	if j.Name != "" {
		fail("name", sourceLabel(&a.Name)(j.Name))
	}
	switch {
	case j.PrivateKey != "" && j.PrivateKeyPath != "":
		fail("private_key_path", errors.New("private_key is given too: the key is in one place"))
	case j.PrivateKey != "":
		a.PrivateKey = r.checkedKey(join(a.path, "private_key"), unescapeNewlines(j.PrivateKey), nil)
	case j.PrivateKeyPath != "":
		text, err := readSecret(j.PrivateKeyPath)
		a.PrivateKey = r.checkedKey(join(a.path, "private_key_path"), text, err)
	}
	if j.WebhookSecret != "" {
		a.WebhookSecrets = append(a.WebhookSecrets, NamedSecret{"webhook_secret", r.remember(j.WebhookSecret)})
	}
	for n, s := range j.WebhookSecrets {
		key := "webhook_secrets[" + strconv.Itoa(n) + "]"
		name := s.Name
		if name == "" {
			name = key
		}
		taken := slices.ContainsFunc(a.WebhookSecrets, func(other NamedSecret) bool { return other.Name == name })
		switch {
		case taken:
			fail(key, fmt.Errorf("the name %q is taken", name))
		case strings.TrimRight(s.Secret, "\r\n") == "":
			fail(key, errors.New("the secret is empty"))
		default:
			a.WebhookSecrets = append(a.WebhookSecrets, NamedSecret{name, r.remember(strings.TrimRight(s.Secret, "\r\n"))})
		}
	}
	return a
}

// jsonMessage says what is wrong without repeating any value of the text, which holds secrets.
func jsonMessage(err error, offset int64) string {
	var (
		syntax *json.SyntaxError
		kind   *json.UnmarshalTypeError
		what   string
	)
	switch {
	case errors.As(err, &syntax):
		what = fmt.Sprintf("this is not JSON, from byte %d on", syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		what = "the JSON ends too early"
	case errors.As(err, &kind) && kind.Field != "":
		what = fmt.Sprintf("the value of %q is of the wrong kind", kind.Field)
	case errors.As(err, &kind):
		what = "this is not an array of objects"
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		return strings.TrimPrefix(err.Error(), "json: ")
	default:
		what = fmt.Sprintf("something is wrong near byte %d", offset)
	}
	return what + `; want [{"id": 1, "private_key_path": "…", "webhook_secret": "…"}, …]`
}
