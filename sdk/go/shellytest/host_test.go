package shellytest_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	shelly "shelly-plugin"
	"shelly-plugin/coordinator"
	"shelly-plugin/effect"
	"shelly-plugin/files"
	"shelly-plugin/host"
	"shelly-plugin/http"
	"shelly-plugin/kv"
	"shelly-plugin/provider"
	"shelly-plugin/shellytest"
)

// kindOf returns the kind of an error that must be there.
func kindOf(t *testing.T, err error) shelly.ErrorKind {
	t.Helper()
	var failure *shelly.Error
	if !errors.As(err, &failure) {
		t.Fatalf("%v is no error of the contract", err)
	}
	return failure.Kind
}

func TestCallWithoutAHostNamesTheFunction(t *testing.T) {
	for name, call := range map[string]func(){
		"kv.Get":              func() { _, _ = kv.Get("a") },
		"kv.Set":              func() { _ = kv.Set("a", nil) },
		"kv.CompareAndSwap":   func() { _, _ = kv.CompareAndSwap("a", nil, nil) },
		"kv.Keys":             func() { _, _ = kv.Keys("", "") },
		"http.Send":           func() { _, _ = http.Get("https://example.com") },
		"http.Begin":          func() { _, _ = http.Begin(http.Request{Method: "POST", URL: "https://example.com"}) },
		"http.Credentials":    func() { http.Credentials() },
		"host.Now":            func() { host.Now() },
		"host.Monotonic":      func() { host.Monotonic() },
		"host.Random":         func() { host.Random(1) },
		"host.ChatLength":     func() { host.ChatLength() },
		"host.ChatEntries":    func() { host.ChatEntries(0, 1) },
		"host.ReadChat":       func() { host.ReadChat(0, 1) },
		"host.FindMessage":    func() { host.FindMessage(1) },
		"host.ChatTools":      func() { host.ChatTools() },
		"host.Outgoing":       func() { host.Outgoing() },
		"host.ReadAttachment": func() { _, _ = host.ReadAttachment("a", 1) },
		"host.RunProgram":     func() { _, _ = host.RunProgram(host.Command{Program: "a"}) },
		"files.Read":          func() { _, _ = files.Read("/a") },
		"files.Write":         func() { _ = files.Write("/a", nil) },
		"files.List":          func() { _, _ = files.List("/") },
	} {
		func() {
			defer func() {
				if cause := fmt.Sprint(recover()); !strings.HasPrefix(cause, name+" calls the host") {
					t.Errorf("%s: %s", name, cause)
				}
			}()
			call()
		}()
	}
	// Without these a plugin can be tried at once.
	host.Info("a")
	host.Progress(1, 0, "")
	if params, err := host.Params(struct{ Turns int }{3}); err != nil || params.Turns != 3 {
		t.Errorf("%+v %v", params, err)
	}
}

func TestHostEndsWithItsTest(t *testing.T) {
	t.Run("one", func(t *testing.T) { shellytest.New(t) })
	t.Run("another", func(t *testing.T) { shellytest.New(t) })
}

func TestParamsAreReadAndChecked(t *testing.T) {
	fake := shellytest.New(t)
	fake.Params = map[string]any{"turns": 7}
	type params struct {
		Turns int    `json:"turns"`
		Name  string `json:"name"`
	}
	if got, err := host.Params(params{Turns: 3, Name: "a"}); err != nil || got != (params{7, "a"}) {
		t.Errorf("%+v %v", got, err)
	}
	fake.Params = map[string]any{"turn": 7}
	_, err := host.Params(params{})
	if kindOf(t, err) != shelly.KindInvalid || !strings.Contains(err.Error(), `unknown field "turn"`) {
		t.Error(err)
	}
}

