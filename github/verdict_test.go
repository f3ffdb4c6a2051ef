package github

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-de999ace/preloop/breaker"
)

func TestVerdict(t *testing.T) {
	now := time.Date(2026, 8, 20, 10, 0, 0, 0, time.UTC)
	const secondary = `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.","documentation_url":"https://docs.github.com/x#about-secondary-rate-limits"}`
	reset := "1787220120" // two minutes after now
	for name, tc := range map[string]struct {
		status int
		header map[string]string
		body   string
		kind   breaker.Kind
		wait   time.Duration
	}{
		"500":                        {status: 500, kind: breaker.Unavailable},
		"502 unicorn":                {status: 502, body: "<!DOCTYPE html><title>Unicorn! &middot; GitHub</title>", kind: breaker.Unavailable},
		"503 with limit headers":     {status: 503, header: map[string]string{"X-RateLimit-Remaining": "0", "Retry-After": "9"}, kind: breaker.Unavailable},
		"404":                        {status: 404, body: `{"message":"Not Found"}`, kind: breaker.Reachable},
		"422":                        {status: 422, kind: breaker.Reachable},
		"401":                        {status: 401, kind: breaker.Reachable},
		"403 without a permission":   {status: 403, header: map[string]string{"X-RateLimit-Remaining": "41", "X-RateLimit-Reset": reset}, body: `{"message":"Resource not accessible by integration"}`, kind: breaker.Reachable},
		"403 empty":                  {status: 403, kind: breaker.Reachable},
		"403 unreadable retry-after": {status: 403, header: map[string]string{"Retry-After": "soon"}, kind: breaker.Reachable},
		"403 negative retry-after":   {status: 403, header: map[string]string{"Retry-After": "-5"}, kind: breaker.Reachable},
		"403 primary":                {status: 403, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}, kind: breaker.RateLimited, wait: 2 * time.Minute},
		"403 primary, reset over":    {status: 403, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}, kind: breaker.RateLimited, wait: 1},
		"403 primary, by GitHub's clock": {
			status: 403, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset, "Date": "Thu, 20 Aug 2026 10:01:30 GMT"},
			kind: breaker.RateLimited, wait: 30 * time.Second,
		},
		"403 exhausted, no reset":        {status: 403, header: map[string]string{"X-RateLimit-Remaining": "0"}, kind: breaker.RateLimited},
		"403 retry-after":                {status: 403, header: map[string]string{"Retry-After": "17"}, kind: breaker.RateLimited, wait: 17 * time.Second},
		"403 retry-after date":           {status: 403, header: map[string]string{"Retry-After": "Thu, 20 Aug 2026 10:00:45 GMT"}, kind: breaker.RateLimited, wait: 45 * time.Second},
		"403 retry-after of zero":        {status: 403, header: map[string]string{"Retry-After": "0"}, kind: breaker.RateLimited, wait: 1},
		"403 retry-after beyond reason":  {status: 403, header: map[string]string{"Retry-After": "18446744073709551615"}, kind: breaker.RateLimited, wait: 1 << 31 * time.Second},
		"403 retry-after before reset":   {status: 403, header: map[string]string{"Retry-After": "17", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}, kind: breaker.RateLimited, wait: 17 * time.Second},
		"403 secondary, no header":       {status: 403, body: secondary, kind: breaker.RateLimited},
		"403 secondary, requests remain": {status: 403, header: map[string]string{"X-RateLimit-Remaining": "4290", "X-RateLimit-Reset": reset}, body: secondary, kind: breaker.RateLimited},
		"403 abuse":                      {status: 403, body: `{"message":"You have triggered an abuse detection mechanism."}`, kind: breaker.RateLimited},
		"429 alone":                      {status: 429, kind: breaker.RateLimited},
		"429 primary":                    {status: 429, header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}, kind: breaker.RateLimited, wait: 2 * time.Minute},
		"429 with a reset alone":         {status: 429, header: map[string]string{"X-RateLimit-Reset": reset}, kind: breaker.RateLimited, wait: 2 * time.Minute},
		"429 while requests remain":      {status: 429, header: map[string]string{"X-RateLimit-Remaining": "12", "X-RateLimit-Reset": reset}, kind: breaker.RateLimited},
		"429 retry-after":                {status: 429, header: map[string]string{"Retry-After": "3"}, kind: breaker.RateLimited, wait: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			for k, v := range tc.header {
				header.Set(k, v)
			}
			got := verdict(now, tc.status, header, readProblem(tc.status, []byte(tc.body)))
			if got.Kind != tc.kind || got.Wait != tc.wait {
				t.Errorf("got %d with a wait of %s, want %d and %s", got.Kind, got.Wait, tc.kind, tc.wait)
			}
		})
	}
}

func TestErrorBodies(t *testing.T) {
	long := strings.Repeat("ü", 1000)
	for name, tc := range map[string]struct{ body, want string }{
		"plain":            {`{"message":"Not Found"}`, "Not Found"},
		"object detail":    {`{"message":"Validation Failed","errors":[{"resource":"Hook","field":"url","code":"missing_field"}]}`, "Validation Failed: url missing_field"},
		"detail in words":  {`{"message":"Validation Failed","errors":[{"message":"too bad"}]}`, "Validation Failed: too bad"},
		"text detail":      {`{"message":"Validation Failed","errors":["too bad"]}`, "Validation Failed: too bad"},
		"detail of no use": {`{"message":"Validation Failed","errors":[7]}`, "Validation Failed"},
		"html":             {"<html>", "Unprocessable Entity (not JSON)"},
		"empty":            {"", "Unprocessable Entity"},
		"control":          {`{"message":"a\u001b[31mb\nc"}`, "a [31mb c"},
		"classic token":    {`{"message":"bad ghs_0123456789abcdefghijABCDEFGHIJ123456 here"}`, "bad [hidden] here"},
		"long token":       {`{"message":"bad ghs_eyJhbGci.eyJpc3M.c2ln_x-y here"}`, "bad [hidden] here"},
		"jwt":              {`{"message":"bad eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.c2ln here"}`, "bad [hidden] here"},
		"pat":              {`{"message":"bad github_pat_11AAAA_bbbb here"}`, "bad [hidden] here"},
		"long":             {`{"message":"` + long + `"}`, long[:maxMessage] + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := readProblem(422, []byte(tc.body)).sentence(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
