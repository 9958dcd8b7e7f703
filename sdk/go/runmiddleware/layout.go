package runmiddleware

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
)

// input is the parameters of `after`.
type input struct {
	cx      shelly.RunContext
	outcome Outcome
	state   []byte
}

// reply is the first field of an outcome in the contract.
type reply = abi.Result[shelly.Message, shelly.Error]

// loweredOutcome is an outcome as it is in the contract.
type loweredOutcome struct {
	reply   reply
	outcome Outcome
}

var (
	beforeType = abi.Variant(
		abi.Of[Before](abi.Record(
			abi.In(abi.Option(contract.Messages), func(proceed *Proceed) **[]shelly.Message { return &proceed.Input }),
			abi.In(abi.Bytes, func(proceed *Proceed) *[]byte { return &proceed.State }),
		)),
		abi.Of[Before](abi.Record(
			abi.In(contract.Message, func(answer *Answer) *shelly.Message { return &answer.Message }),
		)),
		abi.Of[Before](reject),
	)

	reject = abi.As(contract.Error,
		func(reject Reject) shelly.Error { return *reject.Err },
		func(failure shelly.Error) Reject { return Reject{&failure} })

	outcomeType = abi.As(
		abi.Record(
			abi.In(contract.ResultOf(contract.Message), func(lowered *loweredOutcome) *reply { return &lowered.reply }),
			abi.In(contract.Usage, func(lowered *loweredOutcome) *shelly.Usage { return &lowered.outcome.Usage }),
			abi.In(abi.U32, func(lowered *loweredOutcome) *uint32 { return &lowered.outcome.Attempt }),
		),
		func(outcome Outcome) loweredOutcome {
			return loweredOutcome{reply{Value: outcome.Message, Err: outcome.Err}, outcome}
		},
		func(lowered loweredOutcome) Outcome {
			outcome := lowered.outcome
			outcome.Message, outcome.Err = lowered.reply.Value, lowered.reply.Err
			return outcome
		},
	)

	inputType = abi.Record(
		abi.In(contract.RunContext, func(input *input) *shelly.RunContext { return &input.cx }),
		abi.In(outcomeType, func(input *input) *Outcome { return &input.outcome }),
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
			abi.In(contract.Message, func(replace *Replace) *shelly.Message { return &replace.Message }),
		)),
		abi.Of[After](reject),
		abi.Of[After](abi.Record(
			abi.In(abi.Option(abi.Text), func(retry *Retry) **string { return &retry.Feedback }),
			abi.In(abi.U64, func(retry *Retry) *uint64 { return &retry.DelayMs }),
			abi.In(abi.Bytes, func(retry *Retry) *[]byte { return &retry.State }),
		)),
	)
)
