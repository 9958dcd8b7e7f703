//go:build wasm

package toolmiddleware

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
	"shelly-plugin/internal/exports"
)

// The host passes at most 32 MiB in one call.
var arena [40 << 20]byte

func init() { abi.UseArena(arena[:]) }

//go:wasmexport shelly:plugin/tool-middleware@0.2.0#before
func exportBefore(run, runLength, agent, agentLength, depth, id, idLength, name, nameLength, arguments, argumentsLength, meta,
	metaLength, origin, originLength, hints uint32) uint32 {
	cx := shelly.RunContext{Run: abi.TextAt(run, runLength), Agent: abi.TextAt(agent, agentLength), Depth: depth}
	call := shelly.ToolCall{
		ID:        abi.TextAt(id, idLength),
		Name:      abi.TextAt(name, nameLength),
		Arguments: abi.TextAt(arguments, argumentsLength),
		Meta:      abi.ListAt(contract.Fact, meta, metaLength),
	}
	target := Target{Origin: abi.TextAt(origin, originLength), Hints: shelly.ToolHints(hints)}
	return abi.Answer(contract.ResultOf(decisionType), exports.Guard(func() (Decision, error) {
		return before(cx, call, target)
	}))
}

//go:wasmexport cabi_post_shelly:plugin/tool-middleware@0.2.0#before
func afterBefore(uint32) { abi.Forget() }

//go:wasmexport shelly:plugin/tool-middleware@0.2.0#after
func exportAfter(parameters uint32) uint32 {
	in := abi.ValueAt(inputType, parameters)
	outcome := Outcome{Content: in.outcome.Value, Err: in.outcome.Err}
	return abi.Answer(contract.ResultOf(contentType), exports.Guard(func() (*[]shelly.Content, error) {
		return after(in.cx, in.call, outcome, in.state)
	}))
}

//go:wasmexport cabi_post_shelly:plugin/tool-middleware@0.2.0#after
func afterAfter(uint32) { abi.Forget() }
