package webhook

import (
	"strings"

	"github.com/seed-de999ace/preloop/github"
)

// Source is an app, or a repository's or organization's webhook, whose secrets sign deliveries.
type Source struct {
	Key        string // "app-<id>", "hook-<id>": part of the delivery's key, so it never changes
	Name       string // what people call it; Key if empty
	TargetType string // integration, repository or organization, as in X-GitHub-Hook-Installation-Target-Type
	TargetID   int64  // the App's id, or 0
	Repo       string // a repository hook's owner/name, which its payloads must name
	Org        string // an organization hook's login, which its payloads must name
	Secrets    []Secret
}

// Secret is a webhook secret with the name under which its use is counted.
type Secret struct {
	Name  string
	Value []byte
}

// sourceSet is the sources with their secrets prepared. It is not changed once made.
type sourceSet struct {
	sources []*preparedSource
}

type preparedSource struct {
	Source
	keys []*github.SignatureKey // of Secrets
}

// signer is the source and the secret that signed a delivery.
type signer struct {
	source *preparedSource
	secret string
}

// newSourceSet copies the secrets. Empty ones are left out.
func newSourceSet(sources []Source) *sourceSet {
	set := new(sourceSet)
	for _, s := range sources {
		p := &preparedSource{Source: s}
		p.Secrets = nil
		for _, secret := range s.Secrets {
			if len(secret.Value) > 0 {
				p.Secrets = append(p.Secrets, Secret{Name: secret.Name})
				p.keys = append(p.keys, github.NewSignatureKey(secret.Value))
			}
		}
		if p.Name == "" {
			p.Name = p.Key
		}
		if len(p.keys) > 0 {
			set.sources = append(set.sources, p)
		}
	}
	return set
}

func (s *sourceSet) empty() bool { return len(s.sources) == 0 }

// verify tries every secret, those of the source that the headers name first: it is most likely
// theirs, and a try costs a hash of the body.
func (s *sourceSet) verify(h *head, body []byte) (signer, bool) {
	for _, named := range []bool{true, false} {
		for _, source := range s.sources {
			if source.namedBy(h) != named {
				continue
			}
			for i, key := range source.keys {
				if key.Verify(h.signature, body) {
					return signer{source, source.Secrets[i].Name}, true
				}
			}
		}
	}
	return signer{}, false
}

func (s *preparedSource) namedBy(h *head) bool {
	return s.TargetType == h.targetType && (s.TargetID == h.targetID || s.TargetID == 0)
}

// owns reports whether the source may send a payload with these facts. A repository's secret is
// known to its admins, and must not let them speak for another repository.
func (s *preparedSource) owns(f github.Facts) bool {
	switch {
	case s.Repo != "":
		return strings.EqualFold(f.Repo, s.Repo)
	case s.Org != "":
		return strings.EqualFold(f.Org, s.Org)
	}
	return true
}