func TestStoreKeepsValuesAndRevisions(t *testing.T) {
	fake := shellytest.New(t)
	if entry, err := kv.Get("a"); entry != nil || err != nil {
		t.Errorf("%+v %v", entry, err)
	}
	for want := 1; want <= 2; want++ {
		if count, err := kv.Update("a", 0, func(count int) int { return count + 1 }); count != want || err != nil {
			t.Errorf("%d %v", count, err)
		}
	}
	entry, _ := kv.Get("a")
	if string(entry.Value) != "2" || string(fake.Stored["a"]) != "2" {
		t.Errorf("%+v", entry)
	}
	old := entry.Revision - 1
	if isWritten, err := kv.CompareAndSwap("a", &old, []byte("9")); isWritten || err != nil {
		t.Errorf("%v %v", isWritten, err)
	}
	if isWritten, err := kv.CompareAndSwap("a", &entry.Revision, nil); !isWritten || err != nil {
		t.Errorf("%v %v", isWritten, err)
	}
	for _, key := range []string{"b/2", "b/1", "c"} {
		_ = kv.Put(key, key)
	}
	if keys, _ := kv.Keys("b/", ""); !reflect.DeepEqual(keys, []string{"b/1", "b/2"}) {
		t.Error(keys)
	}
	if keys, _ := kv.Keys("", "b/1"); !reflect.DeepEqual(keys, []string{"b/2", "c"}) {
		t.Error(keys)
	}
	if _, err := kv.Get(strings.Repeat("k", 513)); kindOf(t, err) != shelly.KindInvalid {
		t.Error(err)
	}
	if err := kv.Set("a", make([]byte, 1<<20+1)); kindOf(t, err) != shelly.KindTooLarge {
		t.Error(err)
	}
	_ = kv.Set("d", []byte("no JSON"))
	if _, err := kv.Read("d", 0); kindOf(t, err) != shelly.KindOther {
		t.Error(err)
	}
	if value, err := kv.Read("none", "default"); value != "default" || err != nil {
		t.Errorf("%v %v", value, err)
	}
}

