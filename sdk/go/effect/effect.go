// Package effect is for effects: they inspect the agent's chat once per turn and return changes to it. The functions of the
// package host read the chat.
package effect

import shelly "shelly-plugin"

// Phase is the point in the agent's turn.
type Phase string

// The phases. Answer others, which are newer than this package, with no edits.
const (
	// Before the host builds the next request. Every call has its result.
	BeforeModel Phase = "before-model"
	// After the reply was added to the chat. Its calls have not run yet.
	AfterModel Phase = "after-model"
)

// Input is the input of an effect. Times are in milliseconds.
type Input struct {
	Cx    shelly.RunContext
	Phase Phase
	// The number of turns before this one.
	Iteration uint32
	// The number of messages in the chat.
	Messages uint32
	// The estimated tokens of the next request.
	RequestTokens uint64
	// The size of the model's context window, if it is known.
	ContextWindow *uint64
	LastUsage     *shelly.Usage
	// The usage of this agent in this run so far.
	RunUsage           shelly.Usage
	ModelMs, ElapsedMs uint64
	// Only in the call that follows a Step with Ask.
	Reply *shelly.Reply
}

// Fills returns true if the conversation fills this share of the context window; false if its size is unknown.
func (input Input) Fills(share float64) bool {
	if input.ContextWindow == nil || *input.ContextWindow == 0 {
		return false
	}
	counted := uint64(0)
	if last := input.LastUsage; last != nil {
		counted = last.InputTokens + last.CacheReadTokens + last.CacheWriteTokens
	}
	return float64(max(input.RequestTokens, counted)) >= float64(*input.ContextWindow)*share
}

// Edit is a change of the chat: Note, ReplaceResult, Replace, HideTools, StopRun or shelly.Opaque. Each needs a power, which
// plugin.toml asks for.
type Edit any

// Note adds a user message in the effect's name. Power `note`. Bound: 16 KiB.
type Note string

// ReplaceResult replaces the content of a tool's result. Power `edit-results`.
type ReplaceResult struct {
	CallID  string
	Content []shelly.Content
}

// Replace replaces the messages from First to Last, given by their ids, or removes them. Power `rewrite`.
type Replace struct {
	First, Last uint64
	Messages    []shelly.Message
}

// HideTools hides tools from the model until this effect is called again before the model. Power `hide-tools`.
type HideTools []string

// StopRun ends the run as failed. Code is for programs, Message for people. Power `stop`.
type StopRun struct{ Code, Message string }

// NextCall is the time of the next call: NextPhase, Wake or Never.
type NextCall interface{ isNextCall() }

// NextPhase is the next of the effect's phases.
type NextPhase struct{}

// Wake has the conditions under which the host calls an effect again: in the first of its phases in which one holds. A
// waiting effect costs nothing. Without a condition none ever holds: use Never for that.
type Wake struct {
	Iteration     *uint32
	RequestTokens *uint64
	RunTokens     *uint64
	ModelMs       *uint64
}

// Never means no further call in this run. An effect with the power `hide-tools` is still called for a tool that appears
// later.
type Never struct{}

func (NextPhase) isNextCall() {}
func (Wake) isNextCall()      {}
func (Never) isNextCall()     {}

// Step is the answer of an effect: its state for the next call, and edits, or a request to a model.
type Step struct {
	State []byte
	Edits []Edit
	// After it the host calls the effect again with the reply. Power `ask-model`.
	Ask *shelly.Ask
	// The next of the effect's phases if it is nil.
	NextCall NextCall
}

// Eval is an effect. Each call runs in a fresh copy of the plugin: what a later call must know belongs into the state, which
// is empty at first. Bound: 1 second.
type Eval func(input Input, state []byte) (Step, error)

var registered Eval

// Register makes this function the effect of the plugin. Call it in an init function.
func Register(eval Eval) {
	if registered != nil {
		panic("a plugin has one effect; call effect.Register once")
	}
	registered = eval
}

func dispatch(input Input, state []byte) (Step, error) {
	if registered == nil {
		return Step{}, shelly.Other("the plugin has no effect: call effect.Register in an init function")
	}
	return registered(input, state)
}
