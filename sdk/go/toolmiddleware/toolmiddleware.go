// Package toolmiddleware is for middlewares around each tool call, whatever the tool's origin.
package toolmiddleware

import shelly "shelly-plugin"

// Verdict is the decision on a call: Allow, AskPerson, Answer or Deny.
type Verdict interface{ isVerdict() }

// Allow makes the call.
type Allow struct{}

// AskPerson asks a person, and makes the call on yes. Denies it if nobody can be asked. After "yes, for this session" the host
// does not ask again for an equal topic of this plugin.
type AskPerson struct{ Text, Topic string }

// Answer does not make the call: this content is its result.
type Answer []shelly.Content

// Deny does not make the call: the model receives this text as an error. Name the rule.
type Deny string

func (Allow) isVerdict()     {}
func (AskPerson) isVerdict() {}
func (Answer) isVerdict()    {}
func (Deny) isVerdict()      {}

// Decision is the answer before a call.
type Decision struct {
	// Without it the call is made.
	Verdict Verdict
	// Other arguments, as JSON, for Allow and AskPerson.
	Arguments *string
	// What After gets.
	State []byte
}

// Target is the tool that is called.
type Target struct {
	// A plugin's id, `mcp:` and a server's name, or `host`.
	Origin string
	Hints  shelly.ToolHints
}

// Outcome is the result of a call, or the error that it failed with.
type Outcome struct {
	Content []shelly.Content
	Err     *shelly.Error
}

// Middleware is a tool middleware. A function that is nil lets everything pass. Bound of each call: 1 second.
type Middleware struct {
	// Before is called before a call.
	Before func(cx shelly.RunContext, call shelly.ToolCall, target Target) (Decision, error)
	// After is called after a call. Returns new content for the result, or nil to keep it.
	After func(cx shelly.RunContext, call shelly.ToolCall, outcome Outcome, state []byte) (*[]shelly.Content, error)
}

var registered *Middleware

// Register makes this the tool middleware of the plugin. Call it in an init function.
func Register(middleware Middleware) {
	if registered != nil {
		panic("a plugin has one tool middleware; call toolmiddleware.Register once")
	}
	registered = &middleware
}

func before(cx shelly.RunContext, call shelly.ToolCall, target Target) (Decision, error) {
	if registered == nil || registered.Before == nil {
		return Decision{}, nil
	}
	return registered.Before(cx, call, target)
}

func after(cx shelly.RunContext, call shelly.ToolCall, outcome Outcome, state []byte) (*[]shelly.Content, error) {
	if registered == nil || registered.After == nil {
		return nil, nil
	}
	return registered.After(cx, call, outcome, state)
}
