//! Operations without a connection, with a model that never answers.

use std::{sync::Arc, time::SystemTime};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    A2aOptions, A2aService,
    agent_cards::AgentDirectory,
    incoming_message::{answered_question, check, task_input, words},
    task_operations::OperationResult,
};
use crate::{
    a2a::{A2aError, A2aErrorKind, A2aOperation, BUDGET_EXTENSION, wire::A2aMessage},
    approval::{OpenQuestion, Question, QuestionKind},
    limits,
    serve::hosted_runs::{HostedQuestion, testing::SilentHost},
    task::AttachedFile,
};

/// A service of one agent, `ada`, whose model is silent.
struct SilentService {
    service: A2aService,
    host: SilentHost,
}

impl SilentService {
    async fn new(max_runs: usize) -> Self {
        let host = SilentHost::new(max_runs).await;
        let service = A2aService::new(host.host.clone(), A2aOptions::default(), CancellationToken::new());
        Self { service, host }
    }

    async fn perform(&self, operation: A2aOperation, params: Value) -> Result<Value, A2aError> {
        match self.service.operations().perform("ada", operation, params, None).await? {
            OperationResult::Value(value) => Ok(value),
            OperationResult::Updates(_) => panic!("a stream"),
        }
    }

    /// Gives the agent a task. Returns the task.
    async fn send(&self, id: &str) -> Result<Value, A2aError> {
        self.perform(A2aOperation::SendMessage, sent(id)).await.map(|sent| sent["task"].clone())
    }

    /// Waits until the host has room for another run.
    async fn wait_for_room(&self, ended: u64) {
        while self.host.host.totals().ended.iter().sum::<u64>() < ended {
            tokio::task::yield_now().await;
        }
    }
}

/// The parameters of a message with this id, whose answer comes at once.
fn sent(id: &str) -> Value {
    json!({
        "message": {"messageId": id, "role": "ROLE_USER", "parts": [{"text": "Wait."}]},
        "configuration": {"returnImmediately": true},
    })
}

