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

func eval(moment effect.Moment, state []byte) (effect.Step, error) {
	params, err := host.Params(params{Turns: 10})
	if err != nil {
		return effect.Step{}, err
	}
	if moment.Iteration < params.Turns {
		// Until then the host does not start this plugin again.
		return effect.Step{State: state, Wake: &effect.Wake{Iteration: shelly.Some(params.Turns)}}, nil
	}
	note := fmt.Sprintf("You have taken %d turns. Come to an end, or say what is still missing.", moment.Iteration)
	// A wake without a condition: no further call in this run.
	return effect.Step{State: state, Edits: []effect.Edit{effect.Note(note)}, Wake: &effect.Wake{}}, nil
}

func init() { effect.Register(eval) }

// The host calls the effect; nothing calls this function.
func main() {}
