// Package shellytest has a host for unit tests: no component is built, and nothing is reached.
//
//	func TestTitleIsRead(t *testing.T) {
//		host := shellytest.New(t)
//		host.Respond("GET", "https://example.com/a", shellytest.Response{JSON: map[string]string{"title": "A"}})
//		…
//	}
//
// A test that calls the host without one panics, and says which function it was.
package shellytest

import (
	"encoding/json"
	"math/rand"
	"testing"
	"time"

	shelly "shelly-plugin"
	"shelly-plugin/coordinator"
	"shelly-plugin/effect"
	"shelly-plugin/internal/calls"
	"shelly-plugin/tool"
)

const (
	mostAsks       = 8
	mostEntries    = 1_024
	mostAttachment = 1 << 20
	mostRandom     = 64 << 10
)

// Host stands in for the host until its test has ended.
type Host struct {
	// What the plugin finds.
	Params      any
	Chat        []shelly.Message
	Tools       []string
	Attachments map[string][]byte
	Outgoing    *shelly.Request
	Files       Files
	// The names of the credentials that are granted.
	Credentials []string
	// The stored values, by their keys.
	Stored map[string][]byte

	// What the plugin has done and said.
	Requests []SentRequest
	Asked    []shelly.Ask
	Commands []calls.Command
	Log      []LogEntry
	Progress []Progress
	Emitted  []Delta

	t         testing.TB
	now       time.Time
	monotonic time.Duration
	random    *rand.Rand
	store     store
	responses map[string][]preparedResponse
	replies   []shelly.Reply
	outputs   map[string][]preparedOutput
}

// LogEntry is an entry of the log. Its level is debug, info, warn or error.
type LogEntry struct{ Level, Message string }

// Progress is a report of progress. Without a total its end is not known.
type Progress struct {
	Done    float64
	Total   *float64
	Message string
}

// Delta is a piece of a reply that a provider has passed on: text, thinking, the name of a tool, or the usage.
type Delta struct {
	Kind  string
	Text  string
	Usage shelly.Usage
}

// New begins with a host. Tests that have one cannot run in parallel.
func New(t testing.TB) *Host {
	t.Helper()
	host := &Host{
		Attachments: map[string][]byte{},
		Files:       Files{},
		Stored:      map[string][]byte{},
		t:           t,
		now:         time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
		random:      rand.New(rand.NewSource(0)),
		responses:   map[string][]preparedResponse{},
		outputs:     map[string][]preparedOutput{},
	}
	host.store = store{host: host, revisions: map[string]uint64{}}
	if !calls.SetHost(adapter{host}) {
		t.Fatal("there is a host already; a test has one, and tests with a host cannot run in parallel")
	}
	t.Cleanup(func() { calls.SetHost(nil) })
	return host
}

// Text returns the text that a provider has passed on.
func (host *Host) Text() string {
	text := ""
	for _, delta := range host.Emitted {
		if delta.Kind == "text" {
			text += delta.Text
		}
	}
	return text
}

// Call calls a tool as a model does. The arguments are a JSON text, or a value that is written as JSON.
func (host *Host) Call(called *tool.Tool, arguments any) ([]shelly.Content, error) {
	host.t.Helper()
	text, isText := arguments.(string)
	if !isText {
		written, err := json.Marshal(arguments)
		if err != nil {
			host.t.Fatalf("the arguments cannot be written as JSON: %v", err)
		}
		text = string(written)
	}
	return called.Run(tool.Call{ID: "call", Name: called.Spec().Name}, text)
}

// Eval calls an effect, and again with the prepared reply of a model as long as it asks for one. Without a phase or a number
// of messages they are those of a usual call.
func (host *Host) Eval(eval effect.Eval, input effect.Input, state []byte) (effect.Step, error) {
	host.t.Helper()
	if input.Phase == "" {
		input.Phase = effect.BeforeModel
	}
	if input.Messages == 0 {
		input.Messages = uint32(len(host.Chat))
	}
	for range mostAsks + 1 {
		step, err := eval(input, state)
		if err != nil || step.Ask == nil {
			return step, err
		}
		state, input.Reply = step.State, host.answer(*step.Ask)
	}
	return effect.Step{}, shelly.Exhausted("the effect asked a model more than %d times in a row", mostAsks)
}

// Next calls a coordinator, and again with the prepared reply of a model as long as it asks for one.
func (host *Host) Next(next coordinator.Next, input coordinator.Input, state []byte) (coordinator.Step, error) {
	host.t.Helper()
	for range mostAsks + 1 {
		step, err := next(input, state)
		ask, asks := step.Action.(coordinator.AskModel)
		if err != nil || !asks {
			return step, err
		}
		state, input.Reply = step.State, host.answer(ask.Ask)
	}
	return coordinator.Step{}, shelly.Exhausted("the coordinator asked a model more than %d times in a row", mostAsks)
}

// Advance lets time pass. The clock stands still otherwise; it begins on 2025-01-01.
func (host *Host) Advance(by time.Duration) {
	host.now = host.now.Add(by)
	host.monotonic += by
}

// Reply prepares the reply to the next question to a model, a text.
func (host *Host) Reply(text string) { host.ReplyWith(shelly.NewCompletion(text)) }

// ReplyWith prepares the reply to the next question to a model.
func (host *Host) ReplyWith(completion shelly.Completion) {
	host.replies = append(host.replies, shelly.Reply{Completion: completion})
}

// ReplyError prepares the failure of the next question to a model.
func (host *Host) ReplyError(failure *shelly.Error) {
	host.replies = append(host.replies, shelly.Reply{Err: failure})
}

func (host *Host) answer(ask shelly.Ask) *shelly.Reply {
	host.t.Helper()
	host.Asked = append(host.Asked, ask)
	if len(host.replies) == 0 {
		host.t.Fatal("no reply of a model is prepared; prepare it with `host.Reply`")
	}
	reply := host.replies[0]
	host.replies = host.replies[1:]
	return &reply
}

type preparedOutput struct {
	output calls.Output
	err    error
}

// SetOutput prepares the outcome of the next run of a program.
func (host *Host) SetOutput(program string, output calls.Output) {
	host.outputs[program] = append(host.outputs[program], preparedOutput{output: output})
}

// SetOutputError prepares the failure of the next run of a program.
func (host *Host) SetOutputError(program string, failure *shelly.Error) {
	host.outputs[program] = append(host.outputs[program], preparedOutput{err: failure})
}

func (host *Host) runProgram(command calls.Command) (calls.Output, error) {
	host.t.Helper()
	host.Commands = append(host.Commands, command)
	outputs := host.outputs[command.Program]
	if len(outputs) == 0 {
		host.t.Fatalf("no output is prepared for the program `%s`; prepare it with `host.SetOutput`", command.Program)
	}
	host.outputs[command.Program] = outputs[1:]
	return outputs[0].output, outputs[0].err
}
