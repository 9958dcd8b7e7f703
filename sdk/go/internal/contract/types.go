// Package contract has the types of wit/types.wit as they lie in memory, in the order of that file.
package contract

import (
	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
)

func text[T ~string]() abi.Type[T] {
	return abi.As(abi.Text, func(value T) string { return string(value) }, func(value string) T { return T(value) })
}

func bytes[T ~[]byte]() abi.Type[T] {
	return abi.As(abi.Bytes, func(value T) []byte { return value }, func(value []byte) T { return value })
}

func empty[T any]() abi.Type[T] {
	none := func(struct{}) T {
		var value T
		return value
	}
	return abi.As(abi.Unit, func(T) struct{} { return struct{}{} }, none)
}

// Fact is a key and a value.
var Fact = abi.Record(
	abi.In(abi.Text, func(fact *shelly.Fact) *string { return &fact.Key }),
	abi.In(abi.Text, func(fact *shelly.Fact) *string { return &fact.Value }),
)

// Meta is a list of facts.
var Meta = abi.As(
	abi.List(Fact),
	func(meta shelly.Meta) []shelly.Fact { return meta },
	func(facts []shelly.Fact) shelly.Meta { return facts },
)

// The types of content and messages.
var (
	Role = abi.Number[shelly.Role](1)

	source = abi.Variant(
		abi.Of[shelly.Source](bytes[shelly.Inline]()),
		abi.Of[shelly.Source](text[shelly.Attachment]()),
		abi.Of[shelly.Source](text[shelly.URL]()),
	)

	media = abi.Record(
		abi.In(abi.Text, func(media *shelly.Media) *string { return &media.MediaType }),
		abi.In(abi.Option(abi.Text), func(media *shelly.Media) **string { return &media.Name }),
		abi.In(source, func(media *shelly.Media) *shelly.Source { return &media.Source }),
	)

	// Opaque is a value without a type of its own.
	Opaque = abi.Record(
		abi.In(abi.Text, func(opaque *shelly.Opaque) *string { return &opaque.Kind }),
		abi.In(abi.Text, func(opaque *shelly.Opaque) *string { return &opaque.JSON }),
	)

	fileAct = abi.Variant(
		abi.Of[shelly.FileAct](bytes[shelly.WriteFile]()),
		abi.Of[shelly.FileAct](empty[shelly.Remove]()),
		abi.Of[shelly.FileAct](text[shelly.MoveTo]()),
		abi.Of[shelly.FileAct](text[shelly.CopyTo]()),
		abi.Of[shelly.FileAct](empty[shelly.MakeFolder]()),
	)

	fileChange = abi.Record(
		abi.In(abi.Text, func(change *shelly.FileChange) *string { return &change.Path }),
		abi.In(abi.Option(abi.Text), func(change *shelly.FileChange) **string { return &change.Expected }),
		abi.In(fileAct, func(change *shelly.FileChange) *shelly.FileAct { return &change.Act }),
	)

	// Content is the list of what a tool returns.
	Content = abi.List(abi.Variant(
		abi.Of[shelly.Content](text[shelly.Text]()),
		abi.Of[shelly.Content](text[shelly.JSON]()),
		abi.Of[shelly.Content](media),
		abi.Of[shelly.Content](fileChange),
		abi.Of[shelly.Content](Opaque),
	))

	// ToolCall is a call of a tool.
	ToolCall = abi.Record(
		abi.In(abi.Text, func(call *shelly.ToolCall) *string { return &call.ID }),
		abi.In(abi.Text, func(call *shelly.ToolCall) *string { return &call.Name }),
		abi.In(abi.Text, func(call *shelly.ToolCall) *string { return &call.Arguments }),
		abi.In(Meta, func(call *shelly.ToolCall) *shelly.Meta { return &call.Meta }),
	)

	toolResult = abi.Record(
		abi.In(abi.Text, func(result *shelly.ToolResult) *string { return &result.CallID }),
		abi.In(Content, func(result *shelly.ToolResult) *[]shelly.Content { return &result.Content }),
		abi.In(abi.Bool, func(result *shelly.ToolResult) *bool { return &result.IsError }),
	)

	thinking = abi.Record(
		abi.In(abi.Text, func(thinking *shelly.Thinking) *string { return &thinking.Text }),
		abi.In(abi.Option(abi.Text), func(thinking *shelly.Thinking) **string { return &thinking.Opaque }),
	)

	parts = abi.List(abi.Variant(
		abi.Of[shelly.Part](text[shelly.Text]()),
		abi.Of[shelly.Part](media),
		abi.Of[shelly.Part](thinking),
		abi.Of[shelly.Part](ToolCall),
		abi.Of[shelly.Part](toolResult),
		abi.Of[shelly.Part](Opaque),
	))

	// Message is a message of a chat.
	Message = abi.Record(
		abi.In(abi.Text, func(message *shelly.Message) *string { return &message.Sender }),
		abi.In(Role, func(message *shelly.Message) *shelly.Role { return &message.Role }),
		abi.In(parts, func(message *shelly.Message) *[]shelly.Part { return &message.Parts }),
		abi.In(Meta, func(message *shelly.Message) *shelly.Meta { return &message.Meta }),
	)

	// Messages is a list of messages.
	Messages = abi.List(Message)
)

