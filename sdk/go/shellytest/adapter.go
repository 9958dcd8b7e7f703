package shellytest

import (
	"encoding/json"
	"io/fs"

	shelly "shelly-plugin"
	"shelly-plugin/internal/calls"
)

// adapter answers the calls of the plugin, so that a Host has only what tests need.
type adapter struct{ host *Host }

func (a adapter) LogWrite(level calls.Level, message string) {
	a.host.Log = append(a.host.Log, LogEntry{level.String(), message})
}

func (a adapter) ConfigGet() string {
	a.host.t.Helper()
	if a.host.Params == nil {
		return "{}"
	}
	params, err := json.Marshal(a.host.Params)
	if err != nil {
		a.host.t.Fatalf("the params cannot be written as JSON: %v", err)
	}
	return string(params)
}

func (a adapter) ProgressReport(done float64, total *float64, message *string) {
	report := Progress{Done: done, Total: total}
	if message != nil {
		report.Message = *message
	}
	a.host.Progress = append(a.host.Progress, report)
}

func (a adapter) SinkEmit(delta calls.Delta) {
	kinds := [...]string{"text", "thinking", "tool-call", "usage"}
	a.host.Emitted = append(a.host.Emitted, Delta{kinds[delta.Kind], delta.Text, delta.Usage})
}

func (a adapter) OutgoingGet() shelly.Request {
	a.host.t.Helper()
	if a.host.Outgoing == nil {
		a.host.t.Fatal("no request is set; set `host.Outgoing`")
	}
	return *a.host.Outgoing
}

func (a adapter) AttachmentsRead(id string, offset uint64, most uint32) ([]byte, error) {
	bytes, has := a.host.Attachments[id]
	if !has {
		return nil, shelly.NotFound("there is no attachment `%s`", id)
	}
	start := min(offset, uint64(len(bytes)))
	end := min(start+uint64(min(most, mostAttachment)), uint64(len(bytes)))
	return bytes[start:end], nil
}

func (a adapter) ChatLength() uint32 { return uint32(len(a.host.Chat)) }

// The id of a message is its position and 1.
func (a adapter) ChatEntries(start, end uint32) []calls.ChatEntry {
	entries := []calls.ChatEntry{}
	var group *uint64
	for at, message := range a.host.Chat {
		entry := calls.ChatEntry{ID: uint64(at) + 1, Role: message.Role}
		length := 0
		for _, part := range message.Parts {
			switch part := part.(type) {
			case shelly.Text:
				length += len(part)
			case shelly.ToolCall:
				entry.Traits |= calls.HasCalls
				length += len(part.Name) + len(part.Arguments)
			case shelly.ToolResult:
				entry.Traits |= calls.HasResults
				if part.IsError {
					entry.Traits |= calls.HasFailed
				}
				for _, content := range part.Content {
					if text, isText := content.(shelly.Text); isText {
						length += len(text)
					}
				}
			case shelly.Media:
				entry.Traits |= calls.HasMedia
			}
		}
		if _, isNote := message.Meta.Get("shelly.note"); isNote {
			entry.Traits |= calls.IsNote
		}
		switch {
		case entry.Traits&calls.HasCalls != 0:
			group = shelly.Some(entry.ID)
		case entry.Traits&calls.HasResults == 0:
			group = nil
		}
		entry.Group = group
		// About four bytes a token, as the host estimates text.
		entry.Tokens = uint32(length / 4)
		entries = append(entries, entry)
	}
	from, to := a.within(start, end)
	return entries[from:min(to, from+mostEntries)]
}

func (a adapter) ChatRead(start, end uint32) []shelly.Message {
	from, to := a.within(start, end)
	return a.host.Chat[from:to]
}

// within returns the positions that exist.
func (a adapter) within(start, end uint32) (int, int) {
	length := len(a.host.Chat)
	to := min(int(end), length)
	return min(int(start), to), to
}

func (a adapter) ChatFind(id uint64) *uint32 {
	if id < 1 || id > uint64(len(a.host.Chat)) {
		return nil
	}
	return shelly.Some(uint32(id - 1))
}

func (a adapter) ChatTools() []string { return a.host.Tools }

func (a adapter) KVGet(key string) (*calls.KVEntry, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	revision := a.host.store.revision(key)
	if revision == nil {
		return nil, nil
	}
	return &calls.KVEntry{Value: a.host.Stored[key], Revision: *revision}, nil
}

func (a adapter) KVSet(key string, value *[]byte) error { return a.host.store.set(key, value) }

func (a adapter) KVCompareAndSwap(key string, expected *uint64, value *[]byte) (bool, error) {
	return a.host.store.compareAndSwap(key, expected, value)
}

func (a adapter) KVKeys(prefix string, after *string) ([]string, error) {
	return a.host.store.keys(prefix, after), nil
}

func (a adapter) HTTPSend(request calls.HTTPRequest, body []byte) (calls.HTTPResponse, error) {
	a.host.t.Helper()
	return a.host.send(request, body)
}

func (a adapter) HTTPBegin(request calls.HTTPRequest) (calls.Upload, error) {
	return &preparedUpload{host: a.host, request: request}, nil
}

func (a adapter) HTTPCredentials() []string { return a.host.Credentials }

func (a adapter) ClockNow() uint64 { return uint64(a.host.now.UnixMilli()) }

func (a adapter) ClockMonotonic() uint64 { return uint64(a.host.monotonic) }

func (a adapter) RandomBytes(length uint32) []byte {
	bytes := make([]byte, min(length, mostRandom))
	// A source of numbers in memory does not fail.
	_, _ = a.host.random.Read(bytes)
	return bytes
}

func (a adapter) ProcessRun(command calls.Command) (calls.Output, error) {
	a.host.t.Helper()
	return a.host.runProgram(command)
}

func (a adapter) FileRead(path string) ([]byte, error) { return a.host.Files.read(path) }

func (a adapter) FileWrite(path string, content []byte) error {
	return a.host.Files.write(path, content)
}

func (a adapter) FileList(path string) ([]fs.DirEntry, error) { return a.host.Files.list(path) }
