// Package tool is for tools that a model can call. The arguments of a tool are a struct, from which its JSON Schema is derived:
// see the package schema.
package tool

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	shelly "shelly-plugin"
	"shelly-plugin/schema"
)

const (
	mostShownCauses = 5
	mostName        = 64

	lettersOfNames = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
)

// Call is a model's request to run a tool.
type Call struct {
	// Unique within a session; it stays the same when the host repeats the call.
	ID, Name string
}

// Tool is a tool that a model can call.
type Tool struct {
	spec   shelly.ToolSpec
	result reflect.Type
	run    func(call Call, arguments string) ([]shelly.Content, error)
}

// New describes a tool. The model reads the description: the tool's purpose, when to use it, and what it returns. `run` gets
// arguments that fit. A string that it returns is a text for the model, shelly.Content or a list of it is that content, nil
// an empty result, and any other value JSON.
//
// New panics if the name, the description or the type of the arguments cannot be used; a build shows it.
func New[A, R any](name, description string, run func(call Call, args A) (R, error)) *Tool {
	if name == "" || len(name) > mostName || strings.Trim(name, lettersOfNames) != "" {
		panic(fmt.Sprintf("the tool's name `%s` is not 1 to 64 of A-Z a-z 0-9 _ -", name))
	}
	if description == "" {
		panic(fmt.Sprintf("the tool `%s` has no description; write one, since the model reads it", name))
	}
	of := reflect.TypeFor[A]()
	if of.Kind() != reflect.Struct {
		panic(fmt.Sprintf("the arguments of the tool `%s` are of type %s; use a struct", name, of))
	}
	input, err := schema.Of(of)
	if err != nil {
		panic(fmt.Sprintf("the arguments of the tool `%s`: %v", name, err))
	}
	return &Tool{
		spec:   shelly.ToolSpec{Name: name, Description: description, InputSchema: input.String()},
		result: reflect.TypeFor[R](),
		run: func(call Call, arguments string) ([]shelly.Content, error) {
			if causes := input.Check([]byte(arguments), "argument"); len(causes) > 0 {
				return nil, invalid(name, causes)
			}
			var args A
			if err := json.Unmarshal([]byte(arguments), &args); err != nil {
				return nil, invalid(name, []string{err.Error()})
			}
			result, err := run(call, args)
			if err != nil {
				return nil, err
			}
			return contentOf(result)
		},
	}
}

// Hints says what the tool changes. Without it the host treats the tool with the most care.
func (tool *Tool) Hints(hints shelly.ToolHints) *Tool {
	tool.spec.Hints = hints
	return tool
}

// Title gives the tool a name for people.
func (tool *Tool) Title(title string) *Tool {
	tool.spec.Meta = append(tool.spec.Meta, shelly.Fact{Key: "title", Value: title})
	return tool
}

// Output declares the schema of the result, which is that of the type that the tool returns. It panics if that has none.
func (tool *Tool) Output() *Tool {
	output, err := schema.Of(tool.result)
	if err != nil {
		panic(fmt.Sprintf("the result of the tool `%s`: %v", tool.spec.Name, err))
	}
	text := output.String()
	tool.spec.OutputSchema = &text
	return tool
}

// Spec returns what the model is told of the tool.
func (tool *Tool) Spec() shelly.ToolSpec { return tool.spec }

// Run calls the tool with arguments as a model writes them.
func (tool *Tool) Run(call Call, arguments string) ([]shelly.Content, error) {
	return tool.run(call, arguments)
}

var registered []*Tool

// Register offers tools to the model. Call it in an init function.
func Register(tools ...*Tool) {
	for _, tool := range tools {
		if find(tool.spec.Name) != nil {
			panic(fmt.Sprintf("two tools are called `%s`; rename one of them", tool.spec.Name))
		}
		registered = append(registered, tool)
	}
}

func find(name string) *Tool {
	for _, tool := range registered {
		if tool.spec.Name == name {
			return tool
		}
	}
	return nil
}

func specs() ([]shelly.ToolSpec, error) {
	list := make([]shelly.ToolSpec, 0, len(registered))
	for _, tool := range registered {
		list = append(list, tool.spec)
	}
	return list, nil
}

func dispatch(call shelly.ToolCall) ([]shelly.Content, error) {
	if tool := find(call.Name); tool != nil {
		return tool.Run(Call{ID: call.ID, Name: call.Name}, call.Arguments)
	}
	names := make([]string, 0, len(registered))
	for _, tool := range registered {
		names = append(names, tool.spec.Name)
	}
	return nil, shelly.NotFound("unknown tool `%s`; available tools: %s", call.Name, strings.Join(names, ", "))
}

func invalid(name string, causes []string) error {
	if more := len(causes) - mostShownCauses; more > 0 {
		causes = append(causes[:mostShownCauses:mostShownCauses], fmt.Sprintf("and %d more", more))
	}
	return shelly.Invalid("invalid arguments of `%s`: %s", name, strings.Join(causes, "; "))
}

func contentOf(result any) ([]shelly.Content, error) {
	switch result := result.(type) {
	case nil:
		return nil, nil
	case string:
		return []shelly.Content{shelly.Text(result)}, nil
	case []shelly.Content:
		return result, nil
	case shelly.Content:
		return []shelly.Content{result}, nil
	}
	text, err := shelly.JSONOf(result)
	if err != nil {
		return nil, err
	}
	return []shelly.Content{text}, nil
}
