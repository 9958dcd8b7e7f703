//! Requests of clients as runs, and runs as answers, without a connection.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{
    chat_reply::{ChatChunkDelta, ChatCompletionChunk, ChatCompletionHead},
    chat_request::ChatCompletionCall,
    openai_error::OpenAiError,
    responses_reply::{OpenAiResponse, ResponseHead},
    responses_request::ResponseCall,
    run_ending::{ChatUsage, ResponseUsage},
};
use crate::{
    approval::AnswerError,
    chat::{Role, Usage},
    error::{ErrorKind, Report},
    limits,
    net::http_server::{AccessDenied, BodyError},
    serve::{
        hosted_runs::{RunHostError, RunTarget},
        http_api::problem::Problem,
    },
    task::AttachedFile,
};

const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";

fn parameters(value: Value) -> Map<String, Value> {
    let Value::Object(parameters) = value else { panic!("{value} is no object") };
    parameters
}

fn chat(value: Value) -> Result<ChatCompletionCall, Box<OpenAiError>> {
    ChatCompletionCall::parse(parameters(value))
}

fn response(value: Value) -> Result<ResponseCall, Box<OpenAiError>> {
    ResponseCall::parse(parameters(value))
}

#[test]
fn chat_completion_becomes_a_run() {
    let call = chat(json!({
        "model": "ada",
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": "One?"},
            {"role": "assistant", "content": "One.", "refusal": null, "tool_calls": [], "function_call": null},
            {"role": "user", "name": "bob", "content": [
                {"type": "text", "text": "What is"},
                {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
                {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}},
                {"type": "text", "text": "this?"},
            ]},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": 5,
        "max_completion_tokens": 50,
        "budget": {"usd": 0.1, "tool_calls": 3},
        "store": false,
        "temperature": 0.5,
    }));
    let call = call.unwrap();
    assert_eq!((call.model.as_deref(), call.is_streamed, call.includes_usage), (Some("ada"), true, true));
    let request = call.request;
    assert_eq!((request.target, request.output_tokens), (RunTarget::Off, Some(50)));
    assert_eq!(request.budget.tool_calls, Some(3));
    let history: Vec<_> = request.history.iter().map(|message| (message.role, message.text_content())).collect();
    assert_eq!((history[0].0, history[1].clone()), (Role::User, (Role::Assistant, "One.".to_owned())));
    assert!(history[0].1.starts_with("One?\n\n") && history[0].1.contains("Be brief."), "{history:?}");
    let input = request.input.unwrap();
    assert_eq!(input.text, "What is\n\nthis?");
    let [AttachedFile::Media(image), AttachedFile::Text { name, text }] = &input.attachments[..] else {
        panic!("{input:?}")
    };
    assert_eq!((&*image.media_type, &**name, &**text), ("image/png", "a.txt", "hi"));
    let plain = chat(json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 7, "model": ""})).unwrap();
    assert_eq!((plain.model, plain.is_streamed, plain.has_schema), (None, false, false));
    assert_eq!((plain.request.target, plain.request.output_tokens), (RunTarget::New, Some(7)));
}

#[test]
fn answer_format_is_a_schema() {
    let asks =
        |format: Value| chat(json!({"messages": [{"role": "user", "content": "hi"}], "response_format": format}));
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    for (format, has_schema) in [
        (json!(null), Ok(false)),
        (json!({"type": "text"}), Ok(false)),
        (json!({"type": "json_object"}), Ok(true)),
        (json!({"type": "json_schema", "json_schema": {"name": "c", "strict": true, "schema": schema}}), Ok(true)),
        (json!({"type": "json_schema", "json_schema": {"name": "c"}}), Err("the format has no `schema`")),
        (json!({"type": "json_schema"}), Err("the format has no `schema`")),
        (json!({"type": "grammar"}), Err("the type must be")),
        (json!({"type": "json_schema", "json_schema": {"schema": 7}}), Err("the schema of the answer")),
    ] {
        match (asks(format.clone()), has_schema) {
            (Ok(call), Ok(expected)) => {
                assert_eq!(call.has_schema, expected, "{format}");
                assert_eq!(call.request.input.unwrap().schema.is_some(), expected, "{format}");
            }
            (Err(error), Err(says)) => {
                assert!(error.message.contains(says), "{format}: {error:?}");
                assert_eq!(error.param.as_deref(), Some("response_format"));
            }
            (_, expected) => panic!("{format}: {expected:?}"),
        }
    }
    let format = json!({"type": "json_schema", "name": "c", "schema": schema});
    let call = response(json!({"input": "hi", "text": {"format": format}})).unwrap();
    assert_eq!((call.has_schema, call.format), (true, format));
    let error = response(json!({"input": "hi", "text": {"format": {"type": "json_schema"}}})).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("text.format"));
}

