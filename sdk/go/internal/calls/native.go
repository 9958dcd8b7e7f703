//go:build !wasm

package calls

import (
	"fmt"
	"io/fs"
	"os"

	shelly "shelly-plugin"
)

// Host is what answers the calls of unit tests.
type Host interface {
	LogWrite(level Level, message string)
	ConfigGet() string
	ProgressReport(done float64, total *float64, message *string)
	SinkEmit(delta Delta)
	OutgoingGet() shelly.Request
	AttachmentsRead(id string, offset uint64, most uint32) ([]byte, error)
	ChatLength() uint32
	ChatEntries(start, end uint32) []ChatEntry
	ChatRead(start, end uint32) []shelly.Message
	ChatFind(id uint64) *uint32
	ChatTools() []string
	KVGet(key string) (*KVEntry, error)
	KVSet(key string, value *[]byte) error
	KVCompareAndSwap(key string, expected *uint64, value *[]byte) (bool, error)
	KVKeys(prefix string, after *string) ([]string, error)
	HTTPSend(request HTTPRequest, body []byte) (HTTPResponse, error)
	HTTPBegin(request HTTPRequest) (Upload, error)
	HTTPCredentials() []string
	ClockNow() uint64
	ClockMonotonic() uint64
	RandomBytes(length uint32) []byte
	ProcessRun(command Command) (Output, error)
	FileRead(path string) ([]byte, error)
	FileWrite(path string, content []byte) error
	FileList(path string) ([]fs.DirEntry, error)
}

// The host of the running test.
var current Host

// SetHost replaces the host; nil removes it. Returns false if there is another host already.
func SetHost(host Host) bool {
	if host != nil && current != nil {
		return false
	}
	current = host
	return true
}

// host returns the host for a call of this function. A panic stands under the name of the running test.
func host(function string) Host {
	if current == nil {
		panic(fmt.Sprintf(
			"%s calls the host, which does not exist in a unit test; write `host := shellytest.New(t)` at its beginning", function))
	}
	return current
}

// LogWrite writes an entry; without a host to standard error.
func LogWrite(level Level, message string) {
	if current == nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", level, message)
		return
	}
	current.LogWrite(level, message)
}

// ConfigGet returns the params; none without a host.
func ConfigGet() string {
	if current == nil {
		return "{}"
	}
	return current.ConfigGet()
}

// ProgressReport reports progress; nowhere without a host.
func ProgressReport(done float64, total *float64, message *string) {
	if current != nil {
		current.ProgressReport(done, total, message)
	}
}

// SinkEmit passes on a piece of a reply; nowhere without a host.
func SinkEmit(delta Delta) {
	if current != nil {
		current.SinkEmit(delta)
	}
}

func OutgoingGet() shelly.Request { return host("host.Outgoing").OutgoingGet() }

func AttachmentsRead(id string, offset uint64, most uint32) ([]byte, error) {
	return host("host.ReadAttachment").AttachmentsRead(id, offset, most)
}

func ChatLength() uint32 { return host("host.ChatLength").ChatLength() }

func ChatEntries(start, end uint32) []ChatEntry {
	return host("host.ChatEntries").ChatEntries(start, end)
}

func ChatRead(start, end uint32) []shelly.Message { return host("host.ReadChat").ChatRead(start, end) }

func ChatFind(id uint64) *uint32 { return host("host.FindMessage").ChatFind(id) }

func ChatTools() []string { return host("host.ChatTools").ChatTools() }

func KVGet(key string) (*KVEntry, error) { return host("kv.Get").KVGet(key) }

func KVSet(key string, value *[]byte) error { return host("kv.Set").KVSet(key, value) }

func KVCompareAndSwap(key string, expected *uint64, value *[]byte) (bool, error) {
	return host("kv.CompareAndSwap").KVCompareAndSwap(key, expected, value)
}

func KVKeys(prefix string, after *string) ([]string, error) {
	return host("kv.Keys").KVKeys(prefix, after)
}

func HTTPSend(request HTTPRequest, body []byte) (HTTPResponse, error) {
	return host("http.Send").HTTPSend(request, body)
}

func HTTPBegin(request HTTPRequest) (Upload, error) { return host("http.Begin").HTTPBegin(request) }

func HTTPCredentials() []string { return host("http.Credentials").HTTPCredentials() }

func ClockNow() uint64 { return host("host.Now").ClockNow() }

func ClockMonotonic() uint64 { return host("host.Monotonic").ClockMonotonic() }

func RandomBytes(length uint32) []byte { return host("host.Random").RandomBytes(length) }

func ProcessRun(command Command) (Output, error) { return host("host.RunProgram").ProcessRun(command) }

func FileRead(path string) ([]byte, error) { return host("files.Read").FileRead(path) }

func FileWrite(path string, content []byte) error {
	return host("files.Write").FileWrite(path, content)
}

func FileList(path string) ([]fs.DirEntry, error) { return host("files.List").FileList(path) }
