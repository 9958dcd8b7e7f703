// @{about}
package main

import (
	"strings"

	shelly "shelly-plugin"
	"shelly-plugin/host"
	"shelly-plugin/provider"
)

// The params in the config.
type params struct {
	// The text before each answer.
	Prefix string `json:"prefix"`
}

func complete(model string, request shelly.Request) (shelly.Completion, error) {
	params, err := host.Params(params{})
	if err != nil {
		return shelly.Completion{}, err
	}
	for at := len(request.Messages) - 1; at >= 0; at-- {
		if said := request.Messages[at]; said.Role == shelly.User {
			// Each piece is shown as soon as it is added.
			reply := provider.NewStreamed(model)
			for _, piece := range []string{params.Prefix, said.Text()} {
				if err := reply.Text(piece); err != nil {
					return shelly.Completion{}, err
				}
			}
			words := uint64(len(strings.Fields(said.Text())))
			reply.Usage(shelly.Usage{InputTokens: words, OutputTokens: words})
			return reply.Finish(shelly.EndTurn), nil
		}
	}
	return shelly.Completion{}, shelly.Invalid("the conversation has no message of a user")
}

func init() { provider.Register(complete) }

// The host calls the provider; nothing calls this function.
func main() {}
