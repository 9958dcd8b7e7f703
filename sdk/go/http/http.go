// Package http sends requests within the grant of the agent's config. wit/plugin.wit imports `http`, and plugin.toml asks for
// `http = true` under [wants]. Only tools and providers can send requests.
package http

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	shelly "shelly-plugin"
	"shelly-plugin/internal/calls"
)

// The bounds of what is held in memory.
const (
	// MostWhole is the maximum bytes of a body that is read as a whole.
	MostWhole = 16 << 20
	// MostLine is the maximum bytes of a line of a body.
	MostLine = 8 << 20

	readPiece  = 64 << 10
	writePiece = 256 << 10
)

// Header is a header: name and value.
type Header = calls.Header

// Request is a request before it is sent.
type Request struct {
	Method, URL string
	Headers     []Header
	Body        []byte
	// A value that is sent as JSON, in place of Body.
	JSON any
	// The name of a credential in the plugin's grant: the host adds it, and the plugin never sees it.
	Credential string
	// The time limit of the whole exchange; 0: the time that is left for the call.
	Timeout time.Duration
}

// Get sends a GET.
func Get(url string, headers ...Header) (*Response, error) {
	return Send(Request{Method: "GET", URL: url, Headers: headers})
}

// Post sends a value as JSON.
func Post(url string, value any, headers ...Header) (*Response, error) {
	return Send(Request{Method: "POST", URL: url, Headers: headers, JSON: value})
}

// Send sends a request and waits for the head of the response.
func Send(request Request) (*Response, error) {
	head, body, err := request.lowered()
	if err != nil {
		return nil, err
	}
	response, err := calls.HTTPSend(head, body)
	if err != nil {
		return nil, err
	}
	return newResponse(response, request.URL), nil
}

// Credentials returns the names of the credentials that are granted and exist.
func Credentials() []string { return calls.HTTPCredentials() }

func (request Request) lowered() (calls.HTTPRequest, []byte, error) {
	head := calls.HTTPRequest{Method: request.Method, URL: request.URL}
	for _, header := range request.Headers {
		head.Headers = append(head.Headers, Header{Name: strings.ToLower(header.Name), Value: header.Value})
	}
	if request.Credential != "" {
		head.Credential = &request.Credential
	}
	if request.Timeout > 0 {
		// Less than a millisecond becomes one: 0 would mean no limit.
		millis := uint32(min(max(request.Timeout.Milliseconds(), 1), 1<<32-1))
		head.TimeoutMs = &millis
	}
	body := request.Body
	if request.JSON != nil {
		text, err := json.Marshal(request.JSON)
		if err != nil {
			return head, nil, shelly.Other("the body cannot be written as JSON: %v", err)
		}
		body = text
		head.Headers = append(head.Headers, Header{Name: "content-type", Value: "application/json"})
	}
	return head, body, nil
}

// Upload is a request whose body is sent in pieces.
type Upload struct {
	upload calls.Upload
	url    string
}

// Begin sends the head of a request; the body follows with Write. Call Close, or Finish.
func Begin(request Request) (*Upload, error) {
	head, body, err := request.lowered()
	if err != nil {
		return nil, err
	}
	begun, err := calls.HTTPBegin(head)
	if err != nil {
		return nil, err
	}
	upload := &Upload{begun, request.URL}
	if _, err := upload.Write(body); err != nil {
		upload.Close()
		return nil, err
	}
	return upload, nil
}

// Write sends a piece of the body. It waits while the network is behind.
func (upload *Upload) Write(piece []byte) (int, error) {
	for at := 0; at < len(piece); at += writePiece {
		if err := upload.upload.Write(piece[at:min(at+writePiece, len(piece))]); err != nil {
			return at, err
		}
	}
	return len(piece), nil
}

// Finish ends the body and waits for the head of the response.
func (upload *Upload) Finish() (*Response, error) {
	response, err := upload.upload.Finish()
	if err != nil {
		return nil, err
	}
	return newResponse(response, upload.url), nil
}

