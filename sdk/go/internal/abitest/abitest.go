// Package abitest has what the tests of layouts share.
package abitest

import (
	"reflect"
	"testing"

	"shelly-plugin/internal/abi"
)

// CheckEqual writes a value to memory, reads it again, and fails the test if another comes back.
func CheckEqual[T any](t *testing.T, of abi.Type[T], value T) {
	t.Helper()
	if got := Through(of, value); !reflect.DeepEqual(got, value) {
		t.Errorf("%+v, not %+v", got, value)
	}
}

// Through writes a value to memory, and reads it again.
func Through[T any](of abi.Type[T], value T) T {
	var frame abi.Frame
	block := frame.Block(of.Size)
	of.Lower(&frame, block, value)
	return of.Lift(block)
}

// CheckLayouts fails the test if a layout is not the one that the canonical ABI gives the type.
func CheckLayouts(t *testing.T, pairs map[string][2]abi.Layout) {
	t.Helper()
	for name, pair := range pairs {
		if pair[0] != pair[1] {
			t.Errorf("%s: %+v, not %+v", name, pair[0], pair[1])
		}
	}
}
