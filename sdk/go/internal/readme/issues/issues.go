package issues

import (
	"fmt"
	"time"

	"shelly-plugin/host"
	"shelly-plugin/http"
	"shelly-plugin/kv"
	"shelly-plugin/tool"
)

type issueArgs struct {
	Number int `json:"number"`
}

func readTitle(_ tool.Call, args issueArgs) (string, error) {
	// The key stays with the host: the plugin only knows its name.
	url := fmt.Sprintf("https://api.example.com/issues/%d", args.Number)
	response, err := http.Send(http.Request{Method: "GET", URL: url, Credential: "tracker", Timeout: 10 * time.Second})
	if err != nil {
		return "", err
	}
	if response, err = response.Ok(); err != nil {
		return "", err
	}
	var issue struct{ Title string }
	if err := response.JSON(&issue); err != nil {
		return "", err
	}
	reads, err := kv.Update(fmt.Sprintf("reads/%d", args.Number), 0, func(count int) int { return count + 1 })
	host.Info("issue %d was read %d times", args.Number, reads)
	return issue.Title, err
}

var issueTitle = tool.New("issue_title", "Returns the title of an issue.", readTitle)

func init() { tool.Register(issueTitle) }
