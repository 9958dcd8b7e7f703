// Package runmiddleware is for middlewares around each run of an agent or team.
package runmiddleware

import shelly "shelly-plugin"

// Before is the decision on a run that has not begun: Proceed, Answer or Reject.
type Before interface{ isBefore() }

// After is the decision on a run that has ended: Accept, Replace, Reject or Retry.
type After interface{ isAfter() }

// Proceed starts the run, with other input if it is not nil. After gets the state.
type Proceed struct {
	Input *[]shelly.Message
	State []byte
}

// Answer does not start the run: this message is its answer.
type Answer struct{ Message shelly.Message }

// Reject fails the run with this error.
type Reject struct{ Err *shelly.Error }

// Accept keeps the outcome.
type Accept struct{}

// Replace replaces the outcome with this message.
type Replace struct{ Message shelly.Message }

// Retry runs again, at most 8 times. Feedback says what was wrong with the reply; the agent reads it.
type Retry struct {
	Feedback *string
	DelayMs  uint64
	State    []byte
}

func (Proceed) isBefore() {}
func (Answer) isBefore()  {}
func (Reject) isBefore()  {}
func (Accept) isAfter()   {}
func (Replace) isAfter()  {}
func (Reject) isAfter()   {}
func (Retry) isAfter()    {}

// Outcome is the outcome of a run: the final message, or the error that ended the run.
type Outcome struct {
	Message shelly.Message
	Err     *shelly.Error
	Usage   shelly.Usage
	// The number of earlier attempts that this middleware asked to repeat.
	Attempt uint32
}

// Middleware is a run middleware. A function that is nil lets everything pass. Bound of each call: 1 second.
type Middleware struct {
	// Before is called before a run, with the task and not the chat.
	Before func(cx shelly.RunContext, input []shelly.Message) (Before, error)
	// After is called after a run, and after each retry.
	After func(cx shelly.RunContext, outcome Outcome, state []byte) (After, error)
}

var registered *Middleware

// Register makes this the run middleware of the plugin. Call it in an init function.
func Register(middleware Middleware) {
	if registered != nil {
		panic("a plugin has one run middleware; call runmiddleware.Register once")
	}
	registered = &middleware
}

func before(cx shelly.RunContext, input []shelly.Message) (Before, error) {
	if registered == nil || registered.Before == nil {
		return Proceed{}, nil
	}
	return registered.Before(cx, input)
}

func after(cx shelly.RunContext, outcome Outcome, state []byte) (After, error) {
	if registered == nil || registered.After == nil {
		return Accept{}, nil
	}
	return registered.After(cx, outcome, state)
}
