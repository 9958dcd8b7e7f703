//go:build wasm

package provider

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
	"shelly-plugin/internal/exports"
)

// The host passes at most 32 MiB in one call.
var arena [40 << 20]byte

func init() { abi.UseArena(arena[:]) }

//go:wasmexport shelly:plugin/provider@0.2.0#complete
func exportComplete(parameters uint32) uint32 {
	in := abi.ValueAt(inputType, parameters)
	return abi.Answer(contract.ResultOf(contract.Completion), exports.Guard(func() (shelly.Completion, error) {
		return dispatch(in.model, in.request)
	}))
}

//go:wasmexport cabi_post_shelly:plugin/provider@0.2.0#complete
func afterComplete(uint32) { abi.Forget() }
