package main

import (
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/shellytest"
)

func TestNewestMessageOfTheUserIsRepeated(t *testing.T) {
	host := shellytest.New(t)
	host.Params = map[string]any{"prefix": "You said: "}
	messages := []shelly.Message{shelly.NewMessage(shelly.User, "Hello"), shelly.NewMessage(shelly.Assistant, "Hi")}
	reply, err := complete("echo-1", shelly.Request{Messages: messages})
	if err != nil || reply.Text() != "You said: Hello" || host.Text() != "You said: Hello" {
		t.Errorf("%+v %v", reply, err)
	}
	if _, err := complete("echo-1", shelly.Request{}); err == nil {
		t.Error("a request without a message of a user is refused")
	}
}