fn message(value: Value) -> A2aMessage {
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn repeated_message_begins_one_task() {
    let silent = SilentService::new(2).await;
    let task = silent.send("m").await.unwrap();
    assert_eq!(task["status"]["state"], "TASK_STATE_WORKING", "{task}");
    assert_eq!(silent.send("m").await.unwrap()["id"], task["id"]);
    let mut other = sent("m");
    other["message"]["parts"][0]["text"] = "Hurry.".into();
    let error = silent.perform(A2aOperation::SendMessage, other).await.unwrap_err();
    assert_eq!(error.kind, A2aErrorKind::InvalidParams);
    assert_ne!(silent.send("n").await.unwrap()["id"], task["id"]);
    let busy = silent.send("o").await.unwrap_err();
    assert!(busy.kind == A2aErrorKind::Internal && busy.message.contains("2 runs are at work"), "{busy}");
    // A refused message was not taken.
    silent.perform(A2aOperation::CancelTask, json!({"id": task["id"]})).await.unwrap();
    silent.wait_for_room(1).await;
    assert!(silent.send("o").await.is_ok());
}

#[tokio::test]
async fn task_that_works_is_told_and_cancelled() {
    let silent = SilentService::new(1).await;
    let id = silent.send("m").await.unwrap()["id"].clone();
    let mut more = sent("n");
    more["message"]["taskId"] = id.clone();
    let told = silent.perform(A2aOperation::SendMessage, more.clone()).await.unwrap();
    assert_eq!(told["task"]["history"][1]["messageId"], "n", "{told}");
    more["message"]["messageId"] = "o".into();
    more["message"]["contextId"] = "another".into();
    let error = silent.perform(A2aOperation::SendMessage, more.clone()).await.unwrap_err();
    assert_eq!(error.kind, A2aErrorKind::InvalidParams);
    let cancelled = silent.perform(A2aOperation::CancelTask, json!({"id": id})).await.unwrap();
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED", "{cancelled}");
    more["message"]["contextId"] = Value::Null;
    for (operation, params, kind) in [
        (A2aOperation::CancelTask, json!({"id": id}), A2aErrorKind::TaskNotCancelable),
        (A2aOperation::SubscribeToTask, json!({"id": id}), A2aErrorKind::UnsupportedOperation),
        (A2aOperation::SendMessage, more, A2aErrorKind::UnsupportedOperation),
        (A2aOperation::GetTask, json!({"id": "run-none"}), A2aErrorKind::TaskNotFound),
        (A2aOperation::CancelTask, json!({"id": "run-none"}), A2aErrorKind::TaskNotFound),
        (A2aOperation::GetTask, json!({"id": id, "tenant": "bob"}), A2aErrorKind::InvalidParams),
        (A2aOperation::GetTask, json!({"id": 7}), A2aErrorKind::InvalidParams),
        (A2aOperation::GetExtendedAgentCard, json!({}), A2aErrorKind::UnsupportedOperation),
        (A2aOperation::ListTaskPushNotificationConfigs, json!({}), A2aErrorKind::PushNotificationNotSupported),
    ] {
        let error = silent.perform(operation, params.clone()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{operation:?} {params}: {error}");
    }
    // The task of another agent is none of this one.
    let foreign = silent.service.operations().perform("bob", A2aOperation::GetTask, json!({"id": id}), None).await;
    assert!(matches!(foreign, Err(error) if error.kind == A2aErrorKind::TaskNotFound));
}

#[tokio::test]
async fn only_so_many_tasks_are_listed_at_once() {
    let silent = SilentService::new(3).await;
    for id in ["a", "b", "c"] {
        silent.send(id).await.unwrap();
    }
    let list = async |params: Value| silent.perform(A2aOperation::ListTasks, params).await;
    let all = list(Value::Null).await.unwrap();
    assert_eq!((&all["totalSize"], &all["pageSize"], &all["nextPageToken"]), (&json!(3), &json!(50), &json!("")));
    assert!(all["tasks"][0].get("artifacts").is_none(), "they were not asked for: {all}");
    assert_eq!(limits::A2A_PAGE_TASKS_DEFAULT, 50);
    let first = list(json!({"pageSize": 2, "historyLength": 0})).await.unwrap();
    assert_eq!(first["tasks"].as_array().unwrap().len(), 2);
    assert!(first["tasks"][0].get("history").is_none(), "{first}");
    let rest = list(json!({"pageSize": 2, "pageToken": first["nextPageToken"]})).await.unwrap();
    let ids = |page: &Value| -> Vec<String> {
        page["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!([ids(&first), ids(&rest)].concat(), ids(&all), "each task is on one page");
    for (filter, count) in [
        (json!({"status": "TASK_STATE_WORKING"}), 3),
        (json!({"status": "TASK_STATE_COMPLETED"}), 0),
        (json!({"contextId": all["tasks"][0]["contextId"]}), 1),
        (json!({"statusTimestampAfter": "2100-01-01T00:00:00Z"}), 0),
        (json!({"statusTimestampAfter": "2000-01-01T00:00:00Z"}), 3),
    ] {
        assert_eq!(list(filter.clone()).await.unwrap()["totalSize"], count, "{filter}");
    }
    let long = format!("2026/{}", "x".repeat(2 * limits::A2A_ID_BYTES));
    for wrong in [
        json!({"pageSize": 0}),
        json!({"pageSize": limits::A2A_PAGE_TASKS + 1}),
        json!({"pageSize": -1}),
        json!({"pageToken": "x"}),
        json!({"pageToken": long}),
        json!({"statusTimestampAfter": "soon"}),
    ] {
        assert_eq!(list(wrong.clone()).await.unwrap_err().kind, A2aErrorKind::InvalidParams, "{wrong}");
    }
}

#[tokio::test]
async fn list_of_large_tasks_ends_early() {
    let silent = SilentService::new(3).await;
    let part = json!({"text": "x".repeat(limits::A2A_HISTORY_CHARS)});
    let large = message(json!({"messageId": "n", "parts": vec![part; limits::A2A_PARTS]}));
    let half = limits::A2A_PAGE_BYTES / 2 / (limits::A2A_HISTORY_CHARS * limits::A2A_PARTS) + 1;
    for id in ["a", "b", "c"] {
        let id = silent.send(id).await.unwrap()["id"].as_str().unwrap().to_owned();
        let task = silent.service.operations().table().task(&silent.host.host, "ada", &id).unwrap();
        (0..half).for_each(|_| task.remember(&large));
    }
    let (mut token, mut ids) = (json!(""), std::collections::BTreeSet::new());
    for _ in 0..3 {
        let page = silent.perform(A2aOperation::ListTasks, json!({"pageToken": token})).await.unwrap();
        let [task] = &page["tasks"].as_array().unwrap()[..] else { panic!("no page of one task") };
        assert_eq!((task["history"].as_array().unwrap().len(), &page["totalSize"]), (half + 1, &json!(3)));
        ids.insert(task["id"].as_str().unwrap().to_owned());
        token = page["nextPageToken"].clone();
    }
    assert_eq!((ids.len(), token), (3, json!("")), "each task is on one page");
    let bare = silent.perform(A2aOperation::ListTasks, json!({"historyLength": 0})).await.unwrap();
    assert_eq!(bare["tasks"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn old_rejected_tasks_and_long_texts_are_forgotten() {
    let silent = SilentService::new(1).await;
    let reject = async |id: usize| {
        // The address of an agent that the config does not have: its run cannot begin.
        let params = sent(&id.to_string());
        let sent = silent.service.operations().perform("bob", A2aOperation::SendMessage, params, None).await.unwrap();
        let OperationResult::Value(sent) = sent else { panic!("a stream") };
        assert_eq!(sent["task"]["status"]["state"], "TASK_STATE_REJECTED", "{sent}");
        assert!(sent["task"]["status"]["message"]["parts"][0]["text"].as_str().unwrap().contains("bob"), "{sent}");
        while silent.host.host.runs().iter().any(|run| run.state().has_ended()) {
            tokio::task::yield_now().await;
        }
    };
    for id in 0..limits::A2A_REJECTED_TASKS + 3 {
        reject(id).await;
    }
    let table = silent.service.operations().table();
    // The newest one came after the last look at the others.
    assert_eq!(table.tasks(&silent.host.host, "bob").len(), limits::A2A_REJECTED_TASKS);
    let id = silent.send("m").await.unwrap()["id"].clone();
    let mut late = sent("late");
    late["message"]["parts"] = json!([{"text": "é".repeat(limits::A2A_HISTORY_CHARS + 1)}, {"raw": "aGk="}]);
    late["message"]["parts"][1]["filename"] = "f".repeat(limits::A2A_ID_BYTES + 1).into();
    late["message"]["parts"][1]["metadata"] = json!({"a": 1});
    late["message"]["metadata"] = json!({"a": "x".repeat(limits::A2A_HISTORY_CHARS)});
    silent.perform(A2aOperation::CancelTask, json!({"id": id})).await.unwrap();
    silent.wait_for_room(1).await;
    let task = silent.perform(A2aOperation::SendMessage, late).await.unwrap();
    let parts = &task["task"]["history"][0]["parts"];
    assert_eq!(parts[0]["text"].as_str().unwrap().chars().count(), limits::A2A_HISTORY_CHARS + 1, "with a mark");
    assert_eq!(parts[1]["raw"], "", "the content of files is not kept");
    assert_eq!(parts[1]["filename"].as_str().unwrap().chars().count(), limits::A2A_ID_BYTES + 1, "with a mark");
    assert_eq!(parts[1]["metadata"], json!({"a": 1}));
    assert!(task["task"]["history"][0].get("metadata").is_none(), "they are long: {task}");
}

#[tokio::test]
async fn history_has_the_newest_messages() {
    let silent = SilentService::new(1).await;
    let id = silent.send("m").await.unwrap()["id"].as_str().unwrap().to_owned();
    let task = silent.service.operations().table().task(&silent.host.host, "ada", &id).unwrap();
    for n in 0..=limits::A2A_HISTORY_MESSAGES {
        task.remember(&message(json!({"messageId": n.to_string(), "parts": [{"text": "so"}]})));
    }
    let history = task.history(None);
    assert_eq!(history.len(), limits::A2A_HISTORY_MESSAGES);
    assert_eq!(history.last().unwrap().message_id, limits::A2A_HISTORY_MESSAGES.to_string());
    assert_eq!(task.history(Some(2)), history[history.len() - 2..]);
    assert!(task.history(Some(0)).is_empty());
}

#[test]
fn message_that_cannot_be_taken_is_refused() {
    let text = "x".repeat(limits::A2A_ID_BYTES + 1);
    for (wrong, says) in [
        (json!({"parts": [{"text": "hi"}]}), "no `messageId`"),
        (json!({"messageId": "m", "parts": []}), "no `parts`"),
        (json!({"messageId": text, "parts": [{"text": "hi"}]}), "`message.messageId`"),
        (json!({"messageId": "m", "contextId": text, "parts": [{"text": "hi"}]}), "`message.contextId`"),
        (json!({"messageId": "m", "taskId": "a\nb", "parts": [{"text": "hi"}]}), "`message.taskId`"),
        (json!({"messageId": "m", "parts": vec![json!({"text": "hi"}); limits::A2A_PARTS + 1]}), "129 parts"),
    ] {
        let error = check(&message(wrong)).unwrap_err();
        assert!(error.kind == A2aErrorKind::InvalidParams && error.message.contains(says), "{error}");
    }
    let long = "x".repeat(limits::TASK_BYTES + 1);
    for (parts, kind, says) in [
        (json!([{"text": " "}]), A2aErrorKind::InvalidParams, "no text"),
        (json!([{"raw": "aGk="}]), A2aErrorKind::InvalidParams, "no text"),
        (json!([{"text": long}]), A2aErrorKind::InvalidParams, "more than 1048576 bytes"),
        (json!([{"text": "hi"}, {"url": "http://x"}]), A2aErrorKind::ContentTypeNotSupported, "not fetched"),
        (json!([{"text": "hi"}, {"raw": "%"}]), A2aErrorKind::InvalidParams, "not base64"),
        (
            json!([{"text": "hi"}, {"raw": STANDARD.encode("x".repeat(limits::ATTACHED_TEXT_BYTES as usize + 1))}]),
            A2aErrorKind::InvalidParams,
            "larger than",
        ),
        (json!([{"text": "hi"}, {"raw": STANDARD.encode("a\0b")}]), A2aErrorKind::ContentTypeNotSupported, "neither"),
        (
            json!([vec![json!({"text": "hi"})], vec![json!({"raw": ""}); limits::TASK_ATTACHMENTS + 1]].concat()),
            A2aErrorKind::InvalidParams,
            "101 files",
        ),
    ] {
        let error = task_input(&message(json!({"parts": parts}))).unwrap_err();
        assert!(error.kind == kind && error.message.contains(says), "{error:?}");
    }
    let parts = json!([{"text": "Read it."}, {"data": {"a": 1}}, {"raw": "aGk=", "filename": "../a"}]);
    let read = message(json!({"parts": parts}));
    assert_eq!(words(&read).unwrap(), "Read it.\n\n{\"a\":1}");
    let input = task_input(&read).unwrap();
    let [AttachedFile::Text { name, text }] = &input.attachments[..] else { panic!("{input:?}") };
    assert_eq!((&**name, &**text), ("../a", "hi"));
}

#[test]
fn answer_goes_to_the_question_that_it_names() {
    let question = |id: u64| {
        let kind = QuestionKind::Open(OpenQuestion { text: id.to_string(), ..OpenQuestion::default() });
        let question = Question { kind, from: "ada".into(), run: "r".into(), changes: [].into() };
        let asked = SystemTime::now();
        HostedQuestion { id, question: Arc::new(question), asked, expires: asked }
    };
    let open = [question(3), question(4)];
    let answered = |metadata: Value| {
        let answer = message(json!({"messageId": "m", "parts": [{"text": "yes"}], "metadata": metadata}));
        answered_question(&answer, &open).map(|question| question.map(|question| question.id))
    };
    for (metadata, id) in [
        (json!({}), 3),
        (json!({"questionId": null}), 3),
        (json!({"questionId": 4}), 4),
        (json!({"questionId": 4.0}), 4),
    ] {
        assert_eq!(answered(metadata.clone()), Ok(Some(id)), "{metadata}");
    }
    for (metadata, says) in [
        (json!({"questionId": 5}), "question 5 of the task is not open"),
        (json!({"questionId": "4"}), "is no number"),
        (json!({"questionId": [4]}), "is no number"),
    ] {
        let error = answered(metadata).unwrap_err();
        assert!(error.kind == A2aErrorKind::InvalidParams && error.message.contains(says), "{error}");
    }
    assert!(answered_question(&message(json!({"messageId": "m"})), &[]).unwrap().is_none());
}

#[test]
fn only_agent_cards_are_public() {
    for (method, path, is_public) in [
        (Method::GET, "/.well-known/agent-card.json", true),
        (Method::GET, "/a2a/ada/.well-known/agent-card.json", true),
        (Method::POST, "/a2a/ada/.well-known/agent-card.json", false),
        (Method::GET, "/a2a/ada/tasks/.well-known/agent-card.json", false),
        (Method::GET, "/a2a//.well-known/agent-card.json", false),
        (Method::GET, "/a2a/.well-known/agent-card.json", false),
        (Method::GET, "/a2a/ada/tasks", false),
    ] {
        assert_eq!(A2aService::is_public(&method, path), is_public, "{method} {path}");
    }
}

#[tokio::test]
async fn card_describes_the_agent() {
    let silent = SilentHost::new(1).await;
    let card = AgentDirectory::new(&silent.host, "https://agents.example.com", true).entry_card();
    let card = json!(card);
    assert_eq!((&card["name"], &card["skills"][0]["id"]), (&json!("ada"), &json!("ada")));
    assert_eq!(
        card["supportedInterfaces"][0],
        json!({
            "url": "https://agents.example.com/a2a/ada",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
        })
    );
    assert_eq!(card["supportedInterfaces"][1]["protocolBinding"], "HTTP+JSON");
    assert_eq!(card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"], "Bearer");
    assert_eq!(card["securityRequirements"], json!([{"schemes": {"bearer": {"list": []}}}]));
    assert_eq!(
        (&card["capabilities"]["streaming"], &card["capabilities"]["pushNotifications"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(card["capabilities"]["extensions"][0]["uri"], BUDGET_EXTENSION);
    for needed in ["description", "version", "defaultInputModes", "defaultOutputModes"] {
        assert!(!card[needed].is_null(), "{needed}: {card}");
    }
    let open = json!(AgentDirectory::new(&silent.host, "http://localhost", false).agent_card("ada"));
    assert!(open.get("securitySchemes").is_none() && open.get("securityRequirements").is_none(), "{open}");
}

#[test]
fn only_cards_are_public() {
    let card = "/.well-known/agent-card.json";
    for (method, path, is_public) in [
        (Method::GET, card.to_owned(), true),
        (Method::GET, format!("/a2a/ada{card}"), true),
        (Method::POST, format!("/a2a/ada{card}"), false),
        (Method::GET, format!("/a2a{card}"), false),
        (Method::GET, format!("/a2a/ada/tasks{card}"), false),
        (Method::GET, format!("/a2a/ada/tasks/t/pushNotificationConfigs{card}"), false),
        (Method::GET, format!("/api{card}"), false),
    ] {
        assert_eq!(A2aService::is_public(&method, &path), is_public, "{method} {path}");
    }
}
