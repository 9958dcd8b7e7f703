package main

import (
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/modelmiddleware"
	"shelly-plugin/shellytest"
)

func TestOnlyALargeRequestIsRefused(t *testing.T) {
	host := shellytest.New(t)
	host.Params = map[string]any{"max_tokens": 10}
	small, err := before(shelly.RunContext{}, modelmiddleware.Sending{Tokens: 10})
	if _, proceeds := small.(modelmiddleware.Proceed); !proceeds || err != nil {
		t.Errorf("%+v %v", small, err)
	}
	large, err := before(shelly.RunContext{}, modelmiddleware.Sending{Tokens: 11})
	reject, isRefused := large.(modelmiddleware.Reject)
	if err != nil || !isRefused || reject.Err.Message != "the request has about 11 tokens, 10 are allowed" {
		t.Errorf("%+v %v", large, err)
	}
}
