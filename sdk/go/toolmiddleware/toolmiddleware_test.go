package toolmiddleware

import (
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/abitest"
	"shelly-plugin/internal/contract"
)

func TestDecisionsComeBackAsTheyWere(t *testing.T) {
	for _, decision := range []Decision{
		{Verdict: Allow{}, Arguments: shelly.Some("{}"), State: []byte{1}},
		{Verdict: AskPerson{Text: "sure?", Topic: "write"}},
		{Verdict: Answer{shelly.Text("a"), shelly.JSON("1")}},
		{Verdict: Deny("no")},
	} {
		abitest.CheckEqual(t, decisionType, decision)
	}
	if got := abitest.Through(decisionType, Decision{}); got.Verdict != (Allow{}) {
		t.Errorf("%+v: without a verdict the call is made", got)
	}
}

func TestLayoutsAreThoseOfTheContract(t *testing.T) {
	abitest.CheckLayouts(t, map[string][2]abi.Layout{
		"decision": {contract.ResultOf(decisionType).Layout, {Size: 48, Align: 8}},
		"input":    {inputType.Layout, {Size: 104, Align: 8}},
		"content":  {contract.ResultOf(contentType).Layout, {Size: 40, Align: 8}},
	})
}