#[test]
fn unusable_chat_completion_names_its_parameter() {
    let user = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    let message = |message: Value| json!({"messages": [{"role": "user", "content": "hi"}, message]});
    let many = vec![json!({"role": "user", "content": "hi"}); limits::SERVE_CONVERSATION_MESSAGES + 1];
    for (body, param, says) in [
        (json!({}), None, "missing field `messages`"),
        (json!({"messages": "hi"}), None, "the body cannot be used"),
        (user(json!(7)), None, "must be a text, or a list of parts"),
        (user(json!([{"text": "hi"}])), None, "must be a text, or a list of parts"),
        (json!({"messages": []}), Some("messages"), "there is no message of the user"),
        (json!({"messages": many}), Some("messages"), "2001 messages, the maximum is 2000"),
        (message(json!({"role": "assistant", "content": "Hel"})), Some("messages"), "the last message"),
        (message(json!({"role": "tool", "content": "22", "tool_call_id": "c"})), Some("messages[1]"), "own tools"),
        (message(json!({"role": "assistant", "tool_calls": [{"id": "c"}]})), Some("messages[1]"), "own tools"),
        (message(json!({"role": "critic", "content": "no"})), Some("messages[1]"), "the role must be"),
        (
            message(json!({"role": "assistant", "content": [{"type": "image_url", "image_url": PNG}]})),
            Some("messages[1].content[0]"),
            "only messages of the user",
        ),
        (user(json!([{"type": "input_audio"}])), Some("messages[0].content[0]"), "`input_audio` is not taken"),
        (user(json!([{"type": "text"}])), Some("messages[0].content[0]"), "no `text`"),
        (
            user(json!([{"type": "image_url", "image_url": {"url": "http://a/b.png"}}])),
            Some("messages[0].content[0]"),
            "https://",
        ),
        (user(json!([{"type": "file", "file": {"file_id": "f"}}])), Some("messages[0].content[0]"), "`file_data`"),
        (json!({"messages": [], "tools": [{}]}), Some("tools"), "unsupported parameter `tools`"),
        (
            json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 0}),
            Some("max_tokens"),
            "must be at least 1",
        ),
    ] {
        let error = chat(body.clone()).unwrap_err();
        assert!(error.message.contains(says), "{says}: {error:?}");
        assert_eq!((error.param.as_deref(), error.status), (param, StatusCode::BAD_REQUEST), "{says}");
    }
}

#[test]
fn response_becomes_a_run() {
    let call = response(json!({
        "model": "ada",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "One?"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One."}]},
            {"role": "user", "content": [
                {"type": "input_text", "text": "And this?"},
                {"type": "input_image", "image_url": PNG, "detail": "auto"},
                {"type": "input_file", "filename": "a.txt", "file_data": "aGk="},
            ]},
        ],
        "previous_response_id": "resp_1_s",
        "max_output_tokens": 9,
        "max_tool_calls": 2,
        "stream": true,
    }));
    let call = call.unwrap();
    assert_eq!((call.previous.as_deref(), call.instructions.as_deref()), (Some("resp_1_s"), Some("Be brief.")));
    assert!(call.is_streamed && !call.has_schema);
    assert_eq!((call.request.output_tokens, call.request.budget.tool_calls), (Some(9), Some(2)));
    assert_eq!(call.request.history.len(), 2);
    let input = call.request.input.unwrap();
    assert_eq!((&*input.text, input.attachments.len()), ("And this?", 2));
    let told = response(json!({"input": "hi", "instructions": "Be brief."})).unwrap().request.input.unwrap();
    assert!(told.text.starts_with("hi\n\n") && told.text.contains("Be brief."), "{}", told.text);
    for (body, param, says) in [
        (json!({"input": ""}), Some("input"), "there is no message of the user"),
        (json!({"input": [{"type": "function_call_output"}]}), Some("input[0]"), "`function_call_output`"),
        (json!({"input": [{"role": "user"}]}), Some("input[0]"), "no `content`"),
        (
            json!({"input": "hi", "store": false, "previous_response_id": "resp_1_s"}),
            Some("store"),
            "leave `store` out",
        ),
        (json!({"input": "hi", "max_tool_calls": 0}), Some("max_tool_calls"), "at least 1"),
        (json!({"input": "hi", "background": true, "stream": true}), Some("stream"), "not streamed"),
        (json!({"input": "hi", "background": true, "store": false}), Some("store"), "is stored"),
        (json!({"input": 7}), None, "the body cannot be used"),
    ] {
        let error = response(body).unwrap_err();
        assert!(error.message.contains(says), "{says}: {error:?}");
        assert_eq!(error.param.as_deref(), param, "{says}");
    }
}

