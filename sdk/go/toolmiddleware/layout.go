package toolmiddleware

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
)

// input is the parameters of `after`.
type input struct {
	cx      shelly.RunContext
	call    shelly.ToolCall
	outcome abi.Result[[]shelly.Content, shelly.Error]
	state   []byte
}

var (
	verdict = abi.Variant(
		abi.When(abi.Unit,
			func(struct{}) Verdict { return Allow{} },
			func(verdict Verdict) (struct{}, bool) {
				_, allows := verdict.(Allow)
				return struct{}{}, allows || verdict == nil
			}),
		abi.Of[Verdict](abi.Record(
			abi.In(abi.Text, func(question *AskPerson) *string { return &question.Text }),
			abi.In(abi.Text, func(question *AskPerson) *string { return &question.Topic }),
		)),
		abi.Of[Verdict](abi.As(contract.Content,
			func(answer Answer) []shelly.Content { return answer },
			func(content []shelly.Content) Answer { return content })),
		abi.Of[Verdict](abi.As(abi.Text,
			func(reason Deny) string { return string(reason) },
			func(reason string) Deny { return Deny(reason) })),
	)

	decisionType = abi.Record(
		abi.In(verdict, func(decision *Decision) *Verdict { return &decision.Verdict }),
		abi.In(abi.Option(abi.Text), func(decision *Decision) **string { return &decision.Arguments }),
		abi.In(abi.Bytes, func(decision *Decision) *[]byte { return &decision.State }),
	)

	inputType = abi.Record(
		abi.In(contract.RunContext, func(input *input) *shelly.RunContext { return &input.cx }),
		abi.In(contract.ToolCall, func(input *input) *shelly.ToolCall { return &input.call }),
		abi.In(contract.ResultOf(contract.Content), func(input *input) *abi.Result[[]shelly.Content, shelly.Error] {
			return &input.outcome
		}),
		abi.In(abi.Bytes, func(input *input) *[]byte { return &input.state }),
	)

	contentType = abi.Option(contract.Content)
)
