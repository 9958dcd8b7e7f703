package main

import (
	"reflect"
	"testing"

	"shelly-plugin/coordinator"
	"shelly-plugin/shellytest"
)

func TestEachMemberWorksOnceARound(t *testing.T) {
	host := shellytest.New(t)
	host.Params = map[string]any{"rounds": 2}
	members := []coordinator.Member{{Name: "a"}, {Name: "b"}}
	for step, name := range []string{"a", "b", "a", "b"} {
		got, err := host.Next(next, coordinator.Input{Members: members, Step: uint32(step)}, nil)
		if err != nil || !reflect.DeepEqual(got.Action, coordinator.Run{{Member: name}}) {
			t.Errorf("step %d: %+v %v", step, got, err)
		}
	}
	last, err := host.Next(next, coordinator.Input{Members: members, Step: 4}, nil)
	if _, isDone := last.Action.(coordinator.Done); !isDone || err != nil {
		t.Errorf("%+v %v", last, err)
	}
}
