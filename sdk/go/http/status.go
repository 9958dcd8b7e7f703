package http

import (
	"encoding/json"
	"strconv"
	"strings"

	shelly "shelly-plugin"
)

const (
	mostComplaint = 64 << 10
	mostSentence  = 2_000
	mostRaw       = 300
)

// Ok returns the response if its status is 200 to 299, and otherwise the error that the status means, with what the server
// said.
func (response *Response) Ok() (*Response, error) {
	if response.Status >= 200 && response.Status < 300 {
		return response, nil
	}
	defer response.Close()
	said, words := response.complaint()
	failure := &shelly.Error{Kind: kindOf(response.Status, words)}
	failure.Message = response.origin + " answered " + strconv.Itoa(response.Status)
	if said != "" {
		failure.Message += ": " + said
	}
	if failure.Kind == shelly.KindRateLimited || failure.Kind == shelly.KindUnavailable {
		failure.AfterMs = response.retryAfter()
	}
	return nil, failure
}

func kindOf(status int, words []string) shelly.ErrorKind {
	// Vendors use some statuses for two things: an unpaid bill must not cause a pause.
	for _, word := range words {
		switch word {
		case "insufficient_quota":
			return shelly.KindExhausted
		case "context_length_exceeded":
			return shelly.KindTooLarge
		}
	}
	switch status {
	case 401, 403, 407:
		return shelly.KindDenied
	case 404, 410:
		return shelly.KindNotFound
	case 408, 409, 425:
		return shelly.KindUnavailable
	case 501, 505:
		return shelly.KindOther
	case 402:
		return shelly.KindExhausted
	case 413:
		return shelly.KindTooLarge
	case 429:
		return shelly.KindRateLimited
	}
	switch {
	case status >= 500:
		return shelly.KindUnavailable
	case status >= 400:
		return shelly.KindInvalid
	}
	return shelly.KindOther
}

// complaint returns what the server said, and words for programs in it.
func (response *Response) complaint() (string, []string) {
	var whole []byte
	for len(whole) < mostComplaint {
		piece, err := response.Piece()
		if err != nil || len(piece) == 0 {
			break
		}
		whole = append(whole, piece...)
	}
	text := strings.ToValidUTF8(string(whole[:min(len(whole), mostComplaint)]), "\uFFFD")
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		if strings.HasPrefix(strings.TrimSpace(text), "<") {
			// An HTML page explains nothing here.
			return "", nil
		}
		return shown(text, mostRaw), nil
	}
	if list, isList := value.([]any); isList && len(list) > 0 {
		value = list[0]
	}
	object, isObject := value.(map[string]any)
	if inner, has := object["error"]; isObject && has {
		if said, isText := inner.(string); isText {
			return shown(said, mostSentence), nil
		}
		if below, isObject := inner.(map[string]any); isObject {
			object = below
		}
	}
	var words []string
	for _, key := range []string{"type", "code"} {
		if word, isText := object[key].(string); isText {
			words = append(words, word)
		}
	}
	for _, key := range []string{"message", "detail"} {
		if said, isText := object[key].(string); isText && said != "" {
			return shown(said, mostSentence), words
		}
	}
	return shown(text, mostRaw), words
}

// retryAfter returns the milliseconds that the server asks to wait; nil if it does not say.
func (response *Response) retryAfter() *uint64 {
	if millis, err := strconv.ParseUint(response.Header("retry-after-ms"), 10, 64); err == nil {
		return &millis
	}
	if seconds, err := strconv.ParseFloat(response.Header("retry-after"), 64); err == nil && seconds >= 0 && seconds < 1e12 {
		millis := uint64(seconds * 1_000)
		return &millis
	}
	return nil
}

// shown returns a server's text as one line, shortened, without control characters.
func shown(text string, most int) string {
	plain := []rune(strings.Map(func(letter rune) rune {
		if letter < ' ' || letter >= 0x7f && letter < 0xa0 {
			return ' '
		}
		return letter
	}, strings.TrimSpace(text)))
	if len(plain) > most {
		return string(plain[:most]) + "…"
	}
	return string(plain)
}
