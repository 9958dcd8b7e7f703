// @{about}
package main

import (
	"fmt"

	shelly "shelly-plugin"
	"shelly-plugin/effect"
	"shelly-plugin/host"
)

// The params in the config.
type params struct {
	// The number of turns after which the agent is reminded.
	Turns uint32 `json:"turns"`
}

func eval(input effect.Input, state []byte) (effect.Step, error) {
	params, err := host.Params(params{Turns: 10})
	if err != nil {
		return effect.Step{}, err
	}
	if input.Iteration < params.Turns {
		// Until then the host does not start this plugin again.
		return effect.Step{State: state, NextCall: effect.Wake{Iteration: shelly.Some(params.Turns)}}, nil
	}
	note := fmt.Sprintf("You have taken %d turns. Come to an end, or say what is still missing.", input.Iteration)
	return effect.Step{State: state, Edits: []effect.Edit{effect.Note(note)}, NextCall: effect.Never{}}, nil
}

func init() { effect.Register(eval) }

// The host calls the effect; nothing calls this function.
func main() {}
