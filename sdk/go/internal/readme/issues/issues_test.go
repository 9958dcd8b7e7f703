package issues

import (
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/shellytest"
)

func TestTitleIsRead(t *testing.T) {
	host := shellytest.New(t)
	host.Respond("GET", "https://api.example.com/issues/7", shellytest.Response{JSON: map[string]string{"title": "A"}})
	content, err := host.Call(issueTitle, issueArgs{Number: 7})
	if err != nil || content[0] != shelly.Text("A") {
		t.Errorf("%v %v", content, err)
	}
	if host.Requests[0].Credential != "tracker" || host.Log[0].Message != "issue 7 was read 1 times" {
		t.Errorf("%+v %+v", host.Requests, host.Log)
	}
}
