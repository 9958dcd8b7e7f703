// Package modelmiddleware is for middlewares around each request to a model. host.Outgoing reads the request.
package modelmiddleware

import shelly "shelly-plugin"

// Before is the decision on a request: Proceed, Answer or Reject.
type Before interface{ isBefore() }

// After is the decision on a reply: Accept, Replace, Reject or Retry.
type After interface{ isAfter() }

// Proceed sends the request. Another model must be granted; another request needs the power `rewrite`.
type Proceed struct {
	Model   *string
	Request *shelly.Request
	State   []byte
}

// Answer does not send the request: this completion is the reply. Power `answer`.
type Answer struct{ Completion shelly.Completion }

// Reject fails the request with this error.
type Reject struct{ Err *shelly.Error }

// Accept keeps the reply.
type Accept struct{}

// Replace replaces the reply with this completion. Power `rewrite`.
type Replace struct{ Completion shelly.Completion }

// Retry sends the request again, at most 8 times, to another model if it is not nil.
type Retry struct {
	Model   *string
	DelayMs uint64
	State   []byte
}

func (Proceed) isBefore() {}
func (Answer) isBefore()  {}
func (Reject) isBefore()  {}
func (Accept) isAfter()   {}
func (Replace) isAfter()  {}
func (Reject) isAfter()   {}
func (Retry) isAfter()    {}

// Sending is a request that is about to be sent, or was sent.
type Sending struct {
	// The model's name in the host's config.
	Model string
	// The SHA-256 of the request without its model, in hexadecimal.
	Digest string
	// The estimated tokens of the request.
	Tokens uint64
	// The number of earlier attempts that this middleware asked to repeat.
	Attempt uint32
}

// Middleware is a model middleware. A function that is nil lets everything pass. Bound of each call: 1 second.
type Middleware struct {
	// Before is called before a request.
	Before func(cx shelly.RunContext, sending Sending) (Before, error)
	// After is called after a request, and after each retry.
	After func(cx shelly.RunContext, sending Sending, reply shelly.Reply, state []byte) (After, error)
}

var registered *Middleware

// Register makes this the model middleware of the plugin. Call it in an init function.
func Register(middleware Middleware) {
	if registered != nil {
		panic("a plugin has one model middleware; call modelmiddleware.Register once")
	}
	registered = &middleware
}

func before(cx shelly.RunContext, sending Sending) (Before, error) {
	if registered == nil || registered.Before == nil {
		return Proceed{}, nil
	}
	return registered.Before(cx, sending)
}

func after(cx shelly.RunContext, sending Sending, reply shelly.Reply, state []byte) (After, error) {
	if registered == nil || registered.After == nil {
		return Accept{}, nil
	}
	return registered.After(cx, sending, reply, state)
}
