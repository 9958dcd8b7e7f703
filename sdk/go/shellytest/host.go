// Package shellytest has a host for unit tests: no component is built, and nothing is reached.
//
//	func TestTitleIsRead(t *testing.T) {
//		host := shellytest.New(t)
//		host.HTTP.Reply("GET", "https://example.com/a", shellytest.Response{JSON: map[string]string{"title": "A"}})
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

	HTTP     *HTTP
	KV       *KV
	Clock    *Clock
	Models   *Models
	Programs *Programs

	// What the plugin has said.
	Log      []LogEntry
	Progress []Progress
	Emitted  []Delta

	t      testing.TB
	random *rand.Rand
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
		HTTP:        &HTTP{prepared: map[string][]preparedResponse{}},
		KV:          &KV{Values: map[string][]byte{}, revisions: map[string]uint64{}},
		Clock:       &Clock{now: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)},
		Models:      &Models{},
		Programs:    &Programs{outputs: map[string][]preparedOutput{}},
		t:           t,
		random:      rand.New(rand.NewSource(0)),
	}
	host.HTTP.t, host.Models.t, host.Programs.t = t, t, t
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
func (host *Host) Eval(eval effect.Eval, moment effect.Moment, state []byte) (effect.Step, error) {
	host.t.Helper()
	if moment.Phase == "" {
		moment.Phase = effect.BeforeModel
	}
	if moment.Messages == 0 {
		moment.Messages = uint32(len(host.Chat))
	}
	for range mostAsks + 1 {
		step, err := eval(moment, state)
		if err != nil || step.Ask == nil {
			return step, err
		}
		state, moment.Reply = step.State, host.Models.answer(*step.Ask)
	}
	return effect.Step{}, shelly.Exhausted("the effect asked a model more than %d times in a row", mostAsks)
}

// Next calls a coordinator, and again with the prepared reply of a model as long as it asks for one.
func (host *Host) Next(next coordinator.Next, moment coordinator.Moment, state []byte) (coordinator.Step, error) {
	host.t.Helper()
	for range mostAsks + 1 {
		step, err := next(moment, state)
		ask, asks := step.Action.(coordinator.AskModel)
		if err != nil || !asks {
			return step, err
		}
		state, moment.Reply = step.State, host.Models.answer(ask.Ask)
	}
	return coordinator.Step{}, shelly.Exhausted("the coordinator asked a model more than %d times in a row", mostAsks)
}

// Clock is a clock that stands still until a test advances it. It begins on 2025-01-01.
type Clock struct {
	now       time.Time
	monotonic time.Duration
}

// Advance lets time pass.
func (clock *Clock) Advance(by time.Duration) {
	clock.now = clock.now.Add(by)
	clock.monotonic += by
}

// Models are models whose replies a test prepares. Asked has the requests.
type Models struct {
	Asked   []shelly.Ask
	replies []shelly.Reply
	t       testing.TB
}

// Reply prepares the next reply, a text.
func (models *Models) Reply(text string) { models.ReplyWith(shelly.NewCompletion(text)) }

// ReplyWith prepares the next reply.
func (models *Models) ReplyWith(completion shelly.Completion) {
	models.replies = append(models.replies, shelly.Reply{Completion: completion})
}

// Fail prepares the next failure.
func (models *Models) Fail(failure *shelly.Error) {
	models.replies = append(models.replies, shelly.Reply{Err: failure})
}

func (models *Models) answer(ask shelly.Ask) *shelly.Reply {
	models.t.Helper()
	models.Asked = append(models.Asked, ask)
	if len(models.replies) == 0 {
		models.t.Fatal("no reply of a model is prepared; prepare it with `host.Models.Reply`")
	}
	reply := models.replies[0]
	models.replies = models.replies[1:]
	return &reply
}

// Programs are programs whose outputs a test prepares. Commands has what was run.
type Programs struct {
	Commands []calls.Command
	outputs  map[string][]preparedOutput
	t        testing.TB
}

type preparedOutput struct {
	output calls.Output
	err    error
}

// Reply prepares the outcome of the next run of a program.
func (programs *Programs) Reply(program string, output calls.Output) {
	programs.outputs[program] = append(programs.outputs[program], preparedOutput{output: output})
}

// Fail prepares the failure of the next run of a program.
func (programs *Programs) Fail(program string, failure *shelly.Error) {
	programs.outputs[program] = append(programs.outputs[program], preparedOutput{err: failure})
}

func (programs *Programs) run(command calls.Command) (calls.Output, error) {
	programs.t.Helper()
	programs.Commands = append(programs.Commands, command)
	outputs := programs.outputs[command.Program]
	if len(outputs) == 0 {
		programs.t.Fatalf("no output is prepared for the program `%s`; prepare it with `host.Programs.Reply`", command.Program)
	}
	programs.outputs[command.Program] = outputs[1:]
	return outputs[0].output, outputs[0].err
}