// The types of tools, requests and replies.
var (
	Hints = abi.Number[shelly.ToolHints](1)

	toolSpec = abi.Record(
		abi.In(abi.Text, func(spec *shelly.ToolSpec) *string { return &spec.Name }),
		abi.In(abi.Text, func(spec *shelly.ToolSpec) *string { return &spec.Description }),
		abi.In(abi.Text, func(spec *shelly.ToolSpec) *string { return &spec.InputSchema }),
		abi.In(abi.Option(abi.Text), func(spec *shelly.ToolSpec) **string { return &spec.OutputSchema }),
		abi.In(Hints, func(spec *shelly.ToolSpec) *shelly.ToolHints { return &spec.Hints }),
		abi.In(Meta, func(spec *shelly.ToolSpec) *shelly.Meta { return &spec.Meta }),
	)

	// ToolSpecs is a list of tools.
	ToolSpecs = abi.List(toolSpec)

	// Usage counts tokens.
	Usage = abi.Record(
		abi.In(abi.U64, func(usage *shelly.Usage) *uint64 { return &usage.InputTokens }),
		abi.In(abi.U64, func(usage *shelly.Usage) *uint64 { return &usage.OutputTokens }),
		abi.In(abi.U64, func(usage *shelly.Usage) *uint64 { return &usage.CacheReadTokens }),
		abi.In(abi.U64, func(usage *shelly.Usage) *uint64 { return &usage.CacheWriteTokens }),
	)

	stop = abi.Variant(
		reason(shelly.EndTurn),
		reason(shelly.ToolCalls),
		reason(shelly.MaxTokens),
		reason(shelly.StopSequence),
		reason(shelly.Refusal),
		// Whatever none of the cases before it is.
		abi.When(text[shelly.Stop](),
			func(reason shelly.Stop) shelly.Stop { return reason },
			func(reason shelly.Stop) (shelly.Stop, bool) { return reason, true }),
	)

	toolChoice = abi.Variant(
		choice(shelly.Auto),
		choice(shelly.Never),
		choice(shelly.Required),
		abi.When(abi.Text,
			func(name string) shelly.ToolChoice { return shelly.ToolChoice{Mode: shelly.OneTool, Name: name} },
			func(choice shelly.ToolChoice) (string, bool) { return choice.Name, choice.Mode == shelly.OneTool }),
	)

	// Request is a request to a model.
	Request = abi.Record(
		abi.In(Messages, func(request *shelly.Request) *[]shelly.Message { return &request.Messages }),
		abi.In(ToolSpecs, func(request *shelly.Request) *[]shelly.ToolSpec { return &request.Tools }),
		abi.In(toolChoice, func(request *shelly.Request) *shelly.ToolChoice { return &request.ToolChoice }),
		abi.In(abi.Option(abi.U32), func(request *shelly.Request) **uint32 { return &request.MaxOutputTokens }),
		abi.In(abi.Option(abi.F32), func(request *shelly.Request) **float32 { return &request.Temperature }),
		abi.In(abi.Option(abi.Text), func(request *shelly.Request) **string { return &request.ResponseSchema }),
		abi.In(Meta, func(request *shelly.Request) *shelly.Meta { return &request.Meta }),
	)

	// Completion is a model's reply.
	Completion = abi.Record(
		abi.In(parts, func(completion *shelly.Completion) *[]shelly.Part { return &completion.Parts }),
		abi.In(stop, func(completion *shelly.Completion) *shelly.Stop { return &completion.Stop }),
		abi.In(Usage, func(completion *shelly.Completion) *shelly.Usage { return &completion.Usage }),
		abi.In(abi.Text, func(completion *shelly.Completion) *string { return &completion.Model }),
		abi.In(Meta, func(completion *shelly.Completion) *shelly.Meta { return &completion.Meta }),
	)

	// Ask is a request of a plugin to a model.
	Ask = abi.Record(
		abi.In(abi.Option(abi.Text), func(ask *shelly.Ask) **string { return &ask.Model }),
		abi.In(Request, func(ask *shelly.Ask) *shelly.Request { return &ask.Request }),
	)

	// RunContext is the run of a call.
	RunContext = abi.Record(
		abi.In(abi.Text, func(cx *shelly.RunContext) *string { return &cx.Run }),
		abi.In(abi.Text, func(cx *shelly.RunContext) *string { return &cx.Agent }),
		abi.In(abi.U32, func(cx *shelly.RunContext) *uint32 { return &cx.Depth }),
	)

	retry = abi.Record(
		abi.In(abi.Text, func(failure *shelly.Error) *string { return &failure.Message }),
		abi.In(abi.Option(abi.U64), func(failure *shelly.Error) **uint64 { return &failure.AfterMs }),
	)

	// Error is the error of the contract.
	Error = abi.Variant(
		failure(shelly.KindInvalid),
		failure(shelly.KindDenied),
		failure(shelly.KindNotFound),
		failure(shelly.KindTooLarge),
		failure(shelly.KindExhausted),
		retried(shelly.KindRateLimited),
		retried(shelly.KindUnavailable),
		failure(shelly.KindTimeout),
		failure(shelly.KindOther),
	)

	// Reply is a completion or the error of a request.
	Reply = abi.As(
		ResultOf(Completion),
		func(reply shelly.Reply) abi.Result[shelly.Completion, shelly.Error] {
			return abi.Result[shelly.Completion, shelly.Error]{Value: reply.Completion, Err: reply.Err}
		},
		func(result abi.Result[shelly.Completion, shelly.Error]) shelly.Reply {
			return shelly.Reply{Completion: result.Value, Err: result.Err}
		},
	)
)

