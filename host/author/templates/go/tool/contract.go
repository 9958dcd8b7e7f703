//go:build wasm

// The interfaces `tool`, `log` and `config` of the contract (wit/deps/shelly-plugin) for Go. You need not change this file.
package main

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// Tool is a tool that a model can call.
type Tool struct {
	// 1 to 64 of A-Z a-z 0-9 _ -
	Name string
	// Its purpose, when to use it, and what it returns. The model reads this text.
	Description string
	// JSON Schema of the arguments; its type is object.
	InputSchema string
	Hints       Hints
	Call        func(call Call) ([]Content, error)
}

// Hints say what a tool changes.
type Hints uint32

const (
	ReadOnly Hints = 1 << iota
	NonDestructive
	Idempotent
	ClosedWorld
)

// Call is a model's request to run a tool.
type Call struct {
	ID, Name string
	// A JSON object.
	Arguments string
}

// Content is a part of a result.
type Content struct {
	tag  uint32
	text string
}

// Text is text for the model.
func Text(text string) Content { return Content{0, text} }

// JSON is structured data.
func JSON(json string) Content { return Content{1, json} }

// Failure is an error with a case of the contract, which decides what the host does next.
type Failure struct {
	tag  uint32
	text string
}

func (failure Failure) Error() string { return failure.text }

// Invalid says that the input is wrong, and what would be right.
func Invalid(text string) error { return Failure{0, text} }

// Denied says that a rule forbids the operation.
func Denied(text string) error { return Failure{1, text} }

// NotFound says that the named thing does not exist.
func NotFound(text string) error { return Failure{2, text} }

// Level is the severity of an entry in the log.
type Level uint32

const (
	Debug Level = iota
	Info
	Warn
	Error
)

//go:wasmimport shelly:plugin/log@0.1.0 write
func write(level uint32, message unsafe.Pointer, length uint32)

// Log writes an entry to the host's log. What is printed gets there too.
func Log(level Level, message string) {
	write(uint32(level), unsafe.Pointer(unsafe.StringData(message)), uint32(len(message)))
}

//go:wasmimport shelly:plugin/config@0.1.0 get
func get(result unsafe.Pointer)

// Params returns the params of the config, a JSON object.
func Params() string {
	var result [2]uint32
	get(unsafe.Pointer(&result))
	return strings.Clone(textOf(unsafe.Pointer(uintptr(result[0])), result[1]))
}

// Sizes of values in memory.
const (
	specSize    = 48
	contentSize = 36
	// `result` of a list, or of an error.
	resultSize = 40
)

//go:wasmexport shelly:plugin/tool@0.1.0#specs
func specs() unsafe.Pointer {
	list := newLayout(specSize * len(tools))
	for i, tool := range tools {
		at := i * specSize
		list.text(at, tool.Name)
		list.text(at+8, tool.Description)
		list.text(at+16, tool.InputSchema)
		list[at+36] = byte(tool.Hints)
	}
	result := newLayout(resultSize)
	result.pair(8, list, len(tools))
	return result.address()
}

//go:wasmexport cabi_post_shelly:plugin/tool@0.1.0#specs
func afterSpecs(unsafe.Pointer) {
	forget()
}

//go:wasmexport shelly:plugin/tool@0.1.0#call
func call(id unsafe.Pointer, idLength uint32, name unsafe.Pointer, nameLength uint32, arguments unsafe.Pointer,
	argumentsLength uint32, _ unsafe.Pointer, _ uint32) unsafe.Pointer {
	contents, err := run(Call{textOf(id, idLength), textOf(name, nameLength), textOf(arguments, argumentsLength)})
	result := newLayout(resultSize)
	if err != nil {
		failure := Failure{8, err.Error()}
		errors.As(err, &failure)
		result[0] = 1
		result[8] = byte(failure.tag)
		result.text(16, failure.text)
		return result.address()
	}
	list := newLayout(contentSize * len(contents))
	for i, content := range contents {
		list.number(i*contentSize, content.tag)
		list.text(i*contentSize+4, content.text)
	}
	result.pair(8, list, len(contents))
	return result.address()
}

//go:wasmexport cabi_post_shelly:plugin/tool@0.1.0#call
func afterCall(unsafe.Pointer) {
	forget()
}

func run(call Call) ([]Content, error) {
	names := make([]string, 0, len(tools))
	for _, tool := range tools {
		if tool.Name == call.Name {
			return tool.Call(call)
		}
		names = append(names, tool.Name)
	}
	return nil, NotFound(fmt.Sprintf("unknown tool `%s`; available tools: %s", call.Name, strings.Join(names, ", ")))
}
