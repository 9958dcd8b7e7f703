package modelmiddleware

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
)

// input is the parameters of `after`.
type input struct {
	cx      shelly.RunContext
	sending Sending
	reply   shelly.Reply
	state   []byte
}

var (
	sendingType = abi.Record(
		abi.In(abi.Text, func(sending *Sending) *string { return &sending.Model }),
		abi.In(abi.Text, func(sending *Sending) *string { return &sending.Digest }),
		abi.In(abi.U64, func(sending *Sending) *uint64 { return &sending.Tokens }),
		abi.In(abi.U32, func(sending *Sending) *uint32 { return &sending.Attempt }),
	)

	reject = abi.As(contract.Error,
		func(reject Reject) shelly.Error { return *reject.Err },
		func(failure shelly.Error) Reject { return Reject{&failure} })

	beforeType = abi.Variant(
		abi.Of[Before](abi.Record(
			abi.In(abi.Option(abi.Text), func(proceed *Proceed) **string { return &proceed.Model }),
			abi.In(abi.Option(contract.Request), func(proceed *Proceed) **shelly.Request { return &proceed.Request }),
			abi.In(abi.Bytes, func(proceed *Proceed) *[]byte { return &proceed.State }),
		)),
		abi.Of[Before](abi.Record(
			abi.In(contract.Completion, func(answer *Answer) *shelly.Completion { return &answer.Completion }),
		)),
		abi.Of[Before](reject),
	)

	inputType = abi.Record(
		abi.In(contract.RunContext, func(input *input) *shelly.RunContext { return &input.cx }),
		abi.In(sendingType, func(input *input) *Sending { return &input.sending }),
		abi.In(contract.Reply, func(input *input) *shelly.Reply { return &input.reply }),
		abi.In(abi.Bytes, func(input *input) *[]byte { return &input.state }),
	)

	afterType = abi.Variant(
		abi.When(abi.Unit,
			func(struct{}) After { return Accept{} },
			func(decision After) (struct{}, bool) {
				_, is := decision.(Accept)
				return struct{}{}, is
			}),
		abi.Of[After](abi.Record(
			abi.In(contract.Completion, func(replace *Replace) *shelly.Completion { return &replace.Completion }),
		)),
		abi.Of[After](reject),
		abi.Of[After](abi.Record(
			abi.In(abi.Option(abi.Text), func(retry *Retry) **string { return &retry.Model }),
			abi.In(abi.U64, func(retry *Retry) *uint64 { return &retry.DelayMs }),
			abi.In(abi.Bytes, func(retry *Retry) *[]byte { return &retry.State }),
		)),
	)
)
