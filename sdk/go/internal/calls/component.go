//go:build wasm

package calls

import (
	"io/fs"
	"os"
	"unsafe"

	shelly "shelly-plugin"
	"shelly-plugin/internal/abi"
	"shelly-plugin/internal/contract"
)

// Functions that nothing calls are left out of a component, and so are their imports. An optional value is two parameters:
// 1 if it is there, and the value. A result of several parts is written to the address in the last parameter.

// view returns bytes as a text, without a copy: a text may be a parameter of an import.
func view(bytes []byte) string { return unsafe.String(unsafe.SliceData(bytes), len(bytes)) }

func optional[T any](value *T) (uint32, T) {
	if value == nil {
		var none T
		return 0, none
	}
	return 1, *value
}

func failed(failure *shelly.Error) error {
	if failure == nil {
		return nil
	}
	return failure
}

var (
	texts   = abi.List(abi.Text)
	headers = abi.List(abi.Record(
		abi.In(abi.Text, func(header *Header) *string { return &header.Name }),
		abi.In(abi.Text, func(header *Header) *string { return &header.Value }),
	))
)

//go:wasmimport shelly:plugin/log@0.2.0 write
func logWrite(level uint32, message string)

func LogWrite(level Level, message string) { logWrite(uint32(level), message) }

//go:wasmimport shelly:plugin/config@0.2.0 get
func configGet(result uint32)

func ConfigGet() string { return abi.Call(abi.Text, configGet) }

//go:wasmimport shelly:plugin/progress@0.2.0 report
func progressReport(done float64, hasTotal uint32, total float64, hasMessage uint32, message string)

func ProgressReport(done float64, total *float64, message *string) {
	hasTotal, totalValue := optional(total)
	hasMessage, text := optional(message)
	progressReport(done, hasTotal, totalValue, hasMessage, text)
}

//go:wasmimport shelly:plugin/sink@0.2.0 emit
func sinkEmit(kind uint32, first, second, third, fourth uint64)

func SinkEmit(delta Delta) {
	if delta.Kind == DeltaUsage {
		usage := delta.Usage
		sinkEmit(uint32(delta.Kind), usage.InputTokens, usage.OutputTokens, usage.CacheReadTokens, usage.CacheWriteTokens)
		return
	}
	text := abi.Lower(abi.Text, delta.Text)
	sinkEmit(uint32(delta.Kind), uint64(text.Number(0)), uint64(text.Number(4)), 0, 0)
	text.Keep()
}

//go:wasmimport shelly:plugin/outgoing@0.2.0 get
func outgoingGet(result uint32)

func OutgoingGet() shelly.Request { return abi.Call(contract.Request, outgoingGet) }

//go:wasmimport shelly:plugin/attachments@0.2.0 read
func attachmentsRead(id string, offset uint64, most, result uint32)

func AttachmentsRead(id string, offset uint64, most uint32) ([]byte, error) {
	read := abi.Call(contract.ResultOf(abi.Bytes), func(result uint32) { attachmentsRead(id, offset, most, result) })
	return read.Value, failed(read.Err)
}

//go:wasmimport shelly:plugin/chat@0.2.0 length
func chatLength() uint32

func ChatLength() uint32 { return chatLength() }

//go:wasmimport shelly:plugin/chat@0.2.0 entries
func chatEntries(start, end, result uint32)

func ChatEntries(start, end uint32) []ChatEntry {
	entries := abi.List(abi.Record(
		abi.In(abi.U64, func(entry *ChatEntry) *uint64 { return &entry.ID }),
		abi.In(contract.Role, func(entry *ChatEntry) *shelly.Role { return &entry.Role }),
		abi.In(abi.Number[Traits](1), func(entry *ChatEntry) *Traits { return &entry.Traits }),
		abi.In(abi.Option(abi.U64), func(entry *ChatEntry) **uint64 { return &entry.Group }),
		abi.In(abi.U32, func(entry *ChatEntry) *uint32 { return &entry.Tokens }),
	))
	return abi.Call(entries, func(result uint32) { chatEntries(start, end, result) })
}

//go:wasmimport shelly:plugin/chat@0.2.0 read
func chatRead(start, end, result uint32)

func ChatRead(start, end uint32) []shelly.Message {
	return abi.Call(contract.Messages, func(result uint32) { chatRead(start, end, result) })
}

//go:wasmimport shelly:plugin/chat@0.2.0 find
func chatFind(id uint64, result uint32)

