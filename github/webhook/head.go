package webhook

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/seed-de999ace/preloop/github"
)

// Keys of http.Header, in its canonical form, so that looking one up does not allocate.
const (
	headerEvent      = "X-Github-Event"
	headerDelivery   = "X-Github-Delivery"
	headerSignature  = "X-Hub-Signature-256"
	headerSHA1       = "X-Hub-Signature"
	headerTargetType = "X-Github-Hook-Installation-Target-Type"
	headerTargetID   = "X-Github-Hook-Installation-Target-Id"
)

const (
	maxEventName  = 64
	maxDeliveryID = 128
)

// head is what the headers say, checked before the body is read. Strings are empty until they have
// passed their check, so that a log shows nothing unchecked.
type head struct {
	event      string
	delivery   string
	form       bool
	signature  github.Signature
	targetType string
	targetID   int64
}

// checkHead refuses what cannot become a delivery whatever its body is.
func (rc *Receiver) checkHead(r *http.Request, in *inflight, sources *sourceSet) *refusal {
	h := &in.head
	if r.Method != http.MethodPost {
		return errMethod
	}
	if rc.draining.Load() {
		return errDraining
	}
	var ok bool
	if h.form, ok = contentType(r.Header["Content-Type"]); !ok {
		return errContentType
	}
	if encoding := r.Header["Content-Encoding"]; len(encoding) > 1 ||
		len(encoding) == 1 && encoding[0] != "" && !strings.EqualFold(encoding[0], "identity") {
		return errContentEncoding
	}
	if h.event, ok = token(r.Header[headerEvent], maxEventName, isEventByte); !ok {
		return errEvent
	}
	if h.delivery, ok = token(r.Header[headerDelivery], maxDeliveryID, isDeliveryByte); !ok {
		return errDelivery
	}
	switch values := r.Header[headerSignature]; {
	case len(values) == 0 && len(r.Header[headerSHA1]) > 0:
		return errSignatureSHA1
	case len(values) == 0:
		return errSignatureMissing
	case len(values) > 1:
		return errSignatureForm
	default:
		if h.signature, ok = github.ParseSignature(values[0]); !ok {
			return errSignatureForm
		}
	}
	if sources.empty() {
		return errNoSecret
	}
	if r.ContentLength > rc.cfg.MaxBody {
		return errTooLarge(rc.cfg.MaxBody)
	}
	// They only order the tries, so a wrong value does no harm.
	h.targetType = r.Header.Get(headerTargetType)
	h.targetID, _ = strconv.ParseInt(r.Header.Get(headerTargetID), 10, 64)
	return nil
}

// contentType tells form from JSON, and both from anything else.
func contentType(values []string) (form, ok bool) {
	if len(values) != 1 {
		return false, false
	}
	media, _, _ := strings.Cut(values[0], ";")
	media = strings.TrimSpace(media)
	switch {
	case strings.EqualFold(media, "application/json"):
		return false, true
	case strings.EqualFold(media, "application/x-www-form-urlencoded"):
		return true, true
	}
	return false, false
}

// token returns the header's one value if it has 1 to longest of the allowed bytes.
func token(values []string, longest int, allowed func(byte) bool) (string, bool) {
	if len(values) != 1 || values[0] == "" || len(values[0]) > longest {
		return "", false
	}
	for i := range len(values[0]) {
		if !allowed(values[0][i]) {
			return "", false
		}
	}
	return values[0], true
}

func isEventByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_'
}

func isDeliveryByte(c byte) bool {
	return isEventByte(c) || 'A' <= c && c <= 'Z' || c == '-' || c == '.'
}
