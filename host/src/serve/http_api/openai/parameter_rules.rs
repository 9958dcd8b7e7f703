use serde_json::{Map, Value};

use super::openai_error::OpenAiError;

/// A parameter that is refused, since an agent could not do what it asks for.
struct RefusedParameter {
    name: &'static str,
    /// Returns `true` if the value asks for something.
    is_asked: fn(&Value) -> bool,
    why: &'static str,
}

const fn refused(name: &'static str, is_asked: fn(&Value) -> bool, why: &'static str) -> RefusedParameter {
    RefusedParameter { name, is_asked, why }
}

const OWN_TOOLS: &str = "an agent has the tools of its config; leave the tools of the client out";

/// The refused parameters of chat completions. All others are used or ignored.
static CHAT: [RefusedParameter; 11] = [
    refused("tools", is_filled, OWN_TOOLS),
    refused("functions", is_filled, OWN_TOOLS),
    refused("tool_choice", chooses_tool, OWN_TOOLS),
    refused("function_call", chooses_tool, OWN_TOOLS),
    refused("n", is_above_one, "a request starts one run; send several requests"),
    refused("logprobs", is_true, "the probabilities of tokens are not known"),
    refused("top_logprobs", is_above_zero, "the probabilities of tokens are not known"),
    refused("stop", is_filled, "an agent ends with its answer"),
    refused("audio", is_filled, "agents answer with text"),
    refused("modalities", wants_sound, "agents answer with text"),
    refused("web_search_options", Value::is_object, OWN_TOOLS),
];

/// The refused parameters of responses. All others are used or ignored.
static RESPONSES: [RefusedParameter; 5] = [
    refused("tools", is_filled, OWN_TOOLS),
    refused("tool_choice", chooses_tool, OWN_TOOLS),
    refused("conversation", is_set, "continue a conversation with `previous_response_id`"),
    refused("prompt", is_set, "the config holds the instructions of an agent"),
    refused("top_logprobs", is_above_zero, "the probabilities of tokens are not known"),
];

fn is_set(value: &Value) -> bool {
    !value.is_null()
}

fn is_true(value: &Value) -> bool {
    value == &Value::Bool(true)
}

fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(entries) => !entries.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

fn is_above_one(value: &Value) -> bool {
    value.is_number() && value.as_u64() != Some(1)
}

fn is_above_zero(value: &Value) -> bool {
    value.is_number() && value.as_u64() != Some(0)
}

fn chooses_tool(value: &Value) -> bool {
    is_set(value) && value != "auto" && value != "none"
}

fn wants_sound(value: &Value) -> bool {
    value.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind != "text"))
}

/// Refuses a chat completion with a parameter that the host does not have.
pub fn check_chat(parameters: &Map<String, Value>) -> Result<(), Box<OpenAiError>> {
    check(&CHAT, parameters)
}

/// Refuses a response with a parameter that the host does not have.
pub fn check_responses(parameters: &Map<String, Value>) -> Result<(), Box<OpenAiError>> {
    check(&RESPONSES, parameters)
}

fn check(refused: &[RefusedParameter], parameters: &Map<String, Value>) -> Result<(), Box<OpenAiError>> {
    let asked = |one: &&RefusedParameter| parameters.get(one.name).is_some_and(one.is_asked);
    match refused.iter().find(asked) {
        Some(one) => Err(OpenAiError::unsupported(one.name, one.why)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameter_is_refused_only_if_it_asks_for_something() {
        let tool = json!([{"type": "function", "function": {"name": "look"}}]);
        for (parameters, refused) in [
            (json!({}), None),
            (json!({"temperature": 0.2, "seed": 7, "user": "ada", "new_one": [1]}), None),
            (json!({"tools": [], "functions": null, "tool_choice": "auto", "function_call": "none"}), None),
            (json!({"n": 1, "logprobs": false, "top_logprobs": 0, "stop": null, "modalities": ["text"]}), None),
            (json!({"tools": tool}), Some("tools")),
            (json!({"functions": [{}]}), Some("functions")),
            (json!({"tool_choice": "required"}), Some("tool_choice")),
            (json!({"function_call": {"name": "look"}}), Some("function_call")),
            (json!({"n": 2}), Some("n")),
            (json!({"n": 0}), Some("n")),
            (json!({"logprobs": true}), Some("logprobs")),
            (json!({"top_logprobs": 3}), Some("top_logprobs")),
            (json!({"stop": ["\n"]}), Some("stop")),
            (json!({"stop": "END"}), Some("stop")),
            (json!({"audio": {"voice": "ash"}}), Some("audio")),
            (json!({"modalities": ["text", "audio"]}), Some("modalities")),
            (json!({"web_search_options": {}}), Some("web_search_options")),
        ] {
            let error = check_chat(parameters.as_object().unwrap()).err();
            assert_eq!(error.as_ref().and_then(|error| error.param.as_deref()), refused, "{parameters}");
            assert!(error.is_none_or(|error| error.code == Some("unsupported_parameter")));
        }
        for (parameters, refused) in [
            (json!({"background": true, "conversation": null, "truncation": "auto"}), None),
            (json!({"conversation": "conv_1"}), Some("conversation")),
            (json!({"prompt": {"id": "p"}}), Some("prompt")),
            (json!({"tools": [{"type": "web_search"}]}), Some("tools")),
            (json!({"tool_choice": {"type": "file_search"}}), Some("tool_choice")),
            (json!({"top_logprobs": 1}), Some("top_logprobs")),
        ] {
            let error = check_responses(parameters.as_object().unwrap()).err();
            assert_eq!(error.and_then(|error| error.param), refused.map(str::to_owned), "{parameters}");
        }
    }
}
