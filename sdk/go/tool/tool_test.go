package tool

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	shelly "shelly-plugin"
)

type rollArgs struct {
	Rolls []int `json:"rolls" doc:"What was rolled." each_min:"1" each_max:"6"`
	Bonus int   `json:"bonus,omitempty"`
}

type rollSum struct {
	Sum int `json:"sum"`
}

func sumDice(_ Call, args rollArgs) (rollSum, error) {
	if len(args.Rolls) == 0 {
		return rollSum{}, shelly.Invalid("`rolls` is empty; roll at least one die")
	}
	sum := args.Bonus
	for _, roll := range args.Rolls {
		sum += roll
	}
	return rollSum{sum}, nil
}

func TestToolDescribesItself(t *testing.T) {
	spec := New("sum_dice", "Adds up dice.", sumDice).Hints(shelly.Pure).Title("Dice").Output().Spec()
	if spec.Name != "sum_dice" || spec.Description != "Adds up dice." || spec.Hints != 15 {
		t.Errorf("%+v", spec)
	}
	if !strings.Contains(spec.InputSchema, `"required":["rolls"]`) || !strings.Contains(*spec.OutputSchema, `"required":["sum"]`) {
		t.Errorf("%s %s", spec.InputSchema, *spec.OutputSchema)
	}
	if title, _ := spec.Meta.Get("title"); title != "Dice" {
		t.Errorf("%+v", spec.Meta)
	}
}

func TestArgumentsThatDoNotFitNeverReachTheFunction(t *testing.T) {
	tool := New("sum_dice", "Adds up dice.", sumDice)
	content, err := tool.Run(Call{}, `{"rolls": [6, 1]}`)
	if err != nil || !reflect.DeepEqual(content, []shelly.Content{shelly.JSON(`{"sum":7}`)}) {
		t.Errorf("%v %v", content, err)
	}
	for _, each := range [][2]string{
		{`{"rolls": []}`, "`rolls` is empty"},
		{
			`{"rolls": [1, 7], "bonus": "2"}`,
			"invalid arguments of `sum_dice`: `rolls[1]`: got 7, the maximum is 6; `bonus`: got the string \"2\", expected an integer",
		},
		{`{"rolls": [7, 7, 7, 7, 7, 7, 7]}`, "; and 2 more"},
		{`{`, "it is not valid JSON"},
	} {
		_, err := tool.Run(Call{}, each[0])
		var failure *shelly.Error
		if !errors.As(err, &failure) || failure.Kind != shelly.KindInvalid || !strings.Contains(failure.Message, each[1]) {
			t.Errorf("%s: %v", each[0], err)
		}
	}
}

func TestResultOfEachTypeBecomesContent(t *testing.T) {
	media := shelly.Media{MediaType: "image/png", Source: shelly.Inline{1}}
	for _, each := range []struct {
		result any
		want   []shelly.Content
	}{
		{"text", []shelly.Content{shelly.Text("text")}},
		{nil, nil},
		{media, []shelly.Content{media}},
		{[]shelly.Content{shelly.Text("a"), media}, []shelly.Content{shelly.Text("a"), media}},
		{[]int{1}, []shelly.Content{shelly.JSON("[1]")}},
		{shelly.NeedsFolder("/a"), []shelly.Content{shelly.Opaque{Kind: "shelly.needs", JSON: `{"folder":"/a"}`}}},
	} {
		got, err := New("a", "b", func(Call, struct{}) (any, error) { return each.result, nil }).Run(Call{}, "{}")
		if err != nil || !reflect.DeepEqual(got, each.want) {
			t.Errorf("%v: %v %v", each.result, got, err)
		}
	}
	_, err := New("a", "b", func(Call, struct{}) (any, error) { return make(chan int), nil }).Run(Call{}, "{}")
	if err == nil || !strings.Contains(err.Error(), "cannot be written as JSON") {
		t.Error(err)
	}
}

func panics(t *testing.T, says string, run func()) {
	t.Helper()
	defer func() {
		if cause, isText := recover().(string); !isText || !strings.Contains(cause, says) {
			t.Errorf("%v does not say %q", cause, says)
		}
	}()
	run()
}

func TestToolThatCannotBeUsedIsRefused(t *testing.T) {
	none := func(Call, struct{}) (any, error) { return nil, nil }
	panics(t, "is not 1 to 64 of", func() { New("a b", "c", none) })
	panics(t, "has no description", func() { New("a", "", none) })
	panics(t, "use a struct", func() { New("a", "b", func(Call, string) (any, error) { return nil, nil }) })
	panics(t, "has no form in JSON", func() {
		New("a", "b", func(Call, struct{ C chan int }) (any, error) { return nil, nil })
	})
}

func TestCallReachesTheRegisteredToolOfItsName(t *testing.T) {
	defer func() { registered = nil }()
	tool := New("sum_dice", "Adds up dice.", sumDice)
	Register(tool)
	panics(t, "two tools are called `sum_dice`", func() { Register(tool) })
	if content, err := dispatch(shelly.ToolCall{Name: "sum_dice", Arguments: `{"rolls": [1]}`}); err != nil || len(content) != 1 {
		t.Errorf("%v %v", content, err)
	}
	_, err := dispatch(shelly.ToolCall{Name: "sum"})
	if err == nil || err.Error() != "not-found: unknown tool `sum`; available tools: sum_dice" {
		t.Error(err)
	}
	if list, _ := specs(); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}
