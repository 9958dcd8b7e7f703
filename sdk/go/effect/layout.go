package effect

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
)

// parameters is the parameters of `eval`.
type parameters struct {
	input Input
	state []byte
}

var (
	phase = abi.Variant(
		knownPhase(BeforeModel),
		knownPhase(AfterModel),
		// Whatever none of the cases before it is.
		abi.When(abi.Text,
			func(name string) Phase { return Phase(name) },
			func(phase Phase) (string, bool) { return string(phase), true }),
	)

	inputType = abi.Record(
		abi.In(contract.RunContext, func(input *Input) *shelly.RunContext { return &input.Cx }),
		abi.In(phase, func(input *Input) *Phase { return &input.Phase }),
		abi.In(abi.U32, func(input *Input) *uint32 { return &input.Iteration }),
		abi.In(abi.U32, func(input *Input) *uint32 { return &input.Messages }),
		abi.In(abi.U64, func(input *Input) *uint64 { return &input.RequestTokens }),
		abi.In(abi.Option(abi.U64), func(input *Input) **uint64 { return &input.ContextWindow }),
		abi.In(abi.Option(contract.Usage), func(input *Input) **shelly.Usage { return &input.LastUsage }),
		abi.In(contract.Usage, func(input *Input) *shelly.Usage { return &input.RunUsage }),
		abi.In(abi.U64, func(input *Input) *uint64 { return &input.ModelMs }),
		abi.In(abi.U64, func(input *Input) *uint64 { return &input.ElapsedMs }),
		abi.In(abi.Option(contract.Reply), func(input *Input) **shelly.Reply { return &input.Reply }),
	)

	parametersType = abi.Record(
		abi.In(inputType, func(in *parameters) *Input { return &in.input }),
		abi.In(abi.Bytes, func(in *parameters) *[]byte { return &in.state }),
	)

	edit = abi.Variant(
		abi.Of[Edit](abi.As(abi.Text,
			func(note Note) string { return string(note) },
			func(text string) Note { return Note(text) })),
		abi.Of[Edit](abi.Record(
			abi.In(abi.Text, func(result *ReplaceResult) *string { return &result.CallID }),
			abi.In(contract.Content, func(result *ReplaceResult) *[]shelly.Content { return &result.Content }),
		)),
		abi.Of[Edit](abi.Record(
			abi.In(abi.U64, func(replace *Replace) *uint64 { return &replace.First }),
			abi.In(abi.U64, func(replace *Replace) *uint64 { return &replace.Last }),
			abi.In(contract.Messages, func(replace *Replace) *[]shelly.Message { return &replace.Messages }),
		)),
		abi.Of[Edit](abi.As(abi.List(abi.Text),
			func(hidden HideTools) []string { return hidden },
			func(names []string) HideTools { return names })),
		abi.Of[Edit](abi.Record(
			abi.In(abi.Text, func(stop *StopRun) *string { return &stop.Code }),
			abi.In(abi.Text, func(stop *StopRun) *string { return &stop.Message }),
		)),
		abi.Of[Edit](contract.Opaque),
	)

	action = abi.Variant(
		abi.When(abi.List(edit),
			func(edits []Edit) Step { return Step{Edits: edits} },
			func(step Step) ([]Edit, bool) { return step.Edits, step.Ask == nil }),
		abi.When(contract.Ask,
			func(ask shelly.Ask) Step { return Step{Ask: &ask} },
			func(step Step) (shelly.Ask, bool) {
				if step.Ask == nil {
					return shelly.Ask{}, false
				}
				return *step.Ask, true
			}),
	)

	wake = abi.Record(
		abi.In(abi.Option(abi.U32), func(wake *Wake) **uint32 { return &wake.Iteration }),
		abi.In(abi.Option(abi.U64), func(wake *Wake) **uint64 { return &wake.RequestTokens }),
		abi.In(abi.Option(abi.U64), func(wake *Wake) **uint64 { return &wake.RunTokens }),
		abi.In(abi.Option(abi.U64), func(wake *Wake) **uint64 { return &wake.ModelMs }),
	)

	nextCall = abi.Variant(
		abi.When(abi.Unit,
			func(struct{}) NextCall { return NextPhase{} },
			func(next NextCall) (struct{}, bool) {
				_, is := next.(NextPhase)
				return struct{}{}, is || next == nil
			}),
		abi.Of[NextCall](wake),
		abi.When(abi.Unit,
			func(struct{}) NextCall { return Never{} },
			func(next NextCall) (struct{}, bool) {
				_, is := next.(Never)
				return struct{}{}, is
			}),
	)

	stepType = abi.As(
		abi.Record(
			abi.In(abi.Bytes, func(lowered *loweredStep) *[]byte { return &lowered.step.State }),
			abi.In(action, func(lowered *loweredStep) *Step { return &lowered.action }),
			abi.In(nextCall, func(lowered *loweredStep) *NextCall { return &lowered.step.NextCall }),
		),
		func(step Step) loweredStep { return loweredStep{step, step} },
		func(lowered loweredStep) Step {
			step := lowered.action
			step.State, step.NextCall = lowered.step.State, lowered.step.NextCall
			return step
		},
	)
)

// loweredStep is a step whose action is a field of its own, as in the contract.
type loweredStep struct{ step, action Step }

func knownPhase(of Phase) abi.Case[Phase] {
	return abi.When(abi.Unit,
		func(struct{}) Phase { return of },
		func(phase Phase) (struct{}, bool) { return struct{}{}, phase == of })
}
