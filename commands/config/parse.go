package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-de999ace/preloop/queue/trigger"
)

// setter parses one value, however it was given, into its place. Its error says what is wrong
// without the place.
type setter func(text string) error

// tick is the floor of intervals that have none of their own: below it a loop would only spin.
const tick = 10 * time.Millisecond

var (
	triggerName = regexp.MustCompile(`^[a-z0-9-]{1,100}$`)
	sourceName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	loginName   = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9])?$`)
	repoName    = regexp.MustCompile(`^[A-Za-z0-9_-]+/[A-Za-z0-9._-]+$`)
	variable    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func plain(dst *string) setter {
	return func(text string) error {
		*dst = text
		return nil
	}
}

// matching takes text that fits re; want says what that is.
func matching(dst *string, re *regexp.Regexp, want string) setter {
	return func(text string) error {
		if !re.MatchString(text) {
			return fmt.Errorf("%q is not %s", text, want)
		}
		*dst = text
		return nil
	}
}

func oneOf(dst *string, words ...string) setter {
	return func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("%q is not one of %s%s", text, strings.Join(words, ", "), suggest(text, words))
		}
		*dst = text
		return nil
	}
}

func boolean(dst *bool) setter {
	return func(text string) error {
		switch strings.ToLower(text) {
		case "true", "on", "yes", "1":
			*dst = true
		case "false", "off", "no", "0":
			*dst = false
		default:
			return fmt.Errorf("%q is neither true (on) nor false (off)", text)
		}
		return nil
	}
}

func count(dst *int, floor int) setter {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		if n < floor {
			return fmt.Errorf("%d is below the least, %d", n, floor)
		}
		*dst = n
		return nil
	}
}

// identifier takes an id as GitHub numbers things.
func identifier(dst *int64) setter {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not an id (a number from 1)", text)
		}
		*dst = n
		return nil
	}
}

func duration(dst *time.Duration, floor time.Duration) setter {
	return func(text string) error {
		d, err := parseDuration(text)
		if err != nil {
			return err
		}
		if d < floor {
			return fmt.Errorf("%s is below the floor of %s", short(d), short(floor))
		}
		*dst = d
		return nil
	}
}

// seconds takes a whole number of seconds, as the …_SECS variables are.
func seconds(dst *time.Duration, floor time.Duration) setter {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n > math.MaxInt32 {
			return fmt.Errorf("%q is not a whole number of seconds", text)
		}
		return duration(dst, floor)(text + "s")
	}
}

// parseDuration takes Go's durations, and days.
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration like 500ms, 30s, 5m or 72h", text)
	}
	return d, nil
}

// short writes a duration as a person would: 1m, not 1m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// rate takes 20/1h, or 0 or none for no limit.
func rate(dst *trigger.Rate) setter {
	return func(text string) error {
		if text == "0" || text == "none" {
			*dst = trigger.Rate{}
			return nil
		}
		number, period, _ := strings.Cut(text, "/")
		n, err := strconv.Atoi(number)
		per, perErr := parseDuration(period)
		if err != nil || perErr != nil || n < 1 || per < time.Second {
			return fmt.Errorf("%q is not a rate like 20/1h (over at least 1s), or none", text)
		}
		*dst = trigger.Rate{Count: n, Per: per}
		return nil
	}
}

// units are the byte sizes that may be written.
var units = map[string]int64{
	"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9,
}

func size(dst *int64, floor int64) setter {
	return func(text string) error {
		digits := strings.TrimRight(text, "BKMGik ")
		unit, known := units[strings.TrimLeft(text[len(digits):], " ")]
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || !known || n < 0 || n > math.MaxInt64/unit {
			return fmt.Errorf("%q is not a size like 64KiB, 25MiB or 1GiB", text)
		}
		if n*unit < floor {
			return fmt.Errorf("%s is below the floor of %d bytes", text, floor)
		}
		*dst = n * unit
		return nil
	}
}

// address takes HOST:PORT, or systemd[:NAME] for a socket that systemd has opened.
func address(dst *string) setter {
	return func(text string) error {
		if text != "systemd" && !strings.HasPrefix(text, "systemd:") {
			_, port, err := net.SplitHostPort(text)
			if err != nil {
				return fmt.Errorf("%q is not an address like 127.0.0.1:9090", text)
			}
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
				return fmt.Errorf("%q: the port is not a number from 0 to 65535", text)
			}
		}
		*dst = text
		return nil
	}
}

// webURL takes an http(s) URL without credentials, query and fragment, and drops its last slash.
func webURL(dst *string) setter {
	return func(text string) error {
		u, err := parseWebURL(text)
		if err != nil {
			return err
		}
		if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
			return errors.New("the URL has a query or a fragment: give it without")
		}
		*dst = strings.TrimRight(text, "/")
		return nil
	}
}

// apiURL is a webURL that plain http reaches on this host alone: tokens are sent there.
func apiURL(dst *string) setter {
	return func(text string) error {
		if u, err := parseWebURL(text); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
			return errors.New("plain http is for a loopback address only: use https")
		}
		return webURL(dst)(text)
	}
}

// parseWebURL never repeats the URL in its error: it may hold a password.
func parseWebURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("want a URL like https://host/path")
	}
	if u.User != nil {
		return nil, errors.New("the URL holds credentials: they do not belong there")
	}
	return u, nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
