package effect

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
)

// input is the parameters of `eval`.
type input struct {
	moment Moment
	state  []byte
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

	momentType = abi.Record(
		abi.In(contract.RunContext, func(moment *Moment) *shelly.RunContext { return &moment.Cx }),
		abi.In(phase, func(moment *Moment) *Phase { return &moment.Phase }),
		abi.In(abi.U32, func(moment *Moment) *uint32 { return &moment.Iteration }),
		abi.In(abi.U32, func(moment *Moment) *uint32 { return &moment.Messages }),
		abi.In(abi.U64, func(moment *Moment) *uint64 { return &moment.RequestTokens }),
		abi.In(abi.Option(abi.U64), func(moment *Moment) **uint64 { return &moment.ContextWindow }),
		abi.In(abi.Option(contract.Usage), func(moment *Moment) **shelly.Usage { return &moment.LastUsage }),
		abi.In(contract.Usage, func(moment *Moment) *shelly.Usage { return &moment.RunUsage }),
		abi.In(abi.U64, func(moment *Moment) *uint64 { return &moment.ModelMs }),
		abi.In(abi.U64, func(moment *Moment) *uint64 { return &moment.ElapsedMs }),
		abi.In(abi.Option(contract.Reply), func(moment *Moment) **shelly.Reply { return &moment.Reply }),
	)

	inputType = abi.Record(
		abi.In(momentType, func(input *input) *Moment { return &input.moment }),
		abi.In(abi.Bytes, func(input *input) *[]byte { return &input.state }),
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

	stepType = abi.As(
		abi.Record(
			abi.In(abi.Bytes, func(lowered *loweredStep) *[]byte { return &lowered.step.State }),
			abi.In(action, func(lowered *loweredStep) *Step { return &lowered.action }),
			abi.In(abi.Option(wake), func(lowered *loweredStep) **Wake { return &lowered.step.Wake }),
		),
		func(step Step) loweredStep { return loweredStep{step, step} },
		func(lowered loweredStep) Step {
			step := lowered.action
			step.State, step.Wake = lowered.step.State, lowered.step.Wake
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