// ResultOf is a value or an error of the contract.
func ResultOf[T any](value abi.Type[T]) abi.Type[abi.Result[T, shelly.Error]] {
	return abi.ResultOf(value, Error)
}

func reason(of shelly.Stop) abi.Case[shelly.Stop] {
	return abi.When(abi.Unit,
		func(struct{}) shelly.Stop { return of },
		// A completion without a reason is complete.
		func(stop shelly.Stop) (struct{}, bool) {
			return struct{}{}, stop == of || stop == "" && of == shelly.EndTurn
		})
}

func choice(mode shelly.ToolChoiceMode) abi.Case[shelly.ToolChoice] {
	return abi.When(abi.Unit,
		func(struct{}) shelly.ToolChoice { return shelly.ToolChoice{Mode: mode} },
		func(choice shelly.ToolChoice) (struct{}, bool) { return struct{}{}, choice.Mode == mode })
}

func failure(kind shelly.ErrorKind) abi.Case[shelly.Error] {
	return abi.When(abi.Text,
		func(message string) shelly.Error { return shelly.Error{Kind: kind, Message: message} },
		func(failure shelly.Error) (string, bool) { return failure.Message, failure.Kind == kind })
}

func retried(kind shelly.ErrorKind) abi.Case[shelly.Error] {
	return abi.When(retry,
		func(failure shelly.Error) shelly.Error {
			failure.Kind = kind
			return failure
		},
		func(failure shelly.Error) (shelly.Error, bool) { return failure, failure.Kind == kind })
}
