// @{about}
package main

import (
	"shelly-plugin/coordinator"
	"shelly-plugin/host"
)

// The params in the config.
type params struct {
	// The number of times that each member works.
	Rounds int `json:"rounds"`
}

func next(input coordinator.Input, state []byte) (coordinator.Step, error) {
	params, err := host.Params(params{Rounds: 1})
	if err != nil {
		return coordinator.Step{}, err
	}
	step, members := int(input.Step), input.Members
	if step >= len(members)*params.Rounds {
		// The answer of the team is the last reply in its chat.
		return coordinator.Step{Action: coordinator.Done{}}, nil
	}
	member := members[step%len(members)].Name
	return coordinator.Step{State: state, Action: coordinator.Run{{Member: member}}}, nil
}

func init() { coordinator.Register(next) }

// The host calls the coordinator; nothing calls this function.
func main() {}
