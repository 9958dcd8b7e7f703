package effect

import (
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/abitest"
	"shelly-plugin/internal/contract"
)

func TestStepsAndInputsComeBackAsTheyWere(t *testing.T) {
	for _, step := range []Step{
		{State: []byte{1}, Edits: []Edit{
			Note("a"),
			ReplaceResult{CallID: "1", Content: []shelly.Content{shelly.Text("b")}},
			Replace{First: 1, Last: 1 << 40, Messages: []shelly.Message{}},
			HideTools{"x"},
			StopRun{Code: "stall", Message: "no progress"},
			shelly.Opaque{Kind: "k", JSON: "{}"},
		}, NextCall: Never{}},
		{Edits: []Edit{}, NextCall: Wake{Iteration: shelly.Some(uint32(3)), ModelMs: shelly.Some(uint64(4))}},
		{Edits: []Edit{}, NextCall: Wake{}},
		{NextCall: NextPhase{}, Ask: &shelly.Ask{Request: shelly.Request{
			Messages: []shelly.Message{}, Tools: []shelly.ToolSpec{}, Meta: shelly.Meta{},
		}}},
	} {
		abitest.CheckEqual(t, stepType, step)
	}
	in := Input{
		Cx: shelly.RunContext{Run: "r", Agent: "a", Depth: 2}, Phase: "later", Iteration: 1, Messages: 2, RequestTokens: 1 << 33,
		ContextWindow: shelly.Some(uint64(5)), RunUsage: shelly.Usage{OutputTokens: 6}, ModelMs: 7, ElapsedMs: 8,
		Reply: &shelly.Reply{Err: shelly.Denied("no")},
	}
	abitest.CheckEqual(t, parametersType, parameters{in, []byte{9}})
}

func TestStepThatDoesNotSayWhenIsForTheNextPhase(t *testing.T) {
	if got := abitest.Through(stepType, Step{}).NextCall; got != (NextPhase{}) {
		t.Errorf("%+v", got)
	}
	// The cases have the order of the contract.
	for tag, next := range []NextCall{NextPhase{}, Wake{}, Never{}} {
		var frame abi.Frame
		block := frame.Block(nextCall.Size)
		nextCall.Lower(&frame, block, next)
		if int(block[0]) != tag {
			t.Errorf("%T is case %d, not %d", next, block[0], tag)
		}
	}
}

func TestLayoutsAreThoseOfTheContract(t *testing.T) {
	abitest.CheckLayouts(t, map[string][2]abi.Layout{
		"edit":       {edit.Layout, {Size: 32, Align: 8}},
		"wake":       {wake.Layout, {Size: 56, Align: 8}},
		"next-call":  {nextCall.Layout, {Size: 64, Align: 8}},
		"step":       {stepType.Layout, {Size: 152, Align: 8}},
		"result":     {contract.ResultOf(stepType).Layout, {Size: 160, Align: 8}},
		"input":      {inputType.Layout, {Size: 240, Align: 8}},
		"parameters": {parametersType.Layout, {Size: 248, Align: 8}},
	})
}

func TestWindowIsFullOnceItsShareIsUsed(t *testing.T) {
	input := Input{RequestTokens: 79, ContextWindow: shelly.Some(uint64(100))}
	if input.Fills(0.8) || (Input{RequestTokens: 80}).Fills(0.8) {
		t.Error("it is not full, or of unknown size")
	}
	input.LastUsage = &shelly.Usage{InputTokens: 40, CacheReadTokens: 40}
	if !input.Fills(0.8) {
		t.Error("it is full")
	}
}
