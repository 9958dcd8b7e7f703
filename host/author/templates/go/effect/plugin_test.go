package main

import (
	"strings"
	"testing"

	"shelly-plugin/effect"
	"shelly-plugin/shellytest"
)

func TestAgentIsRemindedOnceTheTurnsAreTaken(t *testing.T) {
	host := shellytest.New(t)
	host.Params = map[string]any{"turns": 3}
	early, err := host.Eval(eval, effect.Input{Iteration: 2}, nil)
	if wake, waits := early.NextCall.(effect.Wake); err != nil || len(early.Edits) != 0 || !waits || *wake.Iteration != 3 {
		t.Errorf("%+v %v", early, err)
	}
	late, err := host.Eval(eval, effect.Input{Iteration: 3}, nil)
	if err != nil || len(late.Edits) != 1 || late.NextCall != (effect.Never{}) {
		t.Fatalf("%+v %v", late, err)
	}
	if note, isNote := late.Edits[0].(effect.Note); !isNote || !strings.Contains(string(note), "3 turns") {
		t.Errorf("%+v", late.Edits)
	}
}
