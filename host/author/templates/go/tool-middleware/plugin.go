// @{about}
package main

import (
	"slices"

	shelly "shelly-plugin"
	"shelly-plugin/host"
	"shelly-plugin/toolmiddleware"
)

// The params in the config.
type params struct {
	// Tools that are called without a question.
	Allow []string `json:"allow"`
}

func before(_ shelly.RunContext, call shelly.ToolCall, target toolmiddleware.Target) (toolmiddleware.Decision, error) {
	params, err := host.Params(params{})
	if err != nil {
		return toolmiddleware.Decision{}, err
	}
	if target.Hints&shelly.ReadOnly != 0 || slices.Contains(params.Allow, call.Name) {
		return toolmiddleware.Decision{Verdict: toolmiddleware.Allow{}}, nil
	}
	// After "yes, for this session" the host does not ask again for the same topic.
	question := toolmiddleware.AskPerson{Text: "`" + call.Name + "` may change something", Topic: call.Name}
	return toolmiddleware.Decision{Verdict: question}, nil
}

func init() { toolmiddleware.Register(toolmiddleware.Middleware{Before: before}) }

// The host calls the middleware; nothing calls this function.
func main() {}
