package main

import (
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/shellytest"
	"shelly-plugin/toolmiddleware"
)

func TestOnlyCallsThatMayChangeSomethingAreAskedAbout(t *testing.T) {
	host := shellytest.New(t)
	host.Params = map[string]any{"allow": []string{"note"}}
	for _, each := range []struct {
		name  string
		hints shelly.ToolHints
		want  toolmiddleware.Verdict
	}{
		{"read", shelly.ReadOnly, toolmiddleware.Allow{}},
		{"note", 0, toolmiddleware.Allow{}},
		{"write", 0, toolmiddleware.AskPerson{Text: "`write` may change something", Topic: "write"}},
	} {
		call := shelly.ToolCall{ID: "1", Name: each.name, Arguments: "{}"}
		decision, err := before(shelly.RunContext{}, call, toolmiddleware.Target{Origin: "host", Hints: each.hints})
		if err != nil || decision.Verdict != each.want {
			t.Errorf("%s: %+v %v", each.name, decision, err)
		}
	}
}
