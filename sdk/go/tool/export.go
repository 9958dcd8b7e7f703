//go:build wasm

package tool

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
	"shelly-plugin/internal/exports"
)

// Arguments have at most 1 MiB, and results of the host in a call of a tool at most 2 MiB besides one long message.
var arena [8 << 20]byte

func init() { abi.UseArena(arena[:]) }

//go:wasmexport shelly:plugin/tool@0.2.0#specs
func exportSpecs() uint32 {
	return abi.Answer(contract.ResultOf(contract.ToolSpecs), exports.Guard(specs))
}

//go:wasmexport cabi_post_shelly:plugin/tool@0.2.0#specs
func afterSpecs(uint32) { abi.Forget() }

//go:wasmexport shelly:plugin/tool@0.2.0#call
func exportCall(id, idLength, name, nameLength, arguments, argumentsLength, _, _ uint32) uint32 {
	call := shelly.ToolCall{
		ID:        abi.TextAt(id, idLength),
		Name:      abi.TextAt(name, nameLength),
		Arguments: abi.TextAt(arguments, argumentsLength),
	}
	return abi.Answer(contract.ResultOf(contract.Content), exports.Guard(func() ([]shelly.Content, error) {
		return dispatch(call)
	}))
}

//go:wasmexport cabi_post_shelly:plugin/tool@0.2.0#call
func afterCall(uint32) { abi.Forget() }
