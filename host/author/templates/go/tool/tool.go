//go:build wasm

package main

import (
	"encoding/json"
	"fmt"
)

// The arguments of the tool.
type countArguments struct {
	Text string `json:"text"`
}

var tools = []Tool{{
	Name:        "@{tool}",
	Description: "Counts the words, lines and characters of a text.",
	// The model reads the descriptions.
	InputSchema: `{
		"type": "object",
		"properties": {"text": {"type": "string", "description": "The text to count in."}},
		"required": ["text"]
	}`,
	// It only computes from its arguments.
	Hints: ReadOnly | NonDestructive | Idempotent | ClosedWorld,
	Call: func(call Call) ([]Content, error) {
		var args countArguments
		if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
			return nil, Invalid(fmt.Sprintf("invalid arguments: %v", err))
		}
		if args.Text == "" {
			// The model reads the error and tries again: say what would be right.
			return nil, Invalid("`text` is empty; pass the text to count in")
		}
		counted, err := json.Marshal(countText(args.Text))
		if err != nil {
			return nil, err
		}
		return []Content{JSON(string(counted))}, nil
	},
}}
