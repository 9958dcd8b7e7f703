// @{about}
package main

import (
	shelly "shelly-plugin"
	"shelly-plugin/host"
	"shelly-plugin/modelmiddleware"
)

// The params in the config.
type params struct {
	// The estimated tokens of the largest request.
	MaxTokens uint64 `json:"max_tokens"`
}

func before(_ shelly.RunContext, sending modelmiddleware.Sending) (modelmiddleware.Before, error) {
	params, err := host.Params(params{MaxTokens: 100_000})
	if err != nil {
		return nil, err
	}
	if most := params.MaxTokens; sending.Tokens > most {
		failure := shelly.TooLarge("the request has about %d tokens, %d are allowed", sending.Tokens, most)
		return modelmiddleware.Reject{Err: failure}, nil
	}
	return modelmiddleware.Proceed{}, nil
}

func init() { modelmiddleware.Register(modelmiddleware.Middleware{Before: before}) }

// The host calls the middleware; nothing calls this function.
func main() {}
