package config

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"
)

// StoreKind is one of the two stores.
type StoreKind string

// The kinds of store.
const (
	SQLite   StoreKind = "sqlite"
	Postgres StoreKind = "postgres"
)

// StoreURL says where a store is. The zero StoreURL is unset.
type StoreURL struct {
	Kind StoreKind
	Path string // SQLite: the file, absolute
	URL  Secret // Postgres: the whole URL, which may hold a password
}

// ParseStoreURL takes sqlite:///absolute, sqlite://relative (to dir), postgres:// and postgresql://.
// Its errors never repeat the URL.
func ParseStoreURL(text, dir string) (StoreURL, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	switch scheme {
	case "sqlite":
		switch {
		case rest == "" || strings.HasSuffix(rest, "/"):
			return StoreURL{}, errors.New("sqlite:// names no file: want sqlite:///var/lib/preloop/preloop.db")
		case strings.ContainsAny(rest, "?#"):
			return StoreURL{}, errors.New("a sqlite:// URL takes no parameters")
		case strings.HasPrefix(rest, ":memory:"):
			return StoreURL{}, errors.New("a store in memory would lose deliveries: name a file")
		}
		if !filepath.IsAbs(rest) {
			rest = filepath.Join(dir, rest)
		}
		path, err := filepath.Abs(rest)
		if err != nil {
			return StoreURL{}, errors.New("finding the working directory of a relative sqlite:// path: it is gone")
		}
		return StoreURL{Kind: SQLite, Path: path}, nil
	case "postgres", "postgresql":
		if _, err := url.Parse(text); err != nil {
			return StoreURL{}, errors.New("this is not a URL: in a password, write @ : / ? # % as %40 %3A %2F %3F %23 %25")
		}
		return StoreURL{Kind: Postgres, URL: NewSecret(text)}, nil
	}
	return StoreURL{}, errors.New("want sqlite://PATH or postgres://HOST/DATABASE")
}

// IsSet reports whether there is a store.
func (s StoreURL) IsSet() bool { return s.Kind != "" }

// String gives the URL for people: of Postgres without its credentials and parameters.
func (s StoreURL) String() string {
	switch s.Kind {
	case SQLite:
		return "sqlite://" + s.Path
	case Postgres:
		if u, err := url.Parse(s.URL.Reveal()); err == nil {
			return (&url.URL{Scheme: "postgres", Host: u.Host, Path: u.Path}).String()
		}
	}
	return ""
}

// password is what must not be seen of the URL.
func (s StoreURL) passwords() []string {
	u, err := url.Parse(s.URL.Reveal())
	if err != nil {
		return nil
	}
	all := u.Query()["password"]
	if password, ok := u.User.Password(); ok {
		all = append(all, password)
	}
	return all
}

func storeURL(dst *StoreURL, dir string) setter {
	return func(text string) error {
		s, err := ParseStoreURL(text, dir)
		*dst = s
		return err
	}
}

// listenURL takes the direct address of a store behind a pooler.
func listenURL(dst *StoreURL) setter {
	return func(text string) error {
		s, err := ParseStoreURL(text, "")
		if err == nil && s.Kind != Postgres {
			err = errors.New("only Postgres has listeners: want postgres://HOST/DATABASE")
		}
		*dst = s
		return err
	}
}
