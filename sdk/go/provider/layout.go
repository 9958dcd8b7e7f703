package provider

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
)

// input is the parameters of `complete`.
type input struct {
	model   string
	request shelly.Request
}

var inputType = abi.Record(
	abi.In(abi.Text, func(input *input) *string { return &input.model }),
	abi.In(contract.Request, func(input *input) *shelly.Request { return &input.request }),
)
