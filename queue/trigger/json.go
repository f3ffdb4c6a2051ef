package trigger

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
)

// errNotObject says nothing of where or how the payload is broken, as that would quote it.
var errNotObject = errors.New("the payload is not a JSON object")

// decodeBody reads a payload, a byte order mark before it allowed. Of a key that occurs twice the
// last one wins, as everywhere in preloop. Integers within int64 are int64, so that ids keep
// their digits; every other number is a float64, the largest one where it is larger than that.
func decodeBody(payload []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(payload, []byte("\xef\xbb\xbf"))))
	d.UseNumber()
	var body map[string]any
	if err := d.Decode(&body); err != nil || body == nil {
		return nil, errNotObject
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotObject
	}
	for k, v := range body {
		body[k] = plainNumbers(v)
	}
	return body, nil
}

// plainNumbers replaces every json.Number in v. The decoder bounds the depth at 10,000.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return plainNumber(string(v))
	case map[string]any:
		for k, e := range v {
			switch e.(type) {
			case json.Number, map[string]any, []any:
				v[k] = plainNumbers(e)
			}
		}
	case []any:
		for i, e := range v {
			v[i] = plainNumbers(e)
		}
	}
	return v
}

func plainNumber(s string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	f, _ := strconv.ParseFloat(s, 64) // out of range gives an infinity, which JSON cannot hold
	return max(-math.MaxFloat64, min(math.MaxFloat64, f))
}
