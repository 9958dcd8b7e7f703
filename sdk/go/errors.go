package shelly

import (
	"errors"
	"fmt"
)

// ErrorKind decides what the host does after an error.
type ErrorKind uint8

// The kinds, in the order of the contract.
const (
	// The input is wrong: say what would be right, since the model reads the text and corrects itself.
	KindInvalid ErrorKind = iota
	// A rule or a grant forbids the operation.
	KindDenied
	// The named thing does not exist.
	KindNotFound
	// A size bound was exceeded.
	KindTooLarge
	// A budget is used up.
	KindExhausted
	// Too many requests. Another attempt may succeed.
	KindRateLimited
	// Not reachable, overloaded, or cut off in the middle. Another attempt may succeed.
	KindUnavailable
	// Time ran out; it is unknown whether the operation took effect.
	KindTimeout
	// Any other failure. It is not repeated.
	KindOther
)

// String returns the name of the kind in the contract.
func (kind ErrorKind) String() string {
	names := [...]string{
		"invalid", "denied", "not-found", "too-large", "exhausted", "rate-limited", "unavailable", "timeout", "other",
	}
	if int(kind) >= len(names) {
		return "unknown"
	}
	return names[kind]
}

// Error is the one error of the contract, in both directions.
type Error struct {
	Kind    ErrorKind
	Message string
	// The milliseconds to wait before the next attempt, for KindRateLimited and KindUnavailable, if they are known.
	AfterMs *uint64
}

// Error returns the kind and the message.
func (failure *Error) Error() string { return failure.Kind.String() + ": " + failure.Message }

// Invalid says that the input is wrong, and what would be right.
func Invalid(format string, args ...any) *Error { return newError(KindInvalid, format, args) }

// Denied says that a rule forbids the operation. Name the rule.
func Denied(format string, args ...any) *Error { return newError(KindDenied, format, args) }

// NotFound says that the named thing does not exist.
func NotFound(format string, args ...any) *Error { return newError(KindNotFound, format, args) }

// TooLarge says that a size bound was exceeded.
func TooLarge(format string, args ...any) *Error { return newError(KindTooLarge, format, args) }

// Exhausted says that a budget is used up.
func Exhausted(format string, args ...any) *Error { return newError(KindExhausted, format, args) }

// Timeout says that time ran out.
func Timeout(format string, args ...any) *Error { return newError(KindTimeout, format, args) }

// Other is any other failure.
func Other(format string, args ...any) *Error { return newError(KindOther, format, args) }

// Unavailable says that another attempt may succeed, after these milliseconds if they are not nil.
func Unavailable(afterMs *uint64, format string, args ...any) *Error {
	failure := newError(KindUnavailable, format, args)
	failure.AfterMs = afterMs
	return failure
}

// RateLimited says that there were too many requests. Another attempt may succeed, after these milliseconds.
func RateLimited(afterMs *uint64, format string, args ...any) *Error {
	failure := newError(KindRateLimited, format, args)
	failure.AfterMs = afterMs
	return failure
}

// ErrorOf returns an error as the contract has it: an Error that it is or wraps, or else one of KindOther; nil for nil.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	var failure *Error
	if errors.As(err, &failure) {
		return failure
	}
	return Other("the plugin failed: %v", err)
}

func newError(kind ErrorKind, format string, args []any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
