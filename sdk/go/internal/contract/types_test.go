package contract

import (
	"reflect"
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/abitest"
)

func message() shelly.Message {
	return shelly.Message{
		Sender: "critic",
		Role:   shelly.Assistant,
		Parts: []shelly.Part{
			shelly.Text("süß"),
			shelly.Media{MediaType: "image/png", Name: shelly.Some("a.png"), Source: shelly.Inline{1, 2, 3}},
			shelly.Media{MediaType: "image/*", Source: shelly.Attachment("7")},
			shelly.Media{MediaType: "audio/mp3", Source: shelly.URL("https://example.com/a")},
			shelly.Thinking{Text: "so", Opaque: shelly.Some("signed")},
			shelly.ToolCall{ID: "1", Name: "count", Arguments: "{}", Meta: shelly.Meta{{Key: "a", Value: "b"}}},
			shelly.ToolResult{CallID: "1", IsError: true, Content: []shelly.Content{
				shelly.JSON("[]"),
				shelly.FileChange{Path: "a", Expected: shelly.Some("00"), Act: shelly.WriteFile("x")},
				shelly.FileChange{Path: "a", Act: shelly.Remove{}},
				shelly.FileChange{Path: "a", Act: shelly.MoveTo("b")},
				shelly.FileChange{Path: "a", Act: shelly.CopyTo("b")},
				shelly.FileChange{Path: "a", Act: shelly.MakeFolder{}},
				shelly.Opaque{Kind: "k", JSON: "1"},
			}},
			shelly.Opaque{Kind: "k", JSON: "{}"},
		},
		Meta: shelly.Meta{{Key: "shelly.member", Value: "critic"}},
	}
}

func TestValuesComeBackAsTheyWere(t *testing.T) {
	if got := abitest.Through(Message, message()); !reflect.DeepEqual(got, message()) {
		t.Errorf("%+v, not %+v", got, message())
	}
	request := shelly.Request{
		Messages:        []shelly.Message{message()},
		Tools:           []shelly.ToolSpec{{Name: "a", Hints: shelly.Pure, OutputSchema: shelly.Some("{}"), Meta: shelly.Meta{}}},
		ToolChoice:      shelly.ToolChoice{Mode: shelly.OneTool, Name: "a"},
		MaxOutputTokens: shelly.Some(uint32(1 << 31)),
		Temperature:     shelly.Some(float32(0.5)),
		Meta:            shelly.Meta{},
	}
	ask := shelly.Ask{Model: shelly.Some("large"), Request: request}
	abitest.CheckEqual(t, Ask, ask)
	for _, stop := range []shelly.Stop{shelly.EndTurn, shelly.Refusal, "in the vendor's words"} {
		completion := shelly.Completion{
			Parts: []shelly.Part{shelly.Text("a")},
			Stop:  stop,
			Usage: shelly.Usage{InputTokens: 1, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 1 << 63},
			Model: "m",
			Meta:  shelly.Meta{},
		}
		if got := abitest.Through(Reply, shelly.Reply{Completion: completion}); !reflect.DeepEqual(got.Completion, completion) {
			t.Errorf("%+v, not %+v", got.Completion, completion)
		}
	}
}

func TestErrorsComeBackAsTheyWere(t *testing.T) {
	for kind := shelly.KindInvalid; kind <= shelly.KindOther; kind++ {
		failure := shelly.Error{Kind: kind, Message: "no"}
		if kind == shelly.KindRateLimited || kind == shelly.KindUnavailable {
			failure.AfterMs = shelly.Some(uint64(1 << 40))
		}
		if got := abitest.Through(Reply, shelly.Reply{Err: &failure}).Err; !reflect.DeepEqual(got, &failure) {
			t.Errorf("%+v, not %+v", got, failure)
		}
	}
}

// The sizes are those that wit-parser computes for the contract.
func TestLayoutsAreThoseOfTheContract(t *testing.T) {
	abitest.CheckLayouts(t, map[string][2]abi.Layout{
		"meta":        {Meta.Layout, {Size: 8, Align: 4}},
		"media":       {media.Layout, {Size: 32, Align: 4}},
		"file-change": {fileChange.Layout, {Size: 32, Align: 4}},
		"tool-call":   {ToolCall.Layout, {Size: 32, Align: 4}},
		"tool-spec":   {toolSpec.Layout, {Size: 48, Align: 4}},
		"message":     {Message.Layout, {Size: 28, Align: 4}},
		"usage":       {Usage.Layout, {Size: 32, Align: 8}},
		"request":     {Request.Layout, {Size: 64, Align: 4}},
		"completion":  {Completion.Layout, {Size: 72, Align: 8}},
		"error":       {Error.Layout, {Size: 32, Align: 8}},
		"reply":       {Reply.Layout, {Size: 80, Align: 8}},
		"ask":         {Ask.Layout, {Size: 76, Align: 4}},
		"content":     {ResultOf(Content).Layout, {Size: 40, Align: 8}},
	})
}
