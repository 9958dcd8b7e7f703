// Package host has the functions of the host that are no store, no server and no file: the log, the params, progress, the
// clock, random numbers, the chat, programs, the request of a model middleware, attachments.
//
// wit/plugin.wit must import the interface of each function that the plugin calls, and plugin.toml ask for it under [wants]:
// the comments in wit/plugin.wit say how. If a line is missing, the build says which.
package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	shelly "shelly-plugin"
	"shelly-plugin/internal/calls"
)

// Debug writes to the log. What is printed is there, too.
func Debug(format string, args ...any) { calls.LogWrite(calls.Debug, fmt.Sprintf(format, args...)) }

// Info writes to the log.
func Info(format string, args ...any) { calls.LogWrite(calls.Info, fmt.Sprintf(format, args...)) }

// Warn writes a warning to the log.
func Warn(format string, args ...any) { calls.LogWrite(calls.Warn, fmt.Sprintf(format, args...)) }

// Error writes an error to the log.
func Error(format string, args ...any) { calls.LogWrite(calls.Error, fmt.Sprintf(format, args...)) }

// Params reads the params of the config into a struct, which has the defaults before. Unknown params are an error.
func Params[P any](defaults P) (P, error) {
	params := defaults
	decoder := json.NewDecoder(bytes.NewReader([]byte(calls.ConfigGet())))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&params); err != nil {
		return defaults, shelly.Invalid("invalid params of the plugin: %v", err)
	}
	return params, nil
}

// Progress reports that `done` of `total` is finished, in a unit of your choice, with a message that may be empty. A total
// of 0 is unknown.
func Progress(done, total float64, message string) {
	var of *float64
	if total > 0 {
		of = &total
	}
	var text *string
	if message != "" {
		text = &message
	}
	calls.ProgressReport(done, of, text)
}

// Now returns the time, in milliseconds.
func Now() time.Time { return time.UnixMilli(int64(calls.ClockNow())).UTC() }

// Monotonic returns the time since some moment before the call. It never decreases.
func Monotonic() time.Duration { return time.Duration(calls.ClockMonotonic()) }

// Random returns random bytes that are suitable for keys. Bound: 64 KiB a call.
func Random(length uint32) []byte { return calls.RandomBytes(length) }

// Entry has the facts about a message that are known without reading it.
type Entry = calls.ChatEntry

// The traits of an entry.
const (
	HasCalls   = calls.HasCalls
	HasResults = calls.HasResults
	HasFailed  = calls.HasFailed
	HasMedia   = calls.HasMedia
	IsNote     = calls.IsNote
	IsEdited   = calls.IsEdited
)

// ChatLength returns the number of messages of the chat.
func ChatLength() uint32 { return calls.ChatLength() }

// ChatEntries returns the facts about the messages from position `start` up to but without `end`. Bound: 1,024 a call.
func ChatEntries(start, end uint32) []Entry { return calls.ChatEntries(start, end) }

// ReadChat returns the messages from position `start` up to but without `end`, all of them: it calls the host as often as
// needed.
func ReadChat(start, end uint32) []shelly.Message {
	var messages []shelly.Message
	for start < end {
		read := calls.ChatRead(start, end)
		if len(read) == 0 {
			break
		}
		messages = append(messages, read...)
		start += uint32(len(read))
	}
	return messages
}

// FindMessage returns the current position of a message, and false if it was removed or replaced.
func FindMessage(id uint64) (uint32, bool) {
	if found := calls.ChatFind(id); found != nil {
		return *found, true
	}
	return 0, false
}

// ChatTools returns the names of the agent's tools, before effects hide any.
func ChatTools() []string { return calls.ChatTools() }

// Outgoing returns the request that a call of a model middleware handles.
func Outgoing() shelly.Request { return calls.OutgoingGet() }

const attachmentPiece = 1 << 20

// ReadAttachment returns the bytes of an attachment, at most so many.
func ReadAttachment(id shelly.Attachment, most int) ([]byte, error) {
	var whole []byte
	for {
		// One byte more than allowed shows that there are too many.
		left := uint32(min(most-len(whole)+1, attachmentPiece))
		piece, err := calls.AttachmentsRead(string(id), uint64(len(whole)), left)
		if err != nil {
			return nil, err
		}
		if len(piece) == 0 {
			return whole, nil
		}
		if whole = append(whole, piece...); len(whole) > most {
			return nil, shelly.TooLarge("the attachment `%s` has more than %d bytes", id, most)
		}
	}
}

// Command is a program to run.
type Command = calls.Command

// Output is the outcome of a program.
type Output = calls.Output

// RunProgram runs a program of the grant to its end.
func RunProgram(command Command) (Output, error) { return calls.ProcessRun(command) }
