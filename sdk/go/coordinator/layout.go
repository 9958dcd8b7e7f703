package coordinator

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
)

// parameters is the parameters of `next`.
type parameters struct {
	input Input
	state []byte
}

var (
	member = abi.Record(
		abi.In(abi.Text, func(member *Member) *string { return &member.Name }),
		abi.In(abi.Text, func(member *Member) *string { return &member.Role }),
		abi.In(abi.Text, func(member *Member) *string { return &member.Description }),
	)

	outcome = abi.Variant(
		abi.Of[Outcome](abi.As(abi.Unit,
			func(Replied) struct{} { return struct{}{} },
			func(struct{}) Replied { return Replied{} })),
		abi.Of[Outcome](abi.As(abi.Text,
			func(to HandedOver) string { return string(to) },
			func(name string) HandedOver { return HandedOver(name) })),
		abi.Of[Outcome](abi.As(contract.Error,
			func(failed Failed) shelly.Error { return *failed.Err },
			func(failure shelly.Error) Failed { return Failed{&failure} })),
	)

	report = abi.Record(
		abi.In(abi.Text, func(report *Report) *string { return &report.Member }),
		abi.In(outcome, func(report *Report) *Outcome { return &report.Outcome }),
	)

	inputType = abi.Record(
		abi.In(contract.RunContext, func(input *Input) *shelly.RunContext { return &input.Cx }),
		abi.In(abi.U32, func(input *Input) *uint32 { return &input.Step }),
		abi.In(abi.List(member), func(input *Input) *[]Member { return &input.Members }),
		abi.In(abi.List(report), func(input *Input) *[]Report { return &input.Reports }),
		abi.In(abi.Option(contract.Reply), func(input *Input) **shelly.Reply { return &input.Reply }),
	)

	parametersType = abi.Record(
		abi.In(inputType, func(in *parameters) *Input { return &in.input }),
		abi.In(abi.Bytes, func(in *parameters) *[]byte { return &in.state }),
	)

	assignment = abi.Record(
		abi.In(abi.Text, func(assignment *Assignment) *string { return &assignment.Member }),
		abi.In(abi.Option(abi.Text), func(assignment *Assignment) **string { return &assignment.Task }),
	)

	answer = abi.Variant(
		abi.When(abi.Unit,
			func(struct{}) Answer { return LastReply{} },
			func(answer Answer) (struct{}, bool) {
				_, is := answer.(LastReply)
				return struct{}{}, is || answer == nil
			}),
		abi.Of[Answer](abi.As(contract.Content,
			func(content Content) []shelly.Content { return content },
			func(content []shelly.Content) Content { return content })),
	)

	action = abi.Variant(
		abi.Of[Action](abi.As(abi.List(assignment),
			func(run Run) []Assignment { return run },
			func(assignments []Assignment) Run { return assignments })),
		abi.Of[Action](abi.Record(
			abi.In(answer, func(done *Done) *Answer { return &done.Answer }),
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
