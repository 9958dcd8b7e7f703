// @{about}
package main

import (
	"strings"

	shelly "shelly-plugin"
	"shelly-plugin/host"
	"shelly-plugin/runmiddleware"
)

// The params in the config.
type params struct {
	// What the agent is told after an empty answer.
	Feedback string `json:"feedback"`
}

func after(_ shelly.RunContext, outcome runmiddleware.Outcome, state []byte) (runmiddleware.After, error) {
	// The message of an agent that hands over or has failed is no answer.
	isAnswer := outcome.Err == nil && outcome.Message.IsAnswer()
	if !isAnswer || strings.TrimSpace(outcome.Message.Text()) != "" || outcome.Attempt > 0 {
		return runmiddleware.Accept{}, nil
	}
	params, err := host.Params(params{Feedback: "Your answer was empty. Answer in words."})
	return runmiddleware.Retry{Feedback: &params.Feedback, State: state}, err
}

func init() { runmiddleware.Register(runmiddleware.Middleware{After: after}) }

// The host calls the middleware; nothing calls this function.
func main() {}
