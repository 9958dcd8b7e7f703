// Package calls has the functions of the host, as wit/imports.wit has them: in a component those of the host itself, in unit
// tests those of a Host of shellytest.
package calls

import shelly "shelly-plugin"

// Level is the severity of an entry in the log.
type Level uint8

// The levels, in the order of the contract.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// String returns the name of the level.
func (level Level) String() string {
	names := [...]string{"debug", "info", "warn", "error"}
	if int(level) >= len(names) {
		return "unknown"
	}
	return names[level]
}

// DeltaKind is the kind of a piece of a reply.
type DeltaKind uint8

// The kinds, in the order of the contract. Pieces of other formats are not passed on.
const (
	DeltaText DeltaKind = iota
	DeltaThinking
	DeltaToolCall
	DeltaUsage
)

// Delta is a piece of a reply: its text, the name of a tool that is called, or the total usage so far.
type Delta struct {
	Kind  DeltaKind
	Text  string
	Usage shelly.Usage
}

// Traits are the properties of a message that are known without reading it.
type Traits uint8

// The traits, in the order of the contract.
const (
	HasCalls Traits = 1 << iota
	HasResults
	HasFailed
	HasMedia
	IsNote
	IsEdited
)

// ChatEntry has the facts about a message that are known without reading it.
type ChatEntry struct {
	// The permanent id of the message in this chat.
	ID     uint64
	Role   shelly.Role
	Traits Traits
	// The id of the assistant message whose calls opened the group of this message. Groups are kept or removed as a whole.
	Group *uint64
	// The estimated tokens.
	Tokens uint32
}

// KVEntry is a value and its revision, which changes with every write of the key.
type KVEntry struct {
	Value    []byte
	Revision uint64
}

// Header is a header of a request or response. Names are lower case in responses.
type Header struct{ Name, Value string }

// HTTPRequest is the head of a request.
type HTTPRequest struct {
	Method, URL string
	Headers     []Header
	// The name of a credential in the plugin's grant. The plugin never sees its value.
	Credential *string
	TimeoutMs  *uint32
}

// HTTPResponse is a response; its body is read separately.
type HTTPResponse struct {
	Status  uint16
	Headers []Header
	Body    Body
}

// Body is the body of a response.
type Body interface {
	// Read returns 1 to `most` bytes, and none at the end.
	Read(most uint32) ([]byte, error)
	// Close ends the connection if the body was not read to its end.
	Close()
}

// Upload is the body of a request that is sent in pieces.
type Upload interface {
	Write(piece []byte) error
	Finish() (HTTPResponse, error)
	// Close aborts the request if it is not finished.
	Close()
}

// Command is a program to run.
type Command struct {
	// The name of an entry in the grant.
	Program   string
	Args      []string
	Stdin     []byte
	TimeoutMs *uint32
}

// Output is the outcome of a program.
type Output struct {
	// The exit status; nil if a signal killed the program.
	Status         *int32
	Stdout, Stderr []byte
	// True if one of the outputs was cut.
	IsCut bool
}
