package coordinator

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
)

// input is the parameters of `next`.
type input struct {
	moment Moment
	state  []byte
}

var (
	member = abi.Record(
		abi.In(abi.Text, func(member *Member) *string { return &member.Name }),
		abi.In(abi.Text, func(member *Member) *string { return &member.Role }),
		abi.In(abi.Text, func(member *Member) *string { return &member.Description }),
	)

	report = abi.Record(
		abi.In(abi.Text, func(report *Report) *string { return &report.Member }),
		abi.In(abi.Option(contract.Error), func(report *Report) **shelly.Error { return &report.Failure }),
	)

	inputType = abi.Record(
		abi.In(
			abi.Record(
				abi.In(contract.RunContext, func(moment *Moment) *shelly.RunContext { return &moment.Cx }),
				abi.In(abi.U32, func(moment *Moment) *uint32 { return &moment.Step }),
				abi.In(abi.List(member), func(moment *Moment) *[]Member { return &moment.Members }),
				abi.In(abi.List(report), func(moment *Moment) *[]Report { return &moment.Reports }),
				abi.In(abi.Option(contract.Reply), func(moment *Moment) **shelly.Reply { return &moment.Reply }),
			),
			func(input *input) *Moment { return &input.moment }),
		abi.In(abi.Bytes, func(input *input) *[]byte { return &input.state }),
	)

	assignment = abi.Record(
		abi.In(abi.Text, func(assignment *Assignment) *string { return &assignment.Member }),
		abi.In(abi.Option(abi.Text), func(assignment *Assignment) **string { return &assignment.Task }),
	)

	action = abi.Variant(
		abi.Of[Action](abi.As(abi.List(assignment),
			func(run Run) []Assignment { return run },
			func(assignments []Assignment) Run { return assignments })),
		abi.Of[Action](abi.Record(
			abi.In(abi.Option(contract.Content), func(done *Done) **[]shelly.Content { return &done.Answer }),
		)),
		abi.Of[Action](abi.Record(
			abi.In(contract.Ask, func(ask *AskModel) *shelly.Ask { return &ask.Ask }),
		)),
	)

	stepType = abi.Record(
		abi.In(abi.Bytes, func(step *Step) *[]byte { return &step.State }),
		abi.In(action, func(step *Step) *Action { return &step.Action }),
	)
)
