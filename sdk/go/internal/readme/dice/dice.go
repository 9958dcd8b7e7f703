package dice

import (
	shelly "shelly-plugin"
	"shelly-plugin/tool"
)

type diceArgs struct {
	Rolls []int `json:"rolls" doc:"What was rolled, such as [6, 1, 4]." each_min:"1" each_max:"6"`
	Bonus int   `json:"bonus,omitempty" doc:"A number that is added."`
}

type diceSum struct {
	Sum int `json:"sum"`
}

var sumDice = tool.New("sum_dice", "Adds up dice.", func(_ tool.Call, args diceArgs) (diceSum, error) {
	if len(args.Rolls) == 0 {
		return diceSum{}, shelly.Invalid("`rolls` is empty; roll at least one die")
	}
	sum := args.Bonus
	for _, roll := range args.Rolls {
		sum += roll
	}
	return diceSum{sum}, nil
}).Hints(shelly.Pure)

func init() { tool.Register(sumDice) }
