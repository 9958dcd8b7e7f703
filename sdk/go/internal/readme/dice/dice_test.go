package dice

import (
	"os"
	"strings"
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/shellytest"
)

func TestToolRefusesWhatThePageSays(t *testing.T) {
	host := shellytest.New(t)
	if content, err := host.Call(sumDice, diceArgs{Rolls: []int{6, 1}}); err != nil || content[0] != shelly.JSON(`{"sum":7}`) {
		t.Errorf("%v %v", content, err)
	}
	_, err := host.Call(sumDice, `{"rolls": [1, 7], "bonus": "2"}`)
	readme, _ := os.ReadFile("../../../README.md")
	if err == nil || !strings.Contains(string(readme), strings.TrimPrefix(err.Error(), "invalid: ")) {
		t.Error(err)
	}
}
