package provider

import (
	"testing"

	"shelly-plugin/internal/abi"
)

func TestLayoutIsThatOfTheContract(t *testing.T) {
	if want := (abi.Layout{Size: 72, Align: 4}); inputType.Layout != want {
		t.Errorf("%+v, not %+v", inputType.Layout, want)
	}
}
