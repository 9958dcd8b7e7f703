package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

type inner struct {
	Name string `json:"name" max:"3"`
}

type arguments struct {
	Rolls []int             `json:"rolls" doc:"What was rolled." max:"3" each_min:"1" each_max:"6"`
	Mode  string            `json:"mode,omitempty" enum:"fast,exact"`
	Bonus *int8             `json:"bonus"`
	Share float64           `json:"share,omitempty" min:"0" max:"1"`
	Deep  []inner           `json:"deep,omitempty"`
	Names map[string]string `json:"names,omitempty"`
	Rest  json.RawMessage   `json:"rest,omitempty"`
	left  int
}

func derived(t *testing.T, of any) *Schema {
	t.Helper()
	schema, err := Of(reflect.TypeOf(of))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestSchemaFollowsTheStruct(t *testing.T) {
	want := `{"type":"object","properties":{` +
		`"rolls":{"type":"array","description":"What was rolled.","maxItems":3,"items":{"type":"integer","minimum":1,"maximum":6}},` +
		`"mode":{"type":"string","enum":["fast","exact"]},"bonus":{"type":"integer"},` +
		`"share":{"type":"number","minimum":0,"maximum":1},` +
		`"deep":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string","maxLength":3}},` +
		`"additionalProperties":false,"required":["name"]}},` +
		`"names":{"type":"object","additionalProperties":{"type":"string"}},"rest":{}},` +
		`"additionalProperties":false,"required":["rolls"]}`
	_ = arguments{left: 0}
	if got := derived(t, arguments{}).String(); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	empty := derived(t, struct{}{}).String()
	if empty != `{"type":"object","properties":{},"additionalProperties":false}` || !json.Valid([]byte(empty)) {
		t.Error(empty)
	}
}

func TestValuesThatDoNotFitAreNamedWithTheirPlace(t *testing.T) {
	schema := derived(t, arguments{})
	for _, each := range [][2]string{
		{`{"rolls": [6, 1], "bonus": null, "rest": [1, {}], "names": {"a": "b"}}`, ""},
		{`{"rolls": [1, 7]}`, "`rolls[1]`: got 7, the maximum is 6"},
		{`{"rolls": [1, 1, 1, 1]}`, "`rolls`: got 4 items, the maximum is 3"},
		{`{"rolls": [], "bonus": "2"}`, "`bonus`: got the string \"2\", expected an integer"},
		{`{"rolls": [], "bonus": 200}`, "`bonus`: got 200, which an integer of 8 bits cannot hold"},
		{`{"rolls": [1.5]}`, "`rolls[0]`: got 1.5, expected an integer"},
		{`{"rolls": [], "share": 1e999}`, "`share`: got 1e999, which is too large for a number"},
		{
			`{"rolls": [], "mode": "fas"}`,
			"`mode`: got the string \"fas\", expected one of \"fast\", \"exact\"; did you mean \"fast\"?",
		},
		{`{"rolls": [], "deep": [{"name": "long"}]}`, "`deep[0].name`: got 4 characters, the maximum is 3"},
		{
			`{"rolls": [], "deep": [{"nam": "a", "name": "a"}]}`,
			"`deep[0].nam`: unknown property; the properties are `name`; did you mean `name`?",
		},
		{`{"rolls": [], "names": {"a": 1}}`, "`names.a`: got 1, expected a string"},
		{`{}`, "`rolls`: it is missing; expected an array"},
		{`[]`, "got an array, expected an object"},
		{`{"rolls": []} {}`, "it is more than one JSON value"},
	} {
		if got := strings.Join(schema.Check([]byte(each[0]), "argument"), "; "); got != each[1] {
			t.Errorf("%s\n%s\nnot\n%s", each[0], got, each[1])
		}
	}
	causes := schema.Check([]byte(`{"rols": [7], "rolls": [7], "mode": 1}`), "argument")
	if len(causes) != 3 || !strings.HasPrefix(causes[0], "`rols`: unknown argument; the arguments are `rolls`, `mode`") {
		t.Error(causes)
	}
}

func TestTypesWithoutAFormInJSONAreRefused(t *testing.T) {
	type recursive struct{ Next []*recursive }
	for _, each := range []struct {
		of   any
		says string
	}{
		{recursive{}, "contains itself"},
		{struct{ A []byte }{}, "the field A of type []uint8 is bytes"},
		{struct{ A chan int }{}, "has no form in JSON"},
		{struct{ A map[int]string }{}, "whose keys are no strings"},
		{struct{ inner }{}, "is embedded"},
		{struct {
			A int `enum:"1"`
		}{}, "the tag enum is for strings"},
		{struct {
			A int `min:"x"`
		}{}, "the tag min is no number: `x`"},
		{struct {
			A bool `max:"1"`
		}{}, "the tag max is for numbers"},
	} {
		_, err := Of(reflect.TypeOf(each.of))
		if err == nil || !strings.Contains(err.Error(), each.says) {
			t.Errorf("%T: %v does not say %q", each.of, err, each.says)
		}
	}
}
