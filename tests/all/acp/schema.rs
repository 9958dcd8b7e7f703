//! Checks messages against the JSON Schema of the protocol, as far as that uses words of JSON Schema. The build script
//! generates it from the types of the protocol's authors.

use std::sync::LazyLock;

use serde_json::Value;

/// The definitions of the protocol.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let schema = include_str!(concat!(env!("OUT_DIR"), "/acp_schema.json"));
    serde_json::from_str(schema).unwrap()
});

/// The definition of the parameters of each method that the host calls.
const CALLED: [(&str, &str); 6] = [
    ("session/update", "SessionNotification"),
    ("session/request_permission", "RequestPermissionRequest"),
    ("elicitation/create", "CreateElicitationRequest"),
    ("$/cancel_request", "CancelRequestNotification"),
    ("fs/read_text_file", "ReadTextFileRequest"),
    ("fs/write_text_file", "WriteTextFileRequest"),
];

/// The definitions of the parameters and of the result of each method that an editor calls.
const ANSWERED: [(&str, &str, &str); 8] = [
    ("initialize", "InitializeRequest", "InitializeResponse"),
    ("session/new", "NewSessionRequest", "NewSessionResponse"),
    ("session/load", "LoadSessionRequest", "LoadSessionResponse"),
    ("session/resume", "ResumeSessionRequest", "ResumeSessionResponse"),
    ("session/list", "ListSessionsRequest", "ListSessionsResponse"),
    ("session/close", "CloseSessionRequest", "CloseSessionResponse"),
    ("session/set_mode", "SetSessionModeRequest", "SetSessionModeResponse"),
    ("session/prompt", "PromptRequest", "PromptResponse"),
];

/// Checks a message of the host. `method` is that of the request which it answers.
pub fn check_message(message: &Value, method: Option<&str>) {
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    let (definition, value) = match (message["method"].as_str(), method) {
        (Some(called), _) => {
            let known = CALLED.iter().find(|(name, _)| *name == called);
            (known.unwrap_or_else(|| panic!("not a method of editors: {message}")).1, &message["params"])
        }
        (None, _) if message.get("error").is_some() => ("Error", &message["error"]),
        (None, Some(method)) => {
            let known = ANSWERED.iter().find(|(name, ..)| *name == method);
            (known.unwrap_or_else(|| panic!("{method} has no answer: {message}")).2, &message["result"])
        }
        (None, None) => panic!("it answers nothing: {message}"),
    };
    assert!(is_valid(&SCHEMA["$defs"][definition], value), "not a valid {definition}: {message}");
}

/// Returns `true` if these are valid parameters of a method that an editor calls.
pub fn is_valid_request(method: &str, params: &Value) -> bool {
    let known = ANSWERED.iter().find(|(name, ..)| *name == method);
    known.is_some_and(|(_, definition, _)| is_valid(&SCHEMA["$defs"][*definition], params))
}

fn is_valid(schema: &Value, value: &Value) -> bool {
    let Value::Object(schema) = schema else { return *schema != Value::Bool(false) };
    schema.iter().all(|(word, rule)| match word.as_str() {
        "$ref" => is_valid(&SCHEMA["$defs"][rule.as_str().unwrap().trim_start_matches("#/$defs/")], value),
        "allOf" => rule.as_array().unwrap().iter().all(|part| is_valid(part, value)),
        "anyOf" => rule.as_array().unwrap().iter().any(|part| is_valid(part, value)),
        "oneOf" => rule.as_array().unwrap().iter().filter(|part| is_valid(part, value)).count() == 1,
        "not" => !is_valid(rule, value),
        "const" => rule == value,
        "enum" => rule.as_array().unwrap().contains(value),
        "type" => match rule {
            Value::Array(types) => types.iter().any(|name| has_type(name, value)),
            name => has_type(name, value),
        },
        "required" => rule.as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some()),
        "properties" => rule.as_object().unwrap().iter().all(|(name, rule)| match value.get(name) {
            Some(member) => is_valid(rule, member),
            None => true,
        }),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| is_valid(rule, item))),
        "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
        "minLength" => value.as_str().is_none_or(|text| text.len() as u64 >= rule.as_u64().unwrap()),
        // Members that the schema does not know are for extensions.
        "additionalProperties" | "unevaluatedProperties" => true,
        "title" | "description" | "default" | "examples" | "format" | "discriminator" => true,
        // Words of the protocol, such as what an agent does with a member that it cannot read.
        extension if extension.starts_with("x-") => true,
        other => panic!("the schema uses `{other}`, which this test does not know"),
    })
}

fn has_type(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("there is no type `{other}`"),
    }
}
