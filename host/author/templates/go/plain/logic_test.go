package main

import "testing"

func TestWordsLinesAndCharactersAreCounted(t *testing.T) {
	for text, want := range map[string]counts{
		"to be\nor not": {4, 2, 12},
		"süß\n":         {1, 1, 4},
		"":              {0, 0, 0},
	} {
		if got := countText(text); got != want {
			t.Errorf("%q: %+v, not %+v", text, got, want)
		}
	}
}