func ChatFind(id uint64) *uint32 {
	return abi.Call(abi.Option(abi.U32), func(result uint32) { chatFind(id, result) })
}

//go:wasmimport shelly:plugin/chat@0.2.0 tools
func chatTools(result uint32)

func ChatTools() []string { return abi.Call(texts, chatTools) }

//go:wasmimport shelly:plugin/kv@0.2.0 get
func kvGet(key string, result uint32)

func KVGet(key string) (*KVEntry, error) {
	entry := abi.Option(abi.Record(
		abi.In(abi.Bytes, func(entry *KVEntry) *[]byte { return &entry.Value }),
		abi.In(abi.U64, func(entry *KVEntry) *uint64 { return &entry.Revision }),
	))
	got := abi.Call(contract.ResultOf(entry), func(result uint32) { kvGet(key, result) })
	return got.Value, failed(got.Err)
}

//go:wasmimport shelly:plugin/kv@0.2.0 set
func kvSet(key string, hasValue uint32, value string, result uint32)

func KVSet(key string, value *[]byte) error {
	has, bytes := optional(value)
	set := abi.Call(contract.ResultOf(abi.Unit), func(result uint32) { kvSet(key, has, view(bytes), result) })
	return failed(set.Err)
}

//go:wasmimport shelly:plugin/kv@0.2.0 compare-and-swap
func kvCompareAndSwap(key string, hasExpected uint32, expected uint64, hasValue uint32, value string, result uint32)

func KVCompareAndSwap(key string, expected *uint64, value *[]byte) (bool, error) {
	hasExpected, revision := optional(expected)
	has, bytes := optional(value)
	swapped := abi.Call(contract.ResultOf(abi.Bool), func(result uint32) {
		kvCompareAndSwap(key, hasExpected, revision, has, view(bytes), result)
	})
	return swapped.Value, failed(swapped.Err)
}

//go:wasmimport shelly:plugin/kv@0.2.0 keys
func kvKeys(prefix string, hasAfter uint32, after string, result uint32)

func KVKeys(prefix string, after *string) ([]string, error) {
	has, text := optional(after)
	keys := abi.Call(contract.ResultOf(texts), func(result uint32) { kvKeys(prefix, has, text, result) })
	return keys.Value, failed(keys.Err)
}

// rawResponse is a response with the handle of its body.
type rawResponse struct {
	status  uint16
	headers []Header
	body    uint32
}

// responses is a function: only what calls it needs the type.
func responses() abi.Type[abi.Result[rawResponse, shelly.Error]] {
	return contract.ResultOf(abi.Record(
		abi.In(abi.U16, func(response *rawResponse) *uint16 { return &response.status }),
		abi.In(headers, func(response *rawResponse) *[]Header { return &response.headers }),
		abi.In(abi.U32, func(response *rawResponse) *uint32 { return &response.body }),
	))
}

func responseOf(raw abi.Result[rawResponse, shelly.Error]) (HTTPResponse, error) {
	if raw.Err != nil {
		return HTTPResponse{}, raw.Err
	}
	return HTTPResponse{raw.Value.status, raw.Value.headers, &body{handle: raw.Value.body}}, nil
}

//go:wasmimport shelly:plugin/http@0.2.0 send
func httpSend(method, url string, headers, headersLength, hasCredential uint32, credential string, hasTimeout, timeoutMs uint32,
	body string, result uint32)

func HTTPSend(request HTTPRequest, body []byte) (HTTPResponse, error) {
	list := abi.Lower(headers, request.Headers)
	defer list.Keep()
	hasCredential, credential := optional(request.Credential)
	hasTimeout, timeoutMs := optional(request.TimeoutMs)
	return responseOf(abi.Call(responses(), func(result uint32) {
		httpSend(request.Method, request.URL, list.Number(0), list.Number(4), hasCredential, credential, hasTimeout, timeoutMs,
			view(body), result)
	}))
}

//go:wasmimport shelly:plugin/http@0.2.0 begin
func httpBegin(method, url string, headers, headersLength, hasCredential uint32, credential string, hasTimeout, timeoutMs uint32,
	result uint32)

