package modelmiddleware

import (
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/abitest"
	"shelly-plugin/internal/contract"
)

func TestDecisionsAndInputsComeBackAsTheyWere(t *testing.T) {
	completion := shelly.Completion{Parts: []shelly.Part{shelly.Text("a")}, Stop: shelly.MaxTokens, Meta: shelly.Meta{}}
	request := shelly.Request{Messages: []shelly.Message{}, Tools: []shelly.ToolSpec{}, Meta: shelly.Meta{}}
	for _, decision := range []Before{
		Proceed{Model: shelly.Some("m"), Request: &request, State: []byte{1}}, Proceed{}, Answer{completion},
		Reject{shelly.RateLimited(shelly.Some(uint64(5)), "wait")},
	} {
		abitest.CheckEqual(t, beforeType, decision)
	}
	for _, decision := range []After{
		Accept{}, Replace{completion}, Reject{shelly.Denied("no")}, Retry{Model: shelly.Some("m"), DelayMs: 1 << 33},
	} {
		abitest.CheckEqual(t, afterType, decision)
	}
	in := input{
		cx:      shelly.RunContext{Run: "r", Agent: "a", Depth: 1},
		sending: Sending{Model: "m", Digest: "d", Tokens: 1 << 40, Attempt: 2},
		reply:   shelly.Reply{Completion: completion},
		state:   []byte{3},
	}
	abitest.CheckEqual(t, inputType, in)
}

func TestLayoutsAreThoseOfTheContract(t *testing.T) {
	abitest.CheckLayouts(t, map[string][2]abi.Layout{
		"before": {contract.ResultOf(beforeType).Layout, {Size: 104, Align: 8}},
		"input":  {inputType.Layout, {Size: 144, Align: 8}},
		"after":  {contract.ResultOf(afterType).Layout, {Size: 88, Align: 8}},
	})
}

func TestMiddlewareWithoutFunctionsLetsEverythingPass(t *testing.T) {
	decision, err := before(shelly.RunContext{}, Sending{})
	if _, proceeds := decision.(Proceed); !proceeds || err != nil {
		t.Errorf("%+v %v", decision, err)
	}
	kept, err := after(shelly.RunContext{}, Sending{}, shelly.Reply{}, nil)
	if _, accepts := kept.(Accept); !accepts || err != nil {
		t.Errorf("%+v %v", kept, err)
	}
}
