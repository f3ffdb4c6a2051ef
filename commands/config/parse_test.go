package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "15ms": 15 * time.Millisecond, "1h30m": 90 * time.Minute, "30d": 720 * time.Hour, "36500d": 36500 * day,
		"": -1, "5": -1, "5 s": -1, "1w": -1, "36501d": -1, "-1d": -1, "d": -1, "99999999h": -1,
	} {
		got, err := parseDuration(text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 10 * time.Second: "10s", time.Minute: "1m", 72 * time.Hour: "72h", 90 * time.Minute: "1h30m",
		time.Hour + time.Second: "1h0m1s", 10 * time.Minute: "10m", 15 * time.Millisecond: "15ms",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "17": 17, "17B": 17, "64KiB": 65536, "25MiB": 26214400, "1 GiB": 1 << 30, "2kB": 2000, "2MB": 2e6, "8589934591GiB": 8589934591 << 30,
		"": -1, "MiB": -1, "25Mi": -1, "1.5MiB": -1, "25mib": -1, "8589934592GiB": -1, "9223372036854775808": -1,
	} {
		var got int64
		err := size(&got, 0)(text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	var n int64
	if err := size(&n, 1)("0"); err == nil || err.Error() != "0 is below the floor of 1 bytes" {
		t.Errorf("below the floor: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for text, ok := range map[string]bool{
		"127.0.0.1:9090": true, ":0": true, "[::1]:80": true, "localhost:65535": true, "systemd": true, "systemd:web": true,
		"": false, "9090": false, "::1:80": false, "h:65536": false, "h:-1": false, "h:080": false, "h:": false, "h:http": false, "systemdx": false,
	} {
		var got string
		if err := address(&got)(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWebURLs(t *testing.T) {
	for text, want := range map[string]string{
		"https://h": "https://h", "http://h:1/x//": "http://h:1/x",
		"https://h?x=1": "", "https://h?": "", "https://h#x": "", "h": "", "https://": "", "https://:80": "", "ftp://h": "", "https://u@h": "", "https://h\x7f": "",
	} {
		var got string
		if err := webURL(&got)(text); (err == nil) != (want != "") || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, ok := range map[string]bool{
		"http://127.9.9.9": true, "http://[::1]:3000": true, "http://LOCALHOST": true, "https://h": true,
		"http://localhost.example.com": false, "http://0.0.0.0": false, "http://10.0.0.1": false, "gopher://127.0.0.1": false,
	} {
		var got string
		if err := apiURL(&got)(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"listen", "store", "store_listen", "on", "if", "when"}
	for word, want := range map[string]string{
		"wen": "when", "lsiten": "listen", "LISTEN": "listen", "storelisten": "store_listen", "fi": "if",
		"xyz": "", "": "", "colour": "", strings.Repeat("x", 100): "",
	} {
		got := suggest(word, known)
		if want != "" {
			want = `; did you mean "` + want + `"?`
		}
		if got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func TestKeysOfAnyLook(t *testing.T) {
	_, err := load(t, "\"a\\nb\": 1\n"+strings.Repeat("long", 40)+": 1\n", Options{})
	wantErrors(t, err, `preloop.yaml:1:1: "a\nb": unknown key`, "preloop.yaml:2:1: "+strings.Repeat("long", 15)+"…: unknown key")
}

func TestPrivateKeys(t *testing.T) {
	pkcs8 := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	elliptic, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"as GitHub makes them": {keyPEM(), ""},
		"PKCS #8":              {pkcs8(rsaKey()), ""},
		"elliptic":             {pkcs8(elliptic), "the private key is not an RSA key: want the .pem file that GitHub generated"},
		"cut off":              {keyPEM()[:200], "this is no private key: want the .pem file that GitHub generated"},
		"not a key":            {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), "the private key is damaged, or not the .pem file that GitHub generated"},
	} {
		got := ""
		if err := checkKey(tt.text); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestFilesThatAreTooLarge(t *testing.T) {
	_, err := load(t, strings.Repeat("# comment\n", 110_000), Options{})
	if err == nil || err.Error() != "reading the configuration: preloop.yaml is larger than 1 MiB" {
		t.Errorf("a large configuration: %v", err)
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = load(t, "system_token: { file: '"+path+"' }\n", Options{})
	wantErrors(t, err, "preloop.yaml:1:23: system_token.file: reading the secret: "+path+" is larger than 1 MiB")
}
