// Package provider is for providers, which send requests to a model. Streamed puts a reply together while it arrives.
package provider

import shelly "shelly-plugin"

// Complete is a provider. `model` is the vendor's name for the model. It does not repeat failed requests: the host decides
// that. Bounds: 10 minutes, 16 MiB of reply.
type Complete func(model string, request shelly.Request) (shelly.Completion, error)

var registered Complete

// Register makes this function the provider of the plugin. Call it in an init function.
func Register(complete Complete) {
	if registered != nil {
		panic("a plugin has one provider; call provider.Register once")
	}
	registered = complete
}

func dispatch(model string, request shelly.Request) (shelly.Completion, error) {
	if registered == nil {
		return shelly.Completion{}, shelly.Other("the plugin has no provider: call provider.Register in an init function")
	}
	return registered(model, request)
}
