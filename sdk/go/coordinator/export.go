//go:build wasm

package coordinator

import (
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
	"shelly-plugin/internal/exports"
)

// The host passes at most 32 MiB in one call.
var arena [40 << 20]byte

func init() { abi.UseArena(arena[:]) }

//go:wasmexport shelly:plugin/coordinator@0.2.0#next
func exportNext(parameters uint32) uint32 {
	in := abi.ValueAt(parametersType, parameters)
	return abi.Answer(contract.ResultOf(stepType), exports.Guard(func() (Step, error) { return dispatch(in.input, in.state) }))
}

//go:wasmexport cabi_post_shelly:plugin/coordinator@0.2.0#next
func afterNext(uint32) { abi.Forget() }
