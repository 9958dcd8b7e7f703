// Package schema derives JSON Schemas from Go types, and checks values against them. Tools use it for their arguments.
//
// A field is required unless it is a pointer, or its tag `json` says omitempty. Further tags describe it:
//
//	doc:"What was rolled."      its description, which the model reads
//	enum:"fast,exact"           the values that are allowed
//	min:"1" max:"6"             the bounds of a number, or of the length of a text or list
//	each_enum, each_min, each_max   the same for the elements of a list
package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Schema is a JSON Schema that was derived from a type.
type Schema struct {
	// A type of JSON; empty for any value.
	kind        string
	description string
	choices     []string
	min, max    *float64
	// The bits of an integer, and whether it has a sign.
	bits     int
	isSigned bool
	// The elements of a list, or the values of a map.
	elements *Schema
	// The properties of a struct; a map has none.
	isStruct bool
	fields   []field
}

type field struct {
	name       string
	schema     *Schema
	isRequired bool
}

const mostDepth = 32

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonType = reflect.TypeFor[json.Unmarshaler]()
)

// Of derives the schema of a type.
func Of(of reflect.Type) (*Schema, error) { return derive(of, "", 0) }

func derive(of reflect.Type, path string, depth int) (*Schema, error) {
	wrong := func(why string) error {
		if path == "" {
			return fmt.Errorf("the type %s %s", of, why)
		}
		return fmt.Errorf("the field %s of type %s %s", path, of, why)
	}
	if depth > mostDepth {
		return nil, wrong("contains itself, or is nested too deeply; use json.RawMessage for a part of it")
	}
	switch {
	case of == rawType:
		return &Schema{}, nil
	case of.Kind() != reflect.Pointer && reflect.PointerTo(of).Implements(jsonType):
		return nil, wrong("has an UnmarshalJSON of its own; use a plain type, or json.RawMessage")
	case of.Kind() != reflect.Pointer && reflect.PointerTo(of).Implements(textType):
		return &Schema{kind: "string"}, nil
	}
	switch of.Kind() {
	case reflect.Pointer:
		return derive(of.Elem(), path, depth+1)
	case reflect.String:
		return &Schema{kind: "string"}, nil
	case reflect.Bool:
		return &Schema{kind: "boolean"}, nil
	case reflect.Float32, reflect.Float64:
		return &Schema{kind: "number"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &Schema{kind: "integer", bits: of.Bits(), isSigned: true}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		zero := 0.0
		return &Schema{kind: "integer", bits: of.Bits(), min: &zero}, nil
	case reflect.Interface:
		if of.NumMethod() == 0 {
			return &Schema{}, nil
		}
		return nil, wrong("is an interface with methods; use a plain type")
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return nil, wrong("is bytes, which JSON does not have; use string")
		}
		elements, err := derive(of.Elem(), path+"[]", depth+1)
		return &Schema{kind: "array", elements: elements}, err
	case reflect.Map:
		if of.Key().Kind() != reflect.String {
			return nil, wrong("is a map whose keys are no strings")
		}
		elements, err := derive(of.Elem(), path+"[]", depth+1)
		return &Schema{kind: "object", elements: elements}, err
	case reflect.Struct:
		return deriveStruct(of, path, depth)
	default:
		return nil, wrong("has no form in JSON")
	}
}

func deriveStruct(of reflect.Type, path string, depth int) (*Schema, error) {
	object := &Schema{kind: "object", isStruct: true}
	for at := range of.NumField() {
		in := of.Field(at)
		name, options, _ := strings.Cut(in.Tag.Get("json"), ",")
		below := strings.TrimPrefix(path+"."+in.Name, ".")
		switch {
		case in.Anonymous:
			return nil, fmt.Errorf("the field %s is embedded; write its fields out, or give it a name", below)
		case !in.IsExported() || name == "-":
			continue
		case name == "":
			name = in.Name
		}
		schema, err := derive(in.Type, below, depth+1)
		if err != nil {
			return nil, err
		}
		schema.description = in.Tag.Get("doc")
		if err := schema.bound(in.Tag, ""); err != nil {
			return nil, fmt.Errorf("the field %s: %w", below, err)
		}
		if schema.kind == "array" {
			if err := schema.elements.bound(in.Tag, "each_"); err != nil {
				return nil, fmt.Errorf("the field %s: %w", below, err)
			}
		}
		isOptional := in.Type.Kind() == reflect.Pointer || strings.Contains(","+options+",", ",omitempty,")
		object.fields = append(object.fields, field{name, schema, !isOptional})
	}
	return object, nil
}

// bound reads the tags that say which values are allowed.
func (schema *Schema) bound(tag reflect.StructTag, prefix string) error {
	if listed := tag.Get(prefix + "enum"); listed != "" {
		if schema.kind != "string" {
			return fmt.Errorf("the tag %senum is for strings", prefix)
		}
		schema.choices = strings.Split(listed, ",")
	}
	for name, bound := range map[string]**float64{"min": &schema.min, "max": &schema.max} {
		written := tag.Get(prefix + name)
		if written == "" {
			continue
		}
		number, err := strconv.ParseFloat(written, 64)
		if err != nil {
			return fmt.Errorf("the tag %s%s is no number: `%s`", prefix, name, written)
		}
		switch schema.kind {
		case "integer", "number", "string", "array":
			*bound = &number
		default:
			return fmt.Errorf("the tag %s%s is for numbers, strings and lists", prefix, name)
		}
	}
	return nil
}

// String returns the schema as JSON. Its properties are in the order of the fields.
func (schema *Schema) String() string {
	var text strings.Builder
	schema.write(&text)
	return text.String()
}

func (schema *Schema) write(text *strings.Builder) {
	separator := "{"
	put := func(name string, value any) {
		// Strings, numbers and lists of strings are always JSON.
		written, _ := json.Marshal(value)
		text.WriteString(separator + strconv.Quote(name) + ":" + string(written))
		separator = ","
	}
	if schema.kind != "" {
		put("type", schema.kind)
	}
	if schema.description != "" {
		put("description", schema.description)
	}
	if schema.choices != nil {
		put("enum", schema.choices)
	}
	low, high := "minimum", "maximum"
	switch schema.kind {
	case "string":
		low, high = "minLength", "maxLength"
	case "array":
		low, high = "minItems", "maxItems"
	}
	if schema.min != nil {
		put(low, *schema.min)
	}
	if schema.max != nil {
		put(high, *schema.max)
	}
	below := func(name string, schema *Schema) {
		text.WriteString(separator + name + ":")
		schema.write(text)
		separator = ","
	}
	switch {
	case schema.kind == "array":
		below(`"items"`, schema.elements)
	case schema.isStruct:
		schema.writeFields(text, separator)
		separator = ","
	case schema.kind == "object":
		below(`"additionalProperties"`, schema.elements)
	}
	if separator == "{" {
		text.WriteString("{")
	}
	text.WriteString("}")
}

func (schema *Schema) writeFields(text *strings.Builder, separator string) {
	text.WriteString(separator + `"properties":`)
	opening := "{"
	required := []string{}
	for _, field := range schema.fields {
		name, _ := json.Marshal(field.name)
		text.WriteString(opening + string(name) + ":")
		field.schema.write(text)
		opening = ","
		if field.isRequired {
			required = append(required, field.name)
		}
	}
	if len(schema.fields) == 0 {
		text.WriteString("{")
	}
	text.WriteString(`},"additionalProperties":false`)
	if len(required) > 0 {
		listed, _ := json.Marshal(required)
		text.WriteString(`,"required":` + string(listed))
	}
}
