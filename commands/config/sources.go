package config

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
)

// Source is what signs deliveries: an app or a hook, as the receiver and the store know it.
type Source struct {
	Key        string // app-<id>, hook-<id>, hook-<repo or org> or default: what the store files it under
	Name       string // what people call it
	TargetType string // as X-GitHub-Hook-Installation-Target-Type says; empty when it is unknown
	TargetID   int64  // as X-GitHub-Hook-Installation-Target-ID says; 0 when it is unknown
	HookID     int64  // as X-GitHub-Hook-ID says; 0 when it is unknown
	Repo, Org  string // the only one that it may deliver for; empty for an app
	Secrets    []NamedSecret
}

// Key identifies the app in the store, whatever its name.
func (a App) Key() string {
	if a.ID == 0 {
		return "default"
	}
	return "app-" + strconv.FormatInt(a.ID, 10)
}

// Key identifies the hook in the store, whatever its name.
func (h Hook) Key() string {
	if h.ID == 0 {
		return "hook-" + strings.ToLower(h.Repo+h.Org)
	}
	return "hook-" + strconv.FormatInt(h.ID, 10)
}

// Sources lists apps, then hooks.
func (c *Config) Sources() []Source {
	var all []Source
	for _, a := range c.Apps {
		s := Source{Key: a.Key(), Name: a.Name, TargetID: a.ID, Secrets: a.WebhookSecrets}
		if a.ID != 0 {
			s.TargetType = "integration"
		}
		all = append(all, s)
	}
	for _, h := range c.Hooks {
		s := Source{Key: h.Key(), Name: h.Name, TargetType: "repository", HookID: h.ID, Repo: h.Repo, Org: h.Org, Secrets: h.WebhookSecrets}
		if h.Org != "" {
			s.TargetType = "organization"
		}
		all = append(all, s)
	}
	return all
}

func (c *Config) readApps(v value) {
	v.list(func(_ int, item value) {
		a := App{path: item.path}
		item.object(fields{
			"id":              scalar(identifier(&a.ID)),
			"name":            scalar(sourceLabel(&a.Name)),
			"client_id":       scalar(plain(&a.ClientID)),
			"private_key":     secret(&a.PrivateKey, checkKey),
			"webhook_secrets": webhookSecrets(&a.WebhookSecrets),
		})
		if !item.given("id") {
			item.missing("id is missing: the number on the app's settings page")
		}
		switch {
		case a.ID == 0:
			a.Name = ""
		case a.Name == "":
			a.Name = a.Key()
		}
		c.Apps = append(c.Apps, a)
	})
}

func (c *Config) readHooks(v value) {
	v.list(func(_ int, item value) {
		h := Hook{path: item.path}
		item.object(fields{
			"name":            scalar(sourceLabel(&h.Name)),
			"repo":            scalar(matching(&h.Repo, repoName, "a repository like acme/widgets")),
			"org":             scalar(matching(&h.Org, loginName, "an organization's login")),
			"id":              scalar(identifier(&h.ID)),
			"token":           secret(&h.Token, nil),
			"webhook_secrets": webhookSecrets(&h.WebhookSecrets),
		})
		switch repo, org := item.given("repo"), item.given("org"); {
		case repo && org:
			item.fail("both repo and org: a webhook belongs to one")
		case !repo && !org:
			item.missing("repo or org is missing")
		}
		if !item.given("webhook_secrets") {
			item.missing("webhook_secrets is missing: nothing could be verified")
		}
		if h.Name == "" {
			h.Name = strings.ReplaceAll(h.Repo+h.Org, "/", "-")
		}
		c.Hooks = append(c.Hooks, h)
	})
}

func sourceLabel(dst *string) setter {
	return matching(dst, sourceName, "a name of letters, digits, dot, dash and underscore")
}

// webhookSecrets reads [{name, env | file}]; one without a name is called after its place.
func webhookSecrets(dst *[]NamedSecret) func(value) {
	return func(v value) {
		lines := map[string]string{}
		v.list(func(_ int, item value) {
			if item.inline() {
				return
			}
			var (
				s    NamedSecret
				from ref
			)
			known := from.fields()
			known["name"] = scalar(sourceLabel(&s.Name))
			item.object(known)
			if s.Name == "" && !item.given("name") {
				s.Name = from.env
				if from.file != "" {
					s.Name = filepath.Base(from.file)
				}
			}
			if first, twice := lines[s.Name]; twice && s.Name != "" {
				item.fail("the name %q is taken by %s", s.Name, first)
			}
			lines[s.Name] = item.path
			if item.follow(from, &s.Value, nil); s.Value.IsSet() {
				*dst = append(*dst, s)
			}
		})
	}
}

// checkKey accepts the PEM of an RSA key, as GitHub hands it out or as PKCS #8.
func checkKey(text string) error {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return errors.New("this is no private key: want the .pem file that GitHub generated")
	}
	if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return errors.New("the private key is damaged, or not the .pem file that GitHub generated")
	}
	if _, ok := key.(*rsa.PrivateKey); !ok {
		return errors.New("the private key is not an RSA key: want the .pem file that GitHub generated")
	}
	return nil
}
