// Package shelly has the types that all kinds of plugins for shelly-host share. They follow wit/types.wit.
//
// The functions of the host are in the packages host, kv, http and files, and each kind of plugin has a package of its own:
// tool, effect, runmiddleware, modelmiddleware, toolmiddleware, provider, coordinator. Import only the kinds that the world
// in wit/plugin.wit exports. Unit tests use the package shellytest.
package shelly

import (
	"encoding/json"
	"strings"
)

// Role is the author of a message.
type Role uint8

// The roles, in the order of the contract.
const (
	System Role = iota
	User
	Assistant
	ToolRole
)

// String returns the name of the role.
func (role Role) String() string {
	names := [...]string{"system", "user", "assistant", "tool"}
	if int(role) >= len(names) {
		return "unknown"
	}
	return names[role]
}

// Fact is a key and a value that accompany the typed fields. Keys that begin with `shelly.` belong to the host.
type Fact struct{ Key, Value string }

// Meta is a list of facts, whose order is kept and whose keys are unique.
type Meta []Fact

// Get returns the value of a key.
func (meta Meta) Get(key string) (string, bool) {
	for _, fact := range meta {
		if fact.Key == key {
			return fact.Value, true
		}
	}
	return "", false
}

// Source is the location of the bytes of a medium: Inline, Attachment or URL.
type Source interface{ isSource() }

// Inline is bytes in the value itself. Only for media that a plugin passes to the host. Bound: 8 MiB.
type Inline []byte

// Attachment is the id of bytes at the host. A provider reads them with host.ReadAttachment.
type Attachment string

// URL is the address of bytes on the web. The host does not fetch them.
type URL string

func (Inline) isSource()     {}
func (Attachment) isSource() {}
func (URL) isSource()        {}

// Text is text: a part of a message, or content for the model.
type Text string

// JSON is structured data in a tool's result, as JSON.
type JSON string

// Media is an image, a document, a sound.
type Media struct {
	MediaType string
	// A file name to display.
	Name   *string
	Source Source
}

// Opaque is a value that has no type of its own in this version of the contract. Keep it and pass it on.
type Opaque struct {
	// The name of the format, prefixed by its owner.
	Kind string
	JSON string
}

// Thinking is the reasoning of a model before its answer.
type Thinking struct {
	Text string
	// Data that the vendor expects back unchanged.
	Opaque *string
}

// ToolCall is a model's request to run a tool.
type ToolCall struct {
	// Unique within a session; it stays the same when the host repeats the call.
	ID, Name string
	// A JSON object, as the model wrote it.
	Arguments string
	Meta      Meta
}

// ToolResult is the result of a tool call.
type ToolResult struct {
	CallID  string
	Content []Content
	IsError bool
}

// FileAct is the action of a FileChange: WriteFile, Remove, MoveTo, CopyTo or MakeFolder.
type FileAct interface{ isFileAct() }

// WriteFile writes this content to the file.
type WriteFile []byte

// Remove removes the file, or the folder with everything below it.
type Remove struct{}

// MoveTo moves the file or folder to this path.
type MoveTo string

// CopyTo copies the file or folder to this path.
type CopyTo string

// MakeFolder creates a folder.
type MakeFolder struct{}

func (WriteFile) isFileAct()  {}
func (Remove) isFileAct()     {}
func (MoveTo) isFileAct()     {}
func (CopyTo) isFileAct()     {}
func (MakeFolder) isFileAct() {}

// FileChange is a proposed change to a file or folder, which the host makes after a person has agreed to it.
type FileChange struct {
	Path string
	// The SHA-256, in hexadecimal, of the content that the proposal is based on. Without it the file must not exist for
	// WriteFile, and may have any content otherwise.
	Expected *string
	Act      FileAct
}

// Content is a part of a tool's result: Text, JSON, Media, FileChange or Opaque.
type Content interface{ isContent() }

func (Text) isContent()       {}
func (JSON) isContent()       {}
func (Media) isContent()      {}
func (FileChange) isContent() {}
func (Opaque) isContent()     {}

// JSONOf returns a value as JSON content.
func JSONOf(value any) (JSON, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", Other("the value cannot be written as JSON: %v", err)
	}
	return JSON(text), nil
}

// NeedsFolder asks a person for a folder (an absolute path) that the call lacks. A tool returns it alone.
func NeedsFolder(path string) Content { return needs("folder", path) }

// NeedsServer asks a person for a server, such as `https://example.com`, that the call lacks. A tool returns it alone.
func NeedsServer(url string) Content { return needs("server", url) }

func needs(what, value string) Content {
	// A map of strings is always JSON.
	text, _ := json.Marshal(map[string]string{what: value})
	return Opaque{Kind: "shelly.needs", JSON: string(text)}
}

