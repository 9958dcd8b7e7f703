package main

import (
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/runmiddleware"
	"shelly-plugin/shellytest"
)

func TestEmptyAnswerIsAskedForOnceMore(t *testing.T) {
	host := shellytest.New(t)
	host.Params = map[string]any{"feedback": "Answer."}
	handedOver := shelly.Meta{{Key: "shelly.ending", Value: "handed-over"}}
	for _, each := range []struct {
		text    string
		attempt uint32
		meta    shelly.Meta
		isAsked bool
	}{
		{"yes", 0, nil, false},
		{" \n", 0, nil, true},
		{" ", 1, nil, false},
		{"", 0, handedOver, false},
	} {
		message := shelly.NewMessage(shelly.Assistant, each.text)
		message.Meta = each.meta
		decision, err := after(shelly.RunContext{}, runmiddleware.Outcome{Message: message, Attempt: each.attempt}, nil)
		retry, isAsked := decision.(runmiddleware.Retry)
		if err != nil || isAsked != each.isAsked || isAsked && *retry.Feedback != "Answer." {
			t.Errorf("%+v: %+v %v", each, decision, err)
		}
	}
}
