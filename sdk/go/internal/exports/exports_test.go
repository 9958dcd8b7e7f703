package exports

import (
	"errors"
	"strings"
	"testing"

	shelly "shelly-plugin"
)

func TestFailuresAndPanicsBecomeErrors(t *testing.T) {
	if result := Guard(func() (int, error) { return 7, nil }); result.Err != nil || result.Value != 7 {
		t.Errorf("%+v", result)
	}
	denied := Guard(func() (int, error) { return 0, shelly.Denied("no") })
	if denied.Err == nil || denied.Err.Kind != shelly.KindDenied {
		t.Errorf("%+v", denied.Err)
	}
	plain := Guard(func() (int, error) { return 0, errors.New("broken") })
	if plain.Err == nil || plain.Err.Kind != shelly.KindOther || !strings.Contains(plain.Err.Message, "broken") {
		t.Errorf("%+v", plain.Err)
	}
	panicked := Guard(func() (int, error) { panic("lost") })
	if panicked.Err == nil || panicked.Err.Message != "the plugin failed: lost" {
		t.Errorf("%+v", panicked.Err)
	}
}
