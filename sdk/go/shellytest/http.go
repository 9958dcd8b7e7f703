package shellytest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	shelly "shelly-plugin"
	"shelly-plugin/internal/calls"
)

const mostRead = 64 << 10

// SentRequest is a request that the plugin has sent.
type SentRequest struct {
	Method, URL string
	Headers     map[string]string
	Body        []byte
	// Empty if the request names none.
	Credential string
	TimeoutMs  *uint32
}

// Response is a response that a test prepares.
type Response struct {
	// 200 if it is 0.
	Status  int
	Headers map[string]string
	// A value for the body, as JSON, in place of Body and Pieces.
	JSON any
	Body string
	// The body in the pieces in which it arrives, after Body.
	Pieces []string
	// The error that breaks the connection at the end of the body.
	Broken *shelly.Error
}

type preparedResponse struct {
	response Response
	err      error
	isForAll bool
}

// Respond prepares the response to the next request with this method and URL, query included.
func (host *Host) Respond(method, url string, response Response) {
	host.prepare(method, url, preparedResponse{response: response})
}

// RespondAlways prepares the response to each further request with this method and URL.
func (host *Host) RespondAlways(method, url string, response Response) {
	host.prepare(method, url, preparedResponse{response: response, isForAll: true})
}

// RespondError prepares an error in place of the next response.
func (host *Host) RespondError(method, url string, failure *shelly.Error) {
	host.prepare(method, url, preparedResponse{err: failure})
}

func (host *Host) prepare(method, url string, prepared preparedResponse) {
	key := method + " " + url
	host.responses[key] = append(host.responses[key], prepared)
}

func (host *Host) send(request calls.HTTPRequest, body []byte) (calls.HTTPResponse, error) {
	host.t.Helper()
	sent := SentRequest{Method: request.Method, URL: request.URL, Headers: map[string]string{}, TimeoutMs: request.TimeoutMs}
	sent.Body = slices.Clone(body)
	for _, header := range request.Headers {
		sent.Headers[header.Name] = header.Value
	}
	if request.Credential != nil {
		sent.Credential = *request.Credential
	}
	host.Requests = append(host.Requests, sent)
	key := request.Method + " " + request.URL
	prepared := host.responses[key]
	if len(prepared) == 0 {
		host.t.Fatalf("no response is prepared for %s; prepare it with `host.Respond`. Prepared: %s", key, host.preparedRequests())
	}
	first := prepared[0]
	if !first.isForAll {
		host.responses[key] = prepared[1:]
	}
	if first.err != nil {
		return calls.HTTPResponse{}, first.err
	}
	return lowered(host.t, first.response), nil
}

func (host *Host) preparedRequests() string {
	known := []string{}
	for key, left := range host.responses {
		if len(left) > 0 {
			known = append(known, key)
		}
	}
	if len(known) == 0 {
		return "none"
	}
	slices.Sort(known)
	return strings.Join(known, ", ")
}

func lowered(t testing.TB, response Response) calls.HTTPResponse {
	t.Helper()
	pieces := append([]string{response.Body}, response.Pieces...)
	if response.JSON != nil {
		text, err := json.Marshal(response.JSON)
		if err != nil {
			t.Fatalf("the body cannot be written as JSON: %v", err)
		}
		pieces = []string{string(text)}
	}
	prepared := calls.HTTPResponse{Status: uint16(response.Status)}
	if response.Status == 0 {
		prepared.Status = 200
	}
	for name, value := range response.Headers {
		prepared.Headers = append(prepared.Headers, calls.Header{Name: strings.ToLower(name), Value: value})
	}
	slices.SortFunc(prepared.Headers, func(a, b calls.Header) int { return strings.Compare(a.Name, b.Name) })
	prepared.Body = &preparedBody{pieces: pieces, broken: response.Broken}
	return prepared
}

type preparedBody struct {
	pieces   []string
	broken   *shelly.Error
	isClosed bool
}

func (body *preparedBody) Read(most uint32) ([]byte, error) {
	// No piece is empty: that is the end of a body.
	for len(body.pieces) > 0 && body.pieces[0] == "" {
		body.pieces = body.pieces[1:]
	}
	switch {
	case body.isClosed:
		return nil, nil
	case len(body.pieces) > 0:
		end := min(len(body.pieces[0]), int(most), mostRead)
		piece := body.pieces[0][:end]
		body.pieces[0] = body.pieces[0][end:]
		return []byte(piece), nil
	case body.broken != nil:
		return nil, body.broken
	default:
		return nil, nil
	}
}

func (body *preparedBody) Close() { body.isClosed = true }

// preparedUpload is a request whose body arrives in pieces.
type preparedUpload struct {
	host    *Host
	request calls.HTTPRequest
	body    []byte
}

func (upload *preparedUpload) Write(piece []byte) error {
	upload.body = append(upload.body, piece...)
	return nil
}

func (upload *preparedUpload) Finish() (calls.HTTPResponse, error) {
	upload.host.t.Helper()
	return upload.host.send(upload.request, upload.body)
}

func (upload *preparedUpload) Close() {}
