package github

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
)

func TestParseEndpoint(t *testing.T) {
	for name, tc := range map[string]struct{ text, want, web string }{
		"default":        {"", "https://api.github.com", "github.com"},
		"github.com":     {"https://api.github.com/", "https://api.github.com", "github.com"},
		"enterprise":     {"https://GHE.example.com/api/v3/", "https://ghe.example.com/api/v3", "ghe.example.com"},
		"data residency": {"https://api.acme.ghe.com", "https://api.acme.ghe.com", "acme.ghe.com"},
		"loopback":       {"http://127.0.0.1:8080", "http://127.0.0.1:8080", "127.0.0.1"},
		"loopback v6":    {"http://[::1]:8080/api/v3", "http://[::1]:8080/api/v3", "::1"},
		"localhost":      {"http://localhost:1", "http://localhost:1", "localhost"},
		"plain http":     {text: "http://ghe.example.com/api/v3"},
		"no scheme":      {text: "api.github.com"},
		"other scheme":   {text: "ftp://api.github.com"},
		"user":           {text: "https://user:secret@api.github.com"},
		"query":          {text: "https://api.github.com?x=1"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := ParseEndpoint(tc.text)
			if tc.want == "" {
				if err == nil {
					t.Fatalf("accepted as %s", e)
				}
				return
			}
			if err != nil || e.String() != tc.want || e.WebHost() != tc.web {
				t.Errorf("got %s, %s, %v", e, e.WebHost(), err)
			}
		})
	}
}

func TestLinksStayWithinTheAPI(t *testing.T) {
	const api = "https://ghe.example.com/api/v3"
	for name, tc := range map[string]struct{ target, want string }{
		"next page":        {api + "/app/hook/deliveries?per_page=100&cursor=v1_1", "/app/hook/deliveries?per_page=100&cursor=v1_1"},
		"default port":     {"https://ghe.example.com:443/api/v3/x", "/x"},
		"letter case":      {"https://GHE.example.com/api/v3/x", "/x"},
		"escaped":          {api + "/repos/a/b%20c", "/repos/a/b%20c"},
		"other host":       {target: "https://evil.example.com/api/v3/x"},
		"longer host":      {target: "https://ghe.example.com.evil.example/api/v3/x"},
		"other port":       {target: "https://ghe.example.com:8443/api/v3/x"},
		"plain http":       {target: "http://ghe.example.com/api/v3/x"},
		"user in it":       {target: "https://ghe.example.com@evil.example/api/v3/x"},
		"credentials":      {target: "https://u:p@ghe.example.com/api/v3/x"},
		"other prefix":     {target: "https://ghe.example.com/login"},
		"prefix's cousin":  {target: "https://ghe.example.com/api/v33/x"},
		"climbs out":       {target: api + "/../../login"},
		"climbs, escaped":  {target: api + "/%2e%2e/%2e%2e/login"},
		"relative":         {target: "/api/v3/x"},
		"scheme-relative":  {target: "//evil.example.com/api/v3/x"},
		"nothing below it": {target: api},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint, err := ParseEndpoint(api)
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(tc.target)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := endpoint.relative(u); got != tc.want || ok != (tc.want != "") {
				t.Errorf("got %q, %v, want %q", got, ok, tc.want)
			}
			c := &Client{endpoint: endpoint}
			next, err := c.nextPage(http.Header{"Link": {`<https://ghe.example.com/first>; rel="first", <` + tc.target + `>; rel="next"`}})
			if next != tc.want || errors.Is(err, ErrForeignLink) != (tc.want == "") {
				t.Errorf("next page: %q, %v", next, err)
			}
		})
	}
}

func TestNextPage(t *testing.T) {
	endpoint, _ := ParseEndpoint("")
	c := &Client{endpoint: endpoint}
	const next = `<https://api.github.com/x?cursor=2>`
	for name, tc := range map[string]struct {
		link []string
		want string
	}{
		"none":             {nil, ""},
		"no next":          {[]string{`<https://api.github.com/x>; rel="prev"`}, ""},
		"next":             {[]string{next + `; rel="next"`}, "/x?cursor=2"},
		"unquoted":         {[]string{next + `; rel=next`}, "/x?cursor=2"},
		"other parameters": {[]string{next + `; title="x"; rel="next"`}, "/x?cursor=2"},
		"second line":      {[]string{`<https://api.github.com/x>; rel="prev"`, next + `; rel="next"`}, "/x?cursor=2"},
		"rubbish":          {[]string{"rubbish"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := c.nextPage(http.Header{"Link": tc.link}); got != tc.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestCursorFromAStoreIsChecked(t *testing.T) {
	endpoint, _ := ParseEndpoint("https://ghe.example.com/api/v3")
	c := &Client{endpoint: endpoint}
	if got, err := c.cursorPath("/app/hook/deliveries?cursor=v1_2"); err != nil || got != "/app/hook/deliveries?cursor=v1_2" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, cursor := range []string{"@evil.example/x", ".evil.example/x", "/../../x", "v1_2", ":1/x", "/%zz"} {
		if got, err := c.cursorPath(cursor); err == nil {
			t.Errorf("%q was accepted as %q", cursor, got)
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"", "acme", "acme/", "/widgets", "acme/..", "./widgets", "acme/a/b", "acme/a?b", "acme/a#b", "acme/a%2fb", `acme\x/y`} {
		if path, err := repoPath(name); err == nil {
			t.Errorf("%q became %s", name, path)
		}
	}
	if path, err := repoPath("Acme-1/wid.gets_2"); err != nil || path != "/repos/Acme-1/wid.gets_2" {
		t.Errorf("got %s, %v", path, err)
	}
	if user, err := nameSegment("dependabot[bot]"); err != nil || user != "dependabot%5Bbot%5D" {
		t.Errorf("got %s, %v", user, err)
	}
}

func TestRoles(t *testing.T) {
	order := []Role{RoleNone, RoleRead, RoleTriage, RoleWrite, RoleMaintain, RoleAdmin}
	for i, a := range order {
		for j, b := range order {
			if a.AtLeast(b) != (i >= j) {
				t.Errorf("%s.AtLeast(%s) is %v", a, b, a.AtLeast(b))
			}
		}
	}
	if Role("owner").AtLeast(RoleNone) || RoleAdmin.AtLeast("owner") {
		t.Error("an unknown role counts")
	}
}
