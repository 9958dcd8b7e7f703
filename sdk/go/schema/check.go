package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const mostShown = 60

// Check returns what is wrong with a JSON text, each with its place; nothing if it fits. A null is taken for an optional
// field that is missing. `noun` is the name of the outermost properties, such as `argument`.
func (schema *Schema) Check(text []byte, noun string) []string {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return []string{fmt.Sprintf("it is not valid JSON: %v", err)}
	}
	if _, err := decoder.Token(); err != io.EOF {
		return []string{"it is more than one JSON value"}
	}
	check := checker{noun: noun}
	check.value(schema, value, "")
	return check.causes
}

type checker struct {
	noun   string
	causes []string
}

func (check *checker) wrong(path, format string, args ...any) {
	cause := fmt.Sprintf(format, args...)
	if path != "" {
		cause = "`" + path + "`: " + cause
	}
	check.causes = append(check.causes, cause)
}

func (check *checker) value(schema *Schema, value any, path string) {
	unexpected := func() { check.wrong(path, "got %s, expected %s", shown(value), schema.expected()) }
	size, unit := 0.0, ""
	switch schema.kind {
	case "":
		return
	case "string":
		text, isText := value.(string)
		if !isText {
			unexpected()
			return
		}
		if schema.choices != nil && !slices.Contains(schema.choices, text) {
			check.wrong(path, "got %s, expected %s%s", shown(value), schema.expected(), meant(text, schema.choices, `"`))
			return
		}
		size, unit = float64(utf8.RuneCountInString(text)), " characters"
	case "boolean":
		if _, isBoolean := value.(bool); !isBoolean {
			unexpected()
		}
		return
	case "integer", "number":
		number, isNumber := value.(json.Number)
		if !isNumber || schema.kind == "integer" && !isInteger(string(number)) {
			unexpected()
			return
		}
		// Beyond what a float64 can hold it is infinite.
		size, _ = number.Float64()
		if schema.kind == "number" && math.IsInf(size, 0) {
			check.wrong(path, "got %s, which is too large for a number", shown(value))
			return
		}
	case "array":
		list, isList := value.([]any)
		if !isList {
			unexpected()
			return
		}
		for at, element := range list {
			check.value(schema.elements, element, fmt.Sprintf("%s[%d]", path, at))
		}
		size, unit = float64(len(list)), " items"
	default:
		object, isObject := value.(map[string]any)
		if !isObject {
			unexpected()
			return
		}
		check.object(schema, object, path)
		return
	}
	switch {
	case schema.min != nil && size < *schema.min:
		check.wrong(path, "got %s%s, the minimum is %s", decimal(size), unit, decimal(*schema.min))
	case schema.max != nil && size > *schema.max:
		check.wrong(path, "got %s%s, the maximum is %s", decimal(size), unit, decimal(*schema.max))
	case schema.kind == "integer" && !schema.holds(value):
		check.wrong(path, "got %s, which an integer of %d bits cannot hold", shown(value), schema.bits)
	}
}

func (check *checker) object(schema *Schema, object map[string]any, path string) {
	below := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	// In an order that is the same each time.
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	if !schema.isStruct {
		for _, name := range names {
			check.value(schema.elements, object[name], below(name))
		}
		return
	}
	noun, nouns := check.noun, check.noun+"s"
	if path != "" {
		noun, nouns = "property", "properties"
	}
	known := make([]string, 0, len(schema.fields))
	for _, field := range schema.fields {
		known = append(known, field.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			listed := "none"
			if len(known) > 0 {
				listed = "`" + strings.Join(known, "`, `") + "`"
			}
			check.wrong(below(name), "unknown %s; the %s are %s%s", noun, nouns, listed, meant(name, known, "`"))
		}
	}
	for _, field := range schema.fields {
		value, has := object[field.name]
		switch {
		case has && (value != nil || field.isRequired):
			check.value(field.schema, value, below(field.name))
		case !has && field.isRequired:
			check.wrong(below(field.name), "it is missing; expected %s", field.schema.expected())
		}
	}
}

// holds returns true if the Go type of an integer has room for it.
func (schema *Schema) holds(value any) bool {
	number, _ := value.(json.Number)
	var err error
	if schema.isSigned {
		_, err = strconv.ParseInt(string(number), 10, schema.bits)
	} else {
		_, err = strconv.ParseUint(string(number), 10, schema.bits)
	}
	return err == nil
}

func decimal(number float64) string { return strconv.FormatFloat(number, 'f', -1, 64) }

func isInteger(number string) bool { return !strings.ContainsAny(number, ".eE") }

func (schema *Schema) expected() string {
	switch {
	case schema.choices != nil:
		return `one of "` + strings.Join(schema.choices, `", "`) + `"`
	case schema.kind == "integer":
		return "an integer"
	case schema.kind == "boolean":
		return "true or false"
	case schema.kind == "array":
		return "an array"
	case schema.kind == "object":
		return "an object"
	case schema.kind == "":
		return "any value"
	default:
		return "a " + schema.kind
	}
}

// shown returns a value for a message.
func shown(value any) string {
	switch value := value.(type) {
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	case string:
		return "the string " + cut(strconv.Quote(value))
	case nil:
		return "null"
	default:
		return cut(fmt.Sprint(value))
	}
}

func cut(text string) string {
	letters := []rune(text)
	if len(letters) <= mostShown {
		return text
	}
	return string(letters[:mostShown]) + "…"
}

// meant returns a question for the name that is most like another, if one is.
func meant(name string, names []string, quote string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, known := range names {
		if away := distance(strings.ToLower(name), strings.ToLower(known)); away < least {
			best, least = known, away
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s%s?", quote, best, quote)
}

// distance returns the number of letters in which two names differ. A long name of a model is only looked at in part.
func distance(a, b string) int {
	a, b = a[:min(len(a), 2*mostShown)], b[:min(len(b), 2*mostShown)]
	row := make([]int, len(b)+1)
	for at := range row {
		row[at] = at
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := diagonal
			if a[i-1] != b[j-1] {
				change++
			}
			diagonal = row[j]
			row[j] = min(change, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
