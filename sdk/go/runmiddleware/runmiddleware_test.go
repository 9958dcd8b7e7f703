package runmiddleware

import (
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/abitest"
	"shelly-plugin/internal/contract"
)

func TestDecisionsAndOutcomesComeBackAsTheyWere(t *testing.T) {
	message := shelly.Message{Role: shelly.Assistant, Parts: []shelly.Part{shelly.Text("a")}, Meta: shelly.Meta{}}
	input := []shelly.Message{message}
	for _, decision := range []Before{
		Proceed{Input: &input, State: []byte{1}}, Proceed{}, Answer{message}, Reject{shelly.Exhausted("no")},
	} {
		abitest.CheckEqual(t, beforeType, decision)
	}
	for _, decision := range []After{
		Accept{}, Replace{message}, Reject{shelly.Denied("no")}, Retry{Feedback: shelly.Some("more"), DelayMs: 1 << 33},
	} {
		abitest.CheckEqual(t, afterType, decision)
	}
	for _, outcome := range []Outcome{
		{Message: message, Usage: shelly.Usage{OutputTokens: 2}, Attempt: 3}, {Err: shelly.Timeout("late")},
	} {
		abitest.CheckEqual(t, outcomeType, outcome)
	}
}

func TestLayoutsAreThoseOfTheContract(t *testing.T) {
	abitest.CheckLayouts(t, map[string][2]abi.Layout{
		"before": {contract.ResultOf(beforeType).Layout, {Size: 48, Align: 8}},
		"input":  {inputType.Layout, {Size: 112, Align: 8}},
		"after":  {contract.ResultOf(afterType).Layout, {Size: 48, Align: 8}},
	})
}

func TestMiddlewareWithoutFunctionsLetsEverythingPass(t *testing.T) {
	decision, err := before(shelly.RunContext{}, nil)
	if _, proceeds := decision.(Proceed); !proceeds || err != nil {
		t.Errorf("%+v %v", decision, err)
	}
	kept, err := after(shelly.RunContext{}, Outcome{}, nil)
	if _, accepts := kept.(Accept); !accepts || err != nil {
		t.Errorf("%+v %v", kept, err)
	}
}
