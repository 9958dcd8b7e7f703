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

// HTTP is servers, whose responses a test prepares. Requests has what was sent.
type HTTP struct {
	Requests []SentRequest
	// The credentials that are granted.
	Credentials []string
	prepared    map[string][]preparedResponse
	t           testing.TB
}

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

// Reply prepares the response to the next request with this method and URL, query included.
func (servers *HTTP) Reply(method, url string, response Response) {
	servers.prepare(method, url, preparedResponse{response: response})
}

// ReplyAlways prepares the response to each further request with this method and URL.
func (servers *HTTP) ReplyAlways(method, url string, response Response) {
	servers.prepare(method, url, preparedResponse{response: response, isForAll: true})
}

// Fail prepares an error in place of the next response.
func (servers *HTTP) Fail(method, url string, failure *shelly.Error) {
	servers.prepare(method, url, preparedResponse{err: failure})
}

func (servers *HTTP) prepare(method, url string, prepared preparedResponse) {
	key := method + " " + url
	servers.prepared[key] = append(servers.prepared[key], prepared)
}

func (servers *HTTP) send(request calls.HTTPRequest, body []byte) (calls.HTTPResponse, error) {
	servers.t.Helper()
	sent := SentRequest{Method: request.Method, URL: request.URL, Headers: map[string]string{}, TimeoutMs: request.TimeoutMs}
	sent.Body = slices.Clone(body)
	for _, header := range request.Headers {
		sent.Headers[header.Name] = header.Value
	}
	if request.Credential != nil {
		sent.Credential = *request.Credential
	}
	servers.Requests = append(servers.Requests, sent)
	key := request.Method + " " + request.URL
	prepared := servers.prepared[key]
	if len(prepared) == 0 {
		servers.t.Fatalf("no response is prepared for %s; prepare it with `host.HTTP.Reply`. Prepared: %s", key, servers.known())
	}
	first := prepared[0]
	if !first.isForAll {
		servers.prepared[key] = prepared[1:]
	}
	if first.err != nil {
		return calls.HTTPResponse{}, first.err
	}
	return servers.lowered(first.response), nil
}

func (servers *HTTP) known() string {
	known := []string{}
	for key, left := range servers.prepared {
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

func (servers *HTTP) lowered(response Response) calls.HTTPResponse {
	servers.t.Helper()
	pieces := append([]string{response.Body}, response.Pieces...)
	if response.JSON != nil {
		text, err := json.Marshal(response.JSON)
		if err != nil {
			servers.t.Fatalf("the body cannot be written as JSON: %v", err)
		}
		pieces = []string{string(text)}
	}
	lowered := calls.HTTPResponse{Status: uint16(response.Status)}
	if response.Status == 0 {
		lowered.Status = 200
	}
	for name, value := range response.Headers {
		lowered.Headers = append(lowered.Headers, calls.Header{Name: strings.ToLower(name), Value: value})
	}
	slices.SortFunc(lowered.Headers, func(a, b calls.Header) int { return strings.Compare(a.Name, b.Name) })
	lowered.Body = &preparedBody{pieces: pieces, broken: response.Broken}
	return lowered
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
	servers *HTTP
	request calls.HTTPRequest
	body    []byte
}

func (upload *preparedUpload) Write(piece []byte) error {
	upload.body = append(upload.body, piece...)
	return nil
}

func (upload *preparedUpload) Finish() (calls.HTTPResponse, error) {
	upload.servers.t.Helper()
	return upload.servers.send(upload.request, upload.body)
}

func (upload *preparedUpload) Close() {}
