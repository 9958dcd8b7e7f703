package coordinator

import (
	"reflect"
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/abitest"
	"shelly-plugin/internal/contract"
)

func TestStepsAndInputsComeBackAsTheyWere(t *testing.T) {
	request := shelly.Request{Messages: []shelly.Message{}, Tools: []shelly.ToolSpec{}, Meta: shelly.Meta{}}
	for _, step := range []Step{
		{State: []byte{1}, Action: Run{{Member: "a"}, {Member: "b", Task: shelly.Some("c")}}},
		{Action: Done{Answer: Content{shelly.Text("a")}}},
		{Action: Done{Answer: LastReply{}}},
		{Action: AskModel{shelly.Ask{Model: shelly.Some("m"), Request: request}}},
	} {
		abitest.CheckEqual(t, stepType, step)
	}
	in := parameters{
		input: Input{
			Cx:      shelly.RunContext{Run: "r", Agent: "t"},
			Step:    2,
			Members: []Member{{Name: "a", Role: "b", Description: "c"}},
			Reports: []Report{
				{Member: "a", Outcome: Replied{}},
				{Member: "b", Outcome: HandedOver("a")},
				{Member: "c", Outcome: Failed{shelly.Timeout("late")}},
			},
		},
		state: []byte{3},
	}
	abitest.CheckEqual(t, parametersType, in)
}

func TestTeamWithoutAnAnswerEndsWithItsLastReply(t *testing.T) {
	if got := abitest.Through(stepType, Step{Action: Done{}}).Action; !reflect.DeepEqual(got, Done{Answer: LastReply{}}) {
		t.Errorf("%+v", got)
	}
}

func TestLayoutsAreThoseOfTheContract(t *testing.T) {
	abitest.CheckLayouts(t, map[string][2]abi.Layout{
		"outcome":    {outcome.Layout, {Size: 40, Align: 8}},
		"report":     {report.Layout, {Size: 48, Align: 8}},
		"parameters": {parametersType.Layout, {Size: 136, Align: 8}},
		"answer":     {answer.Layout, {Size: 12, Align: 4}},
		"step":       {contract.ResultOf(stepType).Layout, {Size: 96, Align: 8}},
	})
}
