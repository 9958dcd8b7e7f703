// Package coordinator is for coordinators, which decide which members of a team work next. The functions of the package host
// read the team's chat.
package coordinator

import shelly "shelly-plugin"

// Member is a member of the team.
type Member struct {
	Name, Role string
	// The tasks that the member is suited for.
	Description string
}

// Outcome is the outcome of a member's work: Replied, HandedOver or Failed.
type Outcome interface{ isOutcome() }

// Replied means that the member's reply is in the chat.
type Replied struct{}

// HandedOver means that the member asks for the member of this name to continue. The chat has a user message of the first
// member that states the reason. The coordinator still decides who works next.
type HandedOver string

// Failed means that the member failed, and the team continues without its reply.
type Failed struct{ Err *shelly.Error }

func (Replied) isOutcome()    {}
func (HandedOver) isOutcome() {}
func (Failed) isOutcome()     {}

// Report is the report on a member of the last step.
type Report struct {
	Member  string
	Outcome Outcome
}

// Input is the input of a coordinator.
type Input struct {
	Cx shelly.RunContext
	// The number of steps before this one.
	Step    uint32
	Members []Member
	Reports []Report
	// Only in the call that follows an AskModel.
	Reply *shelly.Reply
}

// Assignment is the assignment of a member. Only this member receives the task; without one it sees what is new in the chat.
type Assignment struct {
	Member string
	Task   *string
}

// Action is the action of a coordinator: Run, Done or AskModel.
type Action interface{ isAction() }

// Run starts these members in parallel.
type Run []Assignment

// Done ends the team's run with this answer; nil is LastReply.
type Done struct{ Answer Answer }

// Answer is the answer of a team whose run ends: LastReply or Content.
type Answer interface{ isAnswer() }

// LastReply is the last reply in the chat.
type LastReply struct{}

// Content must not be empty. Bound: 256 parts.
type Content []shelly.Content

func (LastReply) isAnswer() {}
func (Content) isAnswer()   {}

// AskModel asks a model, then calls the coordinator again. Power `ask-model`.
type AskModel struct{ Ask shelly.Ask }

func (Run) isAction()      {}
func (Done) isAction()     {}
func (AskModel) isAction() {}

// Step is the answer of a coordinator, with its state for the next call.
type Step struct {
	State  []byte
	Action Action
}

// Next is a coordinator. Each call runs in a fresh copy of the plugin: what a later call must know belongs into the state,
// which is empty at first. An error ends the team's run. Bounds: 1 second, 10,000 steps.
type Next func(input Input, state []byte) (Step, error)

var registered Next

// Register makes this function the coordinator of the plugin. Call it in an init function.
func Register(next Next) {
	if registered != nil {
		panic("a plugin has one coordinator; call coordinator.Register once")
	}
	registered = next
}

func dispatch(input Input, state []byte) (Step, error) {
	if registered == nil {
		return Step{}, shelly.Other("the plugin has no coordinator: call coordinator.Register in an init function")
	}
	return registered(input, state)
}