// Close aborts a request that is not finished.
func (upload *Upload) Close() { upload.upload.Close() }

// Response is a response; its body is read as a whole or as it arrives. Close ends the connection before the end of the body.
type Response struct {
	Status  int
	Headers []Header
	body    calls.Body
	// The host and port: no part of the URL that could be a secret.
	origin string
	rest   []byte
}

func newResponse(response calls.HTTPResponse, address string) *Response {
	origin := "the server"
	if parsed, err := url.Parse(address); err == nil && parsed.Host != "" {
		origin = parsed.Host
	}
	return &Response{Status: int(response.Status), Headers: response.Headers, body: response.Body, origin: origin}
}

// Header returns the first header of a name; empty if there is none.
func (response *Response) Header(name string) string {
	for _, header := range response.Headers {
		if strings.EqualFold(header.Name, name) {
			return header.Value
		}
	}
	return ""
}

// Close ends the connection.
func (response *Response) Close() { response.body.Close() }

// Piece returns the next bytes of the body, as they arrive; none at the end.
func (response *Response) Piece() ([]byte, error) {
	if rest := response.rest; len(rest) > 0 {
		response.rest = nil
		return rest, nil
	}
	return response.body.Read(readPiece)
}

// Bytes returns the rest of the body. Bound: MostWhole.
func (response *Response) Bytes() ([]byte, error) {
	defer response.Close()
	var whole []byte
	for {
		piece, err := response.Piece()
		if err != nil {
			return nil, err
		}
		if len(piece) == 0 {
			return whole, nil
		}
		if len(whole)+len(piece) > MostWhole {
			return nil, shelly.TooLarge("%s sent a body of more than %d bytes", response.origin, MostWhole)
		}
		whole = append(whole, piece...)
	}
}

// Text returns the rest of the body as text.
func (response *Response) Text() (string, error) {
	whole, err := response.Bytes()
	return strings.ToValidUTF8(string(whole), "\uFFFD"), err
}

// JSON reads the rest of the body into a value.
func (response *Response) JSON(value any) error {
	whole, err := response.Bytes()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(whole, value); err != nil {
		return shelly.Other("%s sent a body that is not the expected JSON: %v", response.origin, err)
	}
	return nil
}

// Line returns the next line of the body without its end, and false at the end of the body. Bound: MostLine.
func (response *Response) Line() (string, bool, error) {
	for searched := 0; ; {
		if at := bytes.IndexByte(response.rest[searched:], '\n'); at >= 0 {
			line := response.rest[:searched+at]
			response.rest = response.rest[searched+at+1:]
			return strings.TrimSuffix(string(line), "\r"), true, nil
		}
		searched = len(response.rest)
		if searched > MostLine {
			return "", false, shelly.TooLarge("%s sent a line of more than %d bytes", response.origin, MostLine)
		}
		piece, err := response.body.Read(readPiece)
		if err != nil {
			return "", false, err
		}
		if len(piece) == 0 {
			line := strings.TrimSuffix(string(response.rest), "\r")
			response.rest = nil
			return line, line != "", nil
		}
		response.rest = append(response.rest, piece...)
	}
}

// Event is a server-sent event.
type Event struct{ Name, Data, ID string }

// Events calls a function with each server-sent event of the body, until one returns an error.
func (response *Response) Events(each func(event Event) error) error {
	defer response.Close()
	var name, id string
	var data []string
	for {
		line, isLine, err := response.Line()
		if err != nil || !isLine {
			return err
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if len(data) > 0 {
				event := Event{Name: name, Data: strings.Join(data, "\n"), ID: id}
				if event.Name == "" {
					event.Name = "message"
				}
				if err := each(event); err != nil {
					return err
				}
			}
			name, data = "", nil
		case field == "event":
			name = value
		case field == "data":
			data = append(data, value)
		case field == "id":
			id = value
		}
	}
}
