//! The wire format, by the examples of the specification.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::wire::{
    A2aMessage, A2aPart, A2aPartContent, A2aRole, A2aTask, A2aTaskState, AgentCard, ListTasksParams, ListTasksResult,
    SendMessageParams, SendMessageResult, TaskStreamItem,
};

/// Parses a value, and checks that it is written as it was.
fn same<T: DeserializeOwned + Serialize>(value: Value) -> T {
    let parsed: T = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"));
    assert_eq!(serde_json::to_value(&parsed).unwrap(), value);
    parsed
}

#[test]
fn objects_are_written_as_they_are_read() {
    let card: AgentCard = same(json!({
        "name": "Route planner",
        "description": "Plans routes.",
        "supportedInterfaces": [
            {"url": "https://agents.example.com/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "https://agents.example.com/b", "protocolBinding": "GRPC", "tenant": "t", "protocolVersion": "1.0"},
        ],
        "version": "1.2.0",
        "capabilities": {
            "streaming": true,
            "pushNotifications": false,
            "extendedAgentCard": false,
            "extensions": [{"uri": "urn:x", "description": "x", "required": true, "params": {"a": 1}}],
        },
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [{"id": "r", "name": "Routes", "description": "d", "tags": ["maps"], "examples": ["Plan."]}],
    }));
    assert_eq!(card.supported_interfaces[1].tenant, "t");
    let params: SendMessageParams = same(json!({
        "tenant": "t",
        "message": {
            "messageId": "m",
            "contextId": "c",
            "taskId": "t",
            "role": "ROLE_USER",
            "parts": [
                {"text": "Hello"},
                {"raw": "aGk=", "filename": "a.txt", "mediaType": "text/plain"},
                {"url": "https://files.example.com/a", "mediaType": "image/png"},
                {"data": {"a": [1, null]}, "metadata": {"k": "v"}},
                {"data": null},
            ],
            "metadata": {"k": 1},
            "extensions": ["urn:x"],
            "referenceTaskIds": ["u"],
        },
        "configuration": {
            "acceptedOutputModes": ["text/plain"],
            "taskPushNotificationConfig": {"url": "https://hook.example.com"},
            "historyLength": 0,
            "returnImmediately": true,
        },
        "metadata": {"k": true},
    }));
    assert_eq!(params.message.role, A2aRole::User);
    assert_eq!(params.message.parts[4].content, A2aPartContent::Data(Value::Null));
    let status = json!({
        "state": "TASK_STATE_INPUT_REQUIRED",
        "message": {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": "Which one?"}]},
        "timestamp": "2026-11-27T09:00:00.000Z",
    });
    let task = json!({
        "id": "t",
        "contextId": "c",
        "status": status,
        "artifacts": [{"artifactId": "a", "name": "answer", "parts": [{"text": "Four."}]}],
        "history": [{"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Two and two?"}]}],
        "metadata": {"k": 1},
    });
    let parsed: A2aTask = same(task.clone());
    assert_eq!(parsed.status.state, A2aTaskState::InputRequired);
    for item in [
        json!({"task": task}),
        json!({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Hi."}]}}),
        json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": status}}),
        json!({"artifactUpdate": {"taskId": "t", "contextId": "c", "append": true, "lastChunk": true,
            "artifact": {"artifactId": "a", "parts": [{"text": "Four."}]}}}),
    ] {
        same::<TaskStreamItem>(item);
    }
    same::<SendMessageResult>(json!({"task": task}));
    same::<ListTasksResult>(json!({"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}));
    same::<ListTasksParams>(json!({"contextId": "c", "status": "TASK_STATE_WORKING", "pageSize": 5, "pageToken": "p",
        "historyLength": 1, "statusTimestampAfter": "2026-11-27T09:00:00Z", "includeArtifacts": true}));
}

#[test]
fn absent_null_and_unknown_fields_do_no_harm() {
    let task: A2aTask = serde_json::from_value(json!({
        "id": "t",
        "kind": "task",
        "status": {"state": "TASK_STATE_OF_LATER", "message": null},
        "artifacts": null,
        "history": null,
        "metadata": null,
    }))
    .unwrap();
    let expected = A2aTask { id: "t".into(), ..A2aTask::default() };
    assert_eq!(task, expected);
    let card: AgentCard = serde_json::from_value(json!({"name": "a", "capabilities": {"streaming": null}})).unwrap();
    assert!(!card.capabilities.streaming && card.skills.is_empty());
    assert!(serde_json::from_value::<AgentCard>(json!({"description": "no name"})).is_err());
    // A part of version 0.3 has another form.
    let old = json!({"kind": "text", "text": "Hi."});
    assert_eq!(serde_json::from_value::<A2aPart>(old).unwrap(), A2aPart::text("Hi."));
    assert!(serde_json::from_value::<A2aPart>(json!({"kind": "file", "file": {}})).is_err());
}

#[test]
fn text_of_a_message_is_that_of_its_text_parts() {
    let mut message = A2aMessage::of_agent("m", "one");
    message.parts.push(A2aPart::of(A2aPartContent::Data(json!({"a": 1}))));
    message.parts.push(A2aPart::text("two"));
    assert_eq!(message.text(), "one\ntwo");
}