// Part is a part of a message: Text, Media, Thinking, ToolCall, ToolResult or Opaque.
type Part interface{ isPart() }

func (Text) isPart()       {}
func (Media) isPart()      {}
func (Thinking) isPart()   {}
func (ToolCall) isPart()   {}
func (ToolResult) isPart() {}
func (Opaque) isPart()     {}

// Message is a message of a chat.
type Message struct {
	// The name of the agent, person or plugin that wrote it; empty if unknown.
	Sender string
	Role   Role
	Parts  []Part
	Meta   Meta
}

// NewMessage returns a message with one text.
func NewMessage(role Role, text string) Message {
	return Message{Role: role, Parts: []Part{Text(text)}}
}

// Text returns the text parts, concatenated.
func (message Message) Text() string { return textOf(message.Parts) }

// IsAnswer returns true if the reply that a run middleware receives is an answer: not that of an agent that hands over or
// has failed.
func (message Message) IsAnswer() bool {
	ending, _ := message.Meta.Get("shelly.ending")
	return ending != "handed-over" && ending != "failed"
}

// Member returns the team member that wrote the message, in the team's shared chat; empty if none did.
func (message Message) Member() string {
	if message.Role != Assistant {
		return ""
	}
	if member, found := message.Meta.Get("shelly.member"); found {
		return member
	}
	return message.Sender
}

// ToolHints say what a tool changes. With none of them the host treats the tool with the most care.
type ToolHints uint8

// The hints. Pure is for tools that only compute from their arguments.
const (
	ReadOnly ToolHints = 1 << iota
	NonDestructive
	Idempotent
	ClosedWorld
	Pure = ReadOnly | NonDestructive | Idempotent | ClosedWorld
)

// ToolSpec is the description of a tool for the model. The schemas are JSON.
type ToolSpec struct {
	Name, Description string
	InputSchema       string
	OutputSchema      *string
	Hints             ToolHints
	Meta              Meta
}

// Usage counts the tokens that a completion used. The four counts do not overlap.
type Usage struct {
	InputTokens, OutputTokens, CacheReadTokens, CacheWriteTokens uint64
}

// Stop is the reason why a model stopped: one of the constants, or another reason in the vendor's words.
type Stop string

// The reasons that the contract names.
const (
	EndTurn      Stop = "end-turn"
	ToolCalls    Stop = "tool-calls"
	MaxTokens    Stop = "max-tokens"
	StopSequence Stop = "stop-sequence"
	Refusal      Stop = "refusal"
)

// ToolChoice says which tools a model may or must call. Its zero value leaves it to the model.
type ToolChoice struct {
	Mode ToolChoiceMode
	// The tool that must be called, with OneTool.
	Name string
}

// ToolChoiceMode is a kind of choice.
type ToolChoiceMode uint8

// The modes, in the order of the contract.
const (
	Auto ToolChoiceMode = iota
	Never
	Required
	OneTool
)

// Request is a request to a model.
type Request struct {
	Messages        []Message
	Tools           []ToolSpec
	ToolChoice      ToolChoice
	MaxOutputTokens *uint32
	Temperature     *float32
	ResponseSchema  *string
	Meta            Meta
}

// Completion is a model's reply.
type Completion struct {
	Parts []Part
	Stop  Stop
	Usage Usage
	Model string
	Meta  Meta
}

// NewCompletion returns a reply with one text.
func NewCompletion(text string) Completion {
	return Completion{Parts: []Part{Text(text)}, Stop: EndTurn}
}

// Text returns the text parts, concatenated.
func (completion Completion) Text() string { return textOf(completion.Parts) }

// Reply is the outcome of a request to a model: a completion, or the error that it failed with.
type Reply struct {
	Completion Completion
	Err        *Error
}

// Ask is a plugin's request for a model's reply.
type Ask struct {
	// A name in the host's config; without it the agent's own model is asked.
	Model   *string
	Request Request
}

// AskText returns a request with one message of a user, to the agent's own model.
func AskText(text string) *Ask {
	return &Ask{Request: Request{Messages: []Message{NewMessage(User, text)}}}
}

// RunContext is the run that a call belongs to.
type RunContext struct {
	Run, Agent string
	// 0 for an agent that a person started, 1 for one that it delegated to, and so on.
	Depth uint32
}

// Some returns the address of a value, for optional fields.
func Some[T any](value T) *T { return &value }

func textOf(parts []Part) string {
	var text strings.Builder
	for _, part := range parts {
		if piece, isText := part.(Text); isText {
			text.WriteString(string(piece))
		}
	}
	return text.String()
}
