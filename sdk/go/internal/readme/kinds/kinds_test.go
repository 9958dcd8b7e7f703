package kinds

import (
	"reflect"
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/effect"
	"shelly-plugin/shellytest"
	"shelly-plugin/toolmiddleware"
)

func TestEffectMiddlewareAndProviderOfThePageWork(t *testing.T) {
	host := shellytest.New(t)
	step, err := host.Eval(remind, effect.Input{Iteration: 10}, nil)
	want := effect.Step{Edits: []effect.Edit{effect.Note("Come to an end.")}, NextCall: effect.Never{}}
	if err != nil || !reflect.DeepEqual(step, want) {
		t.Errorf("%+v %v", step, err)
	}
	decision, err := forbid(shelly.RunContext{}, shelly.ToolCall{Name: "delete_file"}, toolmiddleware.Target{})
	if _, denies := decision.Verdict.(toolmiddleware.Deny); !denies || err != nil {
		t.Errorf("%+v %v", decision, err)
	}
	host.Respond("POST", "https://api.example.com/chat", shellytest.Response{Body: "data: a\n\ndata: b\n\n"})
	request := shelly.Request{Messages: []shelly.Message{shelly.NewMessage(shelly.User, "Hello")}}
	if reply, err := complete("m", request); err != nil || reply.Text() != "ab" || host.Text() != "ab" {
		t.Errorf("%+v %v", reply, err)
	}
}
