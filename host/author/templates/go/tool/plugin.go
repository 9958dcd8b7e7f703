// @{about}
package main

import (
	"strings"
	"unicode/utf8"

	shelly "shelly-plugin"
	"shelly-plugin/tool"
)

// The arguments of the tool: the model reads the descriptions.
type countArgs struct {
	Text string `json:"text" doc:"The text to count in."`
}

type counts struct {
	Words      int `json:"words"`
	Lines      int `json:"lines"`
	Characters int `json:"characters"`
}

func count(_ tool.Call, args countArgs) (counts, error) {
	if args.Text == "" {
		// The model reads the error and tries again: say what would be right.
		return counts{}, shelly.Invalid("`text` is empty; pass the text to count in")
	}
	return counts{
		Words:      len(strings.Fields(args.Text)),
		Lines:      strings.Count(strings.TrimSuffix(args.Text, "\n"), "\n") + 1,
		Characters: utf8.RuneCountInString(args.Text),
	}, nil
}

// It only computes from its arguments.
var countText = tool.New("@{tool}", "Counts the words, lines and characters of a text.", count).Hints(shelly.Pure)

func init() { tool.Register(countText) }

// The host calls the tool; nothing calls this function.
func main() {}