#[test]
fn errors_have_the_status_and_code_that_clients_know() {
    let of_host = |error: RunHostError| Box::<OpenAiError>::from(error);
    let of_problem = |problem: Box<Problem>| Box::<OpenAiError>::from(problem);
    let report = |kind| Report::new(kind, "it broke").cause("a wire").hint("mend it");
    for (error, status, group, code, is_final) in [
        (of_host(RunHostError::Busy { most: 2 }), 429, "rate_limit_error", Some("rate_limit_exceeded"), false),
        (of_host(RunHostError::Stopping), 503, "server_error", Some("unavailable"), false),
        (of_host(RunHostError::SessionInUse { id: "s".into() }), 409, "invalid_request_error", Some("conflict"), true),
        (
            of_host(RunHostError::NotBegun(report(ErrorKind::Usage))),
            422,
            "invalid_request_error",
            Some("unprocessable"),
            false,
        ),
        (of_host(RunHostError::NotBegun(report(ErrorKind::Run))), 500, "server_error", Some("internal"), false),
        (
            of_host(RunHostError::Answer(AnswerError::NotOpen { id: 1 })),
            404,
            "invalid_request_error",
            Some("not_found"),
            false,
        ),
        (AccessDenied::Token.into(), 401, "invalid_request_error", Some("invalid_api_key"), false),
        (AccessDenied::Origin.into(), 403, "invalid_request_error", Some("forbidden"), false),
        (of_problem(BodyError::TooLarge { most: 7 }.into()), 413, "invalid_request_error", Some("too_large"), false),
        (of_problem(Problem::not_found("no path")), 404, "invalid_request_error", Some("not_found"), false),
        (OpenAiError::invalid(None, "no"), 400, "invalid_request_error", None, false),
        (OpenAiError::no_model("gpt", &["ada".into()]), 404, "invalid_request_error", Some("model_not_found"), false),
        (OpenAiError::no_response("no"), 400, "invalid_request_error", Some("previous_response_not_found"), false),
        (OpenAiError::failed(&report(ErrorKind::Provider)), 502, "server_error", Some("provider"), true),
        (OpenAiError::failed(&report(ErrorKind::Run)), 500, "server_error", Some("run"), true),
    ] {
        assert_eq!((error.status.as_u16(), error.group, error.code), (status, group, code), "{error:?}");
        assert_eq!(format!("{error:?}").contains("is_final: true"), is_final, "{error:?}");
        let names = json!(error).as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["code", "message", "param", "type"]);
    }
    let failed = OpenAiError::failed(&report(ErrorKind::Run));
    assert_eq!(failed.message, "it broke: a wire; mend it");
}

#[test]
fn chunks_and_usage_have_the_form_of_the_api() {
    let head = ChatCompletionHead { id: "chatcmpl-r".into(), created: 7, model: "ada".into() };
    let delta = || ChatChunkDelta { content: Some("hi".into()), ..ChatChunkDelta::default() };
    let chunk = json!(ChatCompletionChunk::delta(&head, delta(), None, false));
    let choice = json!({"index": 0, "delta": {"content": "hi"}, "finish_reason": null});
    let expected = json!({
        "id": "chatcmpl-r", "created": 7, "model": "ada", "object": "chat.completion.chunk", "choices": [choice],
    });
    assert_eq!(chunk, expected);
    let with_usage = json!(ChatCompletionChunk::delta(&head, delta(), Some("stop"), true));
    assert_eq!((&with_usage["usage"], &with_usage["choices"][0]["finish_reason"]), (&Value::Null, &json!("stop")));
    assert!(with_usage.as_object().unwrap().contains_key("usage"));
    let usage = Usage { input_tokens: 5, output_tokens: 3, cache_read_tokens: 2, cache_write_tokens: 1 };
    let last = json!(ChatCompletionChunk::usage(&head, ChatUsage::from(usage)));
    assert_eq!((&last["choices"], &last["usage"]["prompt_tokens"]), (&json!([]), &json!(8)));
    assert_eq!((&last["usage"]["completion_tokens"], &last["usage"]["total_tokens"]), (&json!(3), &json!(11)));
    assert_eq!(last["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
    let usage = json!(ResponseUsage::from(usage));
    assert_eq!((&usage["input_tokens"], &usage["total_tokens"]), (&json!(8), &json!(11)), "{usage}");
    let head = ResponseHead {
        id: "resp_1_s".into(),
        run: "r".into(),
        created: 7,
        model: "ada".into(),
        instructions: None,
        previous: None,
        is_stored: true,
        is_background: false,
        output_tokens: None,
        format: json!({"type": "text"}),
    };
    let response = json!(OpenAiResponse::in_progress(&head));
    assert_eq!((&response["object"], &response["status"]), (&json!("response"), &json!("in_progress")));
    for needed in ["id", "created_at", "error", "incomplete_details", "instructions", "metadata", "model", "output"] {
        assert!(response.as_object().unwrap().contains_key(needed), "{needed}");
    }
}
