package main

import (
	"strings"
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/shellytest"
)

func TestWordsLinesAndCharactersAreCounted(t *testing.T) {
	host := shellytest.New(t)
	for text, want := range map[string]shelly.JSON{
		"to be\nor not": `{"words":4,"lines":2,"characters":12}`,
		"süß\n":         `{"words":1,"lines":1,"characters":4}`,
	} {
		content, err := host.Call(countText, countArgs{Text: text})
		if err != nil || len(content) != 1 || content[0] != want {
			t.Errorf("%q: %v %v", text, content, err)
		}
	}
}

func TestCallOfAModelIsChecked(t *testing.T) {
	host := shellytest.New(t)
	for arguments, says := range map[string]string{
		`{"text": ""}`: "`text` is empty",
		`{"text": 7}`:  "`text`: got 7, expected a string",
		`{"txt": "a"}`: "did you mean `text`",
	} {
		if _, err := host.Call(countText, arguments); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}
