package coordinator

import (
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/abitest"
	"shelly-plugin/internal/contract"
)

func TestStepsAndMomentsComeBackAsTheyWere(t *testing.T) {
	content := []shelly.Content{shelly.Text("a")}
	request := shelly.Request{Messages: []shelly.Message{}, Tools: []shelly.ToolSpec{}, Meta: shelly.Meta{}}
	for _, step := range []Step{
		{State: []byte{1}, Action: Run{{Member: "a"}, {Member: "b", Task: shelly.Some("c")}}},
		{Action: Done{Answer: &content}},
		{Action: Done{}},
		{Action: AskModel{shelly.Ask{Model: shelly.Some("m"), Request: request}}},
	} {
		abitest.CheckEqual(t, stepType, step)
	}
	in := input{
		moment: Moment{
			Cx:      shelly.RunContext{Run: "r", Agent: "t"},
			Step:    2,
			Members: []Member{{Name: "a", Role: "b", Description: "c"}},
			Reports: []Report{{Member: "a"}, {Member: "b", Failure: shelly.Timeout("late")}},
		},
		state: []byte{3},
	}
	abitest.CheckEqual(t, inputType, in)
}

func TestLayoutsAreThoseOfTheContract(t *testing.T) {
	abitest.CheckLayouts(t, map[string][2]abi.Layout{
		"report": {report.Layout, {Size: 48, Align: 8}},
		"input":  {inputType.Layout, {Size: 136, Align: 8}},
		"step":   {contract.ResultOf(stepType).Layout, {Size: 96, Align: 8}},
	})
}
