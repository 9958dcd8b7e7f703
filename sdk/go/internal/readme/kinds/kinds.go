package kinds

import (
	"strings"

	shelly "shelly-plugin"
	"shelly-plugin/effect"
	"shelly-plugin/http"
	"shelly-plugin/provider"
	"shelly-plugin/toolmiddleware"
)

func remind(input effect.Input, state []byte) (effect.Step, error) {
	if input.Iteration < 10 {
		// Until then the host does not start this plugin again.
		return effect.Step{State: state, NextCall: effect.Wake{Iteration: shelly.Some(uint32(10))}}, nil
	}
	return effect.Step{State: state, Edits: []effect.Edit{effect.Note("Come to an end.")}, NextCall: effect.Never{}}, nil
}

func init() { effect.Register(remind) }

func forbid(_ shelly.RunContext, call shelly.ToolCall, _ toolmiddleware.Target) (toolmiddleware.Decision, error) {
	if strings.Contains(call.Name, "delete") {
		return toolmiddleware.Decision{Verdict: toolmiddleware.Deny("files are not deleted here")}, nil
	}
	return toolmiddleware.Decision{}, nil
}

func init() { toolmiddleware.Register(toolmiddleware.Middleware{Before: forbid}) }

func complete(model string, request shelly.Request) (shelly.Completion, error) {
	said := []map[string]string{}
	for _, message := range request.Messages {
		said = append(said, map[string]string{"role": message.Role.String(), "content": message.Text()})
	}
	response, err := http.Post("https://api.example.com/chat", map[string]any{"model": model, "messages": said})
	if err != nil {
		return shelly.Completion{}, err
	}
	if response, err = response.Ok(); err != nil {
		return shelly.Completion{}, err
	}
	reply := provider.NewStreamed(model)
	// Each piece is shown as soon as it is added.
	err = response.Events(func(event http.Event) error { return reply.Text(event.Data) })
	return reply.Finish(shelly.EndTurn), err
}

func init() { provider.Register(complete) }
