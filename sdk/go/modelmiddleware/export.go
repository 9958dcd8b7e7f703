//go:build wasm

package modelmiddleware

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
	"shelly-plugin/internal/exports"
)

// The host passes at most 32 MiB in one call.
var arena [40 << 20]byte

func init() { abi.UseArena(arena[:]) }

//go:wasmexport shelly:plugin/model-middleware@0.2.0#before
func exportBefore(run, runLength, agent, agentLength, depth, model, modelLength, digest, digestLength uint32, tokens uint64,
	attempt uint32) uint32 {
	cx := shelly.RunContext{Run: abi.TextAt(run, runLength), Agent: abi.TextAt(agent, agentLength), Depth: depth}
	sending := Sending{
		Model: abi.TextAt(model, modelLength), Digest: abi.TextAt(digest, digestLength), Tokens: tokens, Attempt: attempt,
	}
	return abi.Answer(contract.ResultOf(beforeType), exports.Guard(func() (Before, error) { return before(cx, sending) }))
}

//go:wasmexport cabi_post_shelly:plugin/model-middleware@0.2.0#before
func afterBefore(uint32) { abi.Forget() }

//go:wasmexport shelly:plugin/model-middleware@0.2.0#after
func exportAfter(parameters uint32) uint32 {
	in := abi.ValueAt(inputType, parameters)
	return abi.Answer(contract.ResultOf(afterType), exports.Guard(func() (After, error) {
		return after(in.cx, in.sending, in.reply, in.state)
	}))
}

//go:wasmexport cabi_post_shelly:plugin/model-middleware@0.2.0#after
func afterAfter(uint32) { abi.Forget() }