func TestServersAnswerAsPrepared(t *testing.T) {
	fake := shellytest.New(t)
	url := "https://api.example.com/issues/7"
	fake.Respond("GET", url, shellytest.Response{JSON: map[string]string{"title": "A"}, Headers: map[string]string{"X-A": "1"}})
	response, err := http.Send(http.Request{
		Method: "GET", URL: url, Headers: []http.Header{{Name: "Accept", Value: "a"}}, Credential: "tracker", Timeout: time.Microsecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	var issue struct{ Title string }
	if err := response.JSON(&issue); err != nil || issue.Title != "A" || response.Header("x-a") != "1" {
		t.Errorf("%+v %v", issue, err)
	}
	sent := fake.Requests[0]
	if sent.Credential != "tracker" || sent.Headers["accept"] != "a" || *sent.TimeoutMs != 1 {
		t.Errorf("%+v", sent)
	}
	fake.RespondAlways("POST", url, shellytest.Response{Pieces: []string{"data: a\nda", "ta: b\r\n\nevent: x\ndata: ü\n\n"}})
	for range 2 {
		response, err := http.Post(url, map[string]int{"a": 1})
		if err != nil {
			t.Fatal(err)
		}
		var events []http.Event
		err = response.Events(func(event http.Event) error {
			events = append(events, event)
			return nil
		})
		if want := []http.Event{{Name: "message", Data: "a\nb"}, {Name: "x", Data: "ü"}}; err != nil || !reflect.DeepEqual(events, want) {
			t.Errorf("%+v %v", events, err)
		}
	}
	upload, err := http.Begin(http.Request{Method: "POST", URL: url, Body: []byte("a")})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = upload.Write([]byte("b"))
	if _, err := upload.Finish(); err != nil || string(fake.Requests[3].Body) != "ab" {
		t.Errorf("%+v %v", fake.Requests, err)
	}
	fake.Respond("GET", url, shellytest.Response{Body: "half", Broken: shelly.Unavailable(nil, "cut off")})
	response, _ = http.Get(url)
	if _, err := response.Bytes(); kindOf(t, err) != shelly.KindUnavailable {
		t.Error(err)
	}
	fake.RespondError("GET", url, shelly.Denied("not granted"))
	if _, err := http.Get(url); kindOf(t, err) != shelly.KindDenied {
		t.Error(err)
	}
}

func TestStatusOfAServerBecomesAnError(t *testing.T) {
	fake := shellytest.New(t)
	url := "https://api.example.com/a?key=secret"
	for _, each := range []struct {
		response shellytest.Response
		kind     shelly.ErrorKind
		says     string
	}{
		{shellytest.Response{Status: 404, Body: "none here"}, shelly.KindNotFound, "api.example.com answered 404: none here"},
		{shellytest.Response{Status: 403, Body: "<html>"}, shelly.KindDenied, "api.example.com answered 403"},
		{shellytest.Response{Status: 400, JSON: map[string]any{"error": map[string]string{"message": "bad\n\x1b[1m"}}},
			shelly.KindInvalid, "answered 400: bad  [1m"},
		{shellytest.Response{Status: 429, JSON: map[string]any{"error": map[string]string{"code": "insufficient_quota"}}},
			shelly.KindExhausted, "answered 429"},
		{shellytest.Response{Status: 503, Headers: map[string]string{"Retry-After": "2"}}, shelly.KindUnavailable, "answered 503"},
		{shellytest.Response{Status: 304}, shelly.KindOther, "answered 304"},
	} {
		fake.Respond("GET", url, each.response)
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = response.Ok()
		if kindOf(t, err) != each.kind || !strings.Contains(err.Error(), each.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", each.response, err)
		}
		var failure *shelly.Error
		if errors.As(err, &failure); each.kind == shelly.KindUnavailable && *failure.AfterMs != 2_000 {
			t.Errorf("%+v", failure)
		}
	}
}

func TestLineBeyondItsBoundIsRefused(t *testing.T) {
	fake := shellytest.New(t)
	fake.Respond("GET", "https://example.com", shellytest.Response{Body: strings.Repeat("a", http.MostLine+1<<17)})
	response, err := http.Get("https://example.com")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := response.Line(); kindOf(t, err) != shelly.KindTooLarge {
		t.Error(err)
	}
	fake.Respond("GET", "https://example.com", shellytest.Response{Body: strings.Repeat("a", http.MostWhole+1)})
	response, _ = http.Get("https://example.com")
	if _, err := response.Bytes(); kindOf(t, err) != shelly.KindTooLarge {
		t.Error(err)
	}
}

func TestFilesAreReadWrittenAndListed(t *testing.T) {
	fake := shellytest.New(t)
	fake.Files["/notes/a.md"] = []byte("old")
	content, err := files.Read("/notes/a.md")
	if string(content) != "old" || err != nil {
		t.Errorf("%s %v", content, err)
	}
	if _, err := files.Read("/notes/b.md"); kindOf(t, err) != shelly.KindNotFound {
		t.Error(err)
	}
	if err := files.Write("/notes/b.md", []byte("new")); err != nil || string(fake.Files["/notes/b.md"]) != "new" {
		t.Errorf("%v %v", fake.Files, err)
	}
	if err := files.Write("/notes", nil); kindOf(t, err) != shelly.KindInvalid {
		t.Error(err)
	}
	entries, err := files.List("/notes")
	if err != nil || len(entries) != 2 || entries[1].Name() != "b.md" {
		t.Errorf("%v %v", entries, err)
	}
	change := files.Rewrite("/notes/a.md", content, []byte("b"))
	if *change.Expected != "cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4" {
		t.Errorf("%+v", change)
	}
	if files.Create("/a", nil).Expected != nil {
		t.Error("a new file is based on nothing")
	}
}

func TestChatIsReadAsTheHostHasIt(t *testing.T) {
	fake := shellytest.New(t)
	fake.Tools = []string{"count"}
	fake.Chat = []shelly.Message{
		shelly.NewMessage(shelly.User, "Count."),
		{Role: shelly.Assistant, Parts: []shelly.Part{shelly.ToolCall{ID: "1", Name: "count", Arguments: "{}"}}},
		{Role: shelly.ToolRole, Parts: []shelly.Part{shelly.ToolResult{CallID: "1", IsError: true}}},
		{Role: shelly.User, Parts: []shelly.Part{shelly.Text("Hurry.")}, Meta: shelly.Meta{{Key: "shelly.note"}}},
	}
	entries := host.ChatEntries(0, 99)
	if len(entries) != 4 || *entries[2].Group != 2 || entries[3].Group != nil || entries[3].Traits != host.IsNote {
		t.Fatalf("%+v", entries)
	}
	if entries[2].Traits != host.HasResults|host.HasFailed || entries[1].Traits != host.HasCalls {
		t.Errorf("%+v", entries)
	}
	if read := host.ReadChat(1, 99); len(read) != 3 || read[0].Role != shelly.Assistant {
		t.Errorf("%+v", read)
	}
	if at, found := host.FindMessage(4); at != 3 || !found {
		t.Error(at, found)
	}
	if _, found := host.FindMessage(5); found || host.ChatLength() != 4 || host.ChatTools()[0] != "count" {
		t.Error("there are four messages")
	}
}

func TestTimeAndRandomNumbersAreTheSameInEachTest(t *testing.T) {
	fake := shellytest.New(t)
	began := host.Now()
	fake.Advance(1500 * time.Millisecond)
	if host.Now().Sub(began) != 1500*time.Millisecond || host.Monotonic() != 1500*time.Millisecond || began.Year() != 2025 {
		t.Error(began, host.Now())
	}
	if first, second := host.Random(4), host.Random(4); len(first) != 4 || reflect.DeepEqual(first, second) {
		t.Error(first, second)
	}
}

func TestEffectIsCalledAgainWithTheReply(t *testing.T) {
	fake := shellytest.New(t)
	asking := func(input effect.Input, state []byte) (effect.Step, error) {
		if input.Reply == nil {
			return effect.Step{State: []byte("asked"), Ask: shelly.AskText("Sum up.")}, nil
		}
		return effect.Step{Edits: []effect.Edit{effect.Note(string(state) + ": " + input.Reply.Completion.Text())}}, nil
	}
	fake.Reply("short")
	step, err := fake.Eval(asking, effect.Input{}, nil)
	if err != nil || !reflect.DeepEqual(step.Edits, []effect.Edit{effect.Note("asked: short")}) {
		t.Errorf("%+v %v", step, err)
	}
	if text := fake.Asked[0].Request.Messages[0].Text(); text != "Sum up." {
		t.Error(text)
	}
	always := func(effect.Input, []byte) (effect.Step, error) { return effect.Step{Ask: shelly.AskText("")}, nil }
	for range 9 {
		fake.ReplyError(shelly.Denied("no"))
	}
	if _, err := fake.Eval(always, effect.Input{}, nil); kindOf(t, err) != shelly.KindExhausted {
		t.Error(err)
	}
	fake.Reply("b")
	next := func(input coordinator.Input, _ []byte) (coordinator.Step, error) {
		if input.Reply == nil {
			return coordinator.Step{Action: coordinator.AskModel{Ask: *shelly.AskText("Who?")}}, nil
		}
		return coordinator.Step{Action: coordinator.Run{{Member: input.Reply.Completion.Text()}}}, nil
	}
	chosen, err := fake.Next(next, coordinator.Input{}, nil)
	if err != nil || !reflect.DeepEqual(chosen.Action, coordinator.Run{{Member: "b"}}) {
		t.Errorf("%+v %v", chosen, err)
	}
}

func TestReplyIsPassedOnWhileItArrives(t *testing.T) {
	fake := shellytest.New(t)
	reply := provider.NewStreamed("m")
	long := strings.Repeat("ü", 40<<10)
	for _, err := range []error{
		reply.Thinking("so"), reply.Text("a"), reply.Text(""), reply.Text("b"), reply.Call("1", "count", ""), reply.Text(long),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	reply.Usage(shelly.Usage{OutputTokens: 3})
	want := []shelly.Part{
		shelly.Thinking{Text: "so"}, shelly.Text("ab"), shelly.ToolCall{ID: "1", Name: "count", Arguments: "{}"}, shelly.Text(long),
	}
	completion := reply.Finish(shelly.ToolCalls)
	if !reflect.DeepEqual(completion.Parts, want) || completion.Usage.OutputTokens != 3 || completion.Model != "m" {
		t.Errorf("%.200v", completion)
	}
	if fake.Text() != "ab"+long || len(fake.Emitted) != 7 {
		t.Error(len(fake.Emitted), "pieces were passed on")
	}
	for _, delta := range fake.Emitted {
		if len(delta.Text) > 64<<10 || delta.Text != strings.ToValidUTF8(delta.Text, "") {
			t.Error("a piece is too large, or ends within a letter")
		}
	}
	if err := reply.Text(strings.Repeat("a", 16<<20)); kindOf(t, err) != shelly.KindTooLarge {
		t.Error(err)
	}
}

func TestAttachmentsAndProgramsAreThoseOfTheTest(t *testing.T) {
	fake := shellytest.New(t)
	fake.Attachments["7"] = make([]byte, 3<<20)
	if bytes, err := host.ReadAttachment("7", 3<<20); len(bytes) != 3<<20 || err != nil {
		t.Error(len(bytes), err)
	}
	if _, err := host.ReadAttachment("7", 3<<20-1); kindOf(t, err) != shelly.KindTooLarge {
		t.Error(err)
	}
	if _, err := host.ReadAttachment("8", 1); kindOf(t, err) != shelly.KindNotFound {
		t.Error(err)
	}
	fake.SetOutput("git", host.Output{Status: shelly.Some(int32(1)), Stdout: []byte("a")})
	output, err := host.RunProgram(host.Command{Program: "git", Args: []string{"log"}})
	if err != nil || *output.Status != 1 || fake.Commands[0].Args[0] != "log" {
		t.Errorf("%+v %v", output, err)
	}
	fake.SetOutputError("git", shelly.Denied("no"))
	if _, err := host.RunProgram(host.Command{Program: "git"}); kindOf(t, err) != shelly.KindDenied {
		t.Error(err)
	}
	fake.Outgoing = &shelly.Request{Messages: []shelly.Message{shelly.NewMessage(shelly.User, "a")}}
	if host.Outgoing().Messages[0].Text() != "a" {
		t.Error("the request is that of the test")
	}
	host.Warn("%d", 7)
	host.Progress(1, 2, "half")
	if fake.Log[0] != (shellytest.LogEntry{Level: "warn", Message: "7"}) || *fake.Progress[0].Total != 2 {
		t.Errorf("%+v %+v", fake.Log, fake.Progress)
	}
}
