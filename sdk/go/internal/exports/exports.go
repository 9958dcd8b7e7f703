// Package exports runs the functions of a plugin for the host.
package exports

import (
	"fmt"
	"runtime/debug"

	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/calls"
)

// Guard runs a function. A panic is logged with its place, and becomes an error.
func Guard[T any](run func() (T, error)) (result abi.Result[T, shelly.Error]) {
	defer func() {
		if cause := recover(); cause != nil {
			calls.LogWrite(calls.Error, fmt.Sprintf("panic: %v\n%s", cause, debug.Stack()))
			result = abi.Result[T, shelly.Error]{Err: shelly.Other("the plugin failed: %v", cause)}
		}
	}()
	value, err := run()
	return abi.Result[T, shelly.Error]{Value: value, Err: shelly.ErrorOf(err)}
}