func HTTPBegin(request HTTPRequest) (Upload, error) {
	list := abi.Lower(headers, request.Headers)
	defer list.Keep()
	hasCredential, credential := optional(request.Credential)
	hasTimeout, timeoutMs := optional(request.TimeoutMs)
	begun := abi.Call(contract.ResultOf(abi.U32), func(result uint32) {
		httpBegin(request.Method, request.URL, list.Number(0), list.Number(4), hasCredential, credential, hasTimeout, timeoutMs,
			result)
	})
	if begun.Err != nil {
		return nil, begun.Err
	}
	return &upload{handle: begun.Value}, nil
}

//go:wasmimport shelly:plugin/http@0.2.0 credentials
func httpCredentials(result uint32)

func HTTPCredentials() []string { return abi.Call(texts, httpCredentials) }

// body is the handle of a body at the host.
type body struct {
	handle   uint32
	isClosed bool
}

//go:wasmimport shelly:plugin/http@0.2.0 [method]body.read
func bodyRead(handle, most, result uint32)

//go:wasmimport shelly:plugin/http@0.2.0 [resource-drop]body
func bodyDrop(handle uint32)

func (body *body) Read(most uint32) ([]byte, error) {
	if body.isClosed {
		return nil, nil
	}
	read := abi.Call(contract.ResultOf(abi.Bytes), func(result uint32) { bodyRead(body.handle, most, result) })
	return read.Value, failed(read.Err)
}

func (body *body) Close() {
	if !body.isClosed {
		body.isClosed = true
		bodyDrop(body.handle)
	}
}

// upload is the handle of an upload at the host.
type upload struct {
	handle   uint32
	isClosed bool
}

//go:wasmimport shelly:plugin/http@0.2.0 [method]upload.write
func uploadWrite(handle uint32, piece string, result uint32)

//go:wasmimport shelly:plugin/http@0.2.0 [static]upload.finish
func uploadFinish(handle, result uint32)

//go:wasmimport shelly:plugin/http@0.2.0 [resource-drop]upload
func uploadDrop(handle uint32)

func (upload *upload) Write(piece []byte) error {
	if upload.isClosed {
		return shelly.Invalid("the upload is over; begin another request")
	}
	written := abi.Call(contract.ResultOf(abi.Unit), func(result uint32) { uploadWrite(upload.handle, view(piece), result) })
	return failed(written.Err)
}

func (upload *upload) Finish() (HTTPResponse, error) {
	if upload.isClosed {
		return HTTPResponse{}, shelly.Invalid("the upload is over; begin another request")
	}
	upload.isClosed = true
	return responseOf(abi.Call(responses(), func(result uint32) { uploadFinish(upload.handle, result) }))
}

func (upload *upload) Close() {
	if !upload.isClosed {
		upload.isClosed = true
		uploadDrop(upload.handle)
	}
}

//go:wasmimport shelly:plugin/clock@0.2.0 now
func clockNow() uint64

func ClockNow() uint64 { return clockNow() }

//go:wasmimport shelly:plugin/clock@0.2.0 monotonic
func clockMonotonic() uint64

func ClockMonotonic() uint64 { return clockMonotonic() }

//go:wasmimport shelly:plugin/random@0.2.0 bytes
func randomBytes(length, result uint32)

func RandomBytes(length uint32) []byte {
	return abi.Call(abi.Bytes, func(result uint32) { randomBytes(length, result) })
}

//go:wasmimport shelly:plugin/process@0.2.0 run
func processRun(program string, args, argsLength uint32, stdin string, hasTimeout, timeoutMs, result uint32)

func ProcessRun(command Command) (Output, error) {
	outputs := contract.ResultOf(abi.Record(
		abi.In(abi.Option(abi.S32), func(output *Output) **int32 { return &output.Status }),
		abi.In(abi.Bytes, func(output *Output) *[]byte { return &output.Stdout }),
		abi.In(abi.Bytes, func(output *Output) *[]byte { return &output.Stderr }),
		abi.In(abi.Bool, func(output *Output) *bool { return &output.IsCut }),
	))
	args := abi.Lower(texts, command.Args)
	defer args.Keep()
	hasTimeout, timeoutMs := optional(command.TimeoutMs)
	ran := abi.Call(outputs, func(result uint32) {
		processRun(command.Program, args.Number(0), args.Number(4), view(command.Stdin), hasTimeout, timeoutMs, result)
	})
	return ran.Value, failed(ran.Err)
}

func FileRead(path string) ([]byte, error) { return os.ReadFile(path) }

func FileWrite(path string, content []byte) error { return os.WriteFile(path, content, 0o600) }

func FileList(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
