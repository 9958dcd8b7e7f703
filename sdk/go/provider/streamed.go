package provider

import (
	"unicode/utf8"

	shelly "shelly-plugin"
	"shelly-plugin/internal/calls"
)

const (
	mostBytes = 16 << 20
	mostCalls = 1_024
	// A server may alternate between a letter of text and one of thinking.
	partBytes = 64
	// The host takes at most 64 KiB at once.
	mostEmitted = 64 << 10
)

// Streamed is a reply that is put together while it arrives. Each piece is shown as soon as it is added.
type Streamed struct {
	completion shelly.Completion
	// The text or reasoning that is being added to.
	open       []byte
	isThinking bool
	bytes      int
	calls      int
}

// NewStreamed begins a reply of a model.
func NewStreamed(model string) *Streamed {
	return &Streamed{completion: shelly.Completion{Model: model}}
}

// Text adds to the text of the reply.
func (reply *Streamed) Text(piece string) error { return reply.add(piece, false) }

// Thinking adds to the model's reasoning.
func (reply *Streamed) Thinking(piece string) error { return reply.add(piece, true) }

// Call adds a tool call. Its arguments are a JSON object.
func (reply *Streamed) Call(id, name, arguments string) error {
	if err := reply.grow(len(name) + len(arguments) + partBytes); err != nil {
		return err
	}
	if reply.calls++; reply.calls > mostCalls {
		return shelly.TooLarge("the model made more than %d tool calls in one reply", mostCalls)
	}
	reply.flush()
	if arguments == "" {
		arguments = "{}"
	}
	reply.completion.Parts = append(reply.completion.Parts, shelly.ToolCall{ID: id, Name: name, Arguments: arguments})
	calls.SinkEmit(calls.Delta{Kind: calls.DeltaToolCall, Text: name})
	return nil
}

// Usage sets the total usage so far.
func (reply *Streamed) Usage(total shelly.Usage) {
	reply.completion.Usage = total
	calls.SinkEmit(calls.Delta{Kind: calls.DeltaUsage, Usage: total})
}

// Finish returns the reply.
func (reply *Streamed) Finish(stop shelly.Stop) shelly.Completion {
	reply.flush()
	reply.completion.Stop = stop
	return reply.completion
}

func (reply *Streamed) add(piece string, isThinking bool) error {
	if piece == "" {
		return nil
	}
	if err := reply.grow(len(piece)); err != nil {
		return err
	}
	if reply.isThinking != isThinking || len(reply.open) == 0 {
		reply.flush()
		if err := reply.grow(partBytes); err != nil {
			return err
		}
		reply.isThinking = isThinking
	}
	reply.open = append(reply.open, piece...)
	kind := calls.DeltaText
	if isThinking {
		kind = calls.DeltaThinking
	}
	for len(piece) > 0 {
		end := min(len(piece), mostEmitted)
		// A letter is not cut in two.
		for end < len(piece) && end > mostEmitted-utf8.UTFMax && !utf8.RuneStart(piece[end]) {
			end--
		}
		calls.SinkEmit(calls.Delta{Kind: kind, Text: piece[:end]})
		piece = piece[end:]
	}
	return nil
}

// flush ends the text or the reasoning that is being added to.
func (reply *Streamed) flush() {
	if len(reply.open) == 0 {
		return
	}
	var part shelly.Part = shelly.Text(reply.open)
	if reply.isThinking {
		part = shelly.Thinking{Text: string(reply.open)}
	}
	reply.completion.Parts = append(reply.completion.Parts, part)
	reply.open = nil
}

func (reply *Streamed) grow(by int) error {
	if reply.bytes += by; reply.bytes > mostBytes {
		return shelly.TooLarge("the reply has more than %d bytes", mostBytes)
	}
	return nil
}
