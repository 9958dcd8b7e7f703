use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::{
    acp::{calls_in_progress::CallInProgress, rpc::IncomingMessage},
    approval::{ApprovalBroker, HeadlessPolicy, PermissionDecision, TrustedSubjects},
    event::RunCx,
};

/// A broker whose questions go to an editor, and the editor's end of the connection.
struct AskedEditor {
    broker: ApprovalBroker,
    in_progress: CallsInProgress,
    connection: EditorConnection,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    _write: WriteHalf<DuplexStream>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl AskedEditor {
    fn new(has_forms: bool) -> Self {
        let (peer, write) = tokio::io::duplex(1 << 20);
        let (connection, writer) = EditorConnection::new(write);
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let in_progress = CallsInProgress::default();
        in_progress.note_question(u64::MAX);
        let questions = EditorQuestions {
            connection: connection.clone(),
            session: "s".into(),
            in_progress: in_progress.clone(),
            secrets: Box::new(|| Secrets::new([("KEY", "sk-12345")])),
            has_forms,
        };
        let asking = AbortOnDropHandle::new(tokio::spawn(questions.attend(broker.attend().unwrap())));
        let (read, write) = tokio::io::split(peer);
        let lines = BufReader::new(read).lines();
        Self { broker, in_progress, connection, lines, _write: write, _tasks: [writer, asking] }
    }

    async fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }

    /// Answers the next message of the host, which is a request. Returns it.
    async fn answer(&mut self, result: Value) -> Value {
        let asked = self.next().await;
        let line = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string();
        let IncomingMessage::Response { id, outcome } = IncomingMessage::parse(line.as_bytes()).unwrap() else {
            panic!("{line}")
        };
        self.connection.take_answer(&id, outcome);
        asked
    }
}

fn cx() -> RunCx {
    RunCx::new("ada").with_run("r")
}

fn tool(name: &str) -> PermissionSubject {
    let name = name.into();
    PermissionSubject::Tool { agent: "ada".into(), origin: "p".into(), name, digest: "d".into() }
}

fn change(always_asked: bool) -> PermissionSubject {
    let (agent, origin, name) = ("ada".into(), "p".into(), "write".into());
    PermissionSubject::Change { agent, origin, name, digest: "d".into(), content: "c".into(), always_asked }
}

fn selected(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

#[tokio::test]
async fn options_of_a_permission_become_verdicts() {
    for (subject, answer, verdict) in [
        (tool("t"), selected("allow_once"), Verdict::Yes),
        (tool("t"), selected("allow_always"), Verdict::Trust),
        (tool("t"), selected("reject_once"), Verdict::No),
        (tool("t"), selected("choice-0"), Verdict::No),
        (tool("t"), json!({"outcome": {"outcome": "cancelled"}}), Verdict::No),
        (tool("t"), json!({"outcome": "selected", "optionId": "allow_once"}), Verdict::No),
        (tool("t"), json!(null), Verdict::No),
        (change(false), selected("allow_always"), Verdict::Trust),
        (change(true), selected("allow_always"), Verdict::No),
    ] {
        let mut editor = AskedEditor::new(false);
        let broker = editor.broker.clone();
        let cx = cx();
        let (decided, asked) = tokio::join!(broker.permit(&cx, subject.clone(), "sk-12345"), editor.answer(answer));
        let PermissionDecision { verdict: decided, .. } = decided.unwrap();
        assert_eq!(decided, verdict, "{asked}");
        assert_eq!(asked["method"], "session/request_permission");
        let kinds: Vec<_> =
            asked["params"]["options"].as_array().unwrap().iter().map(|option| &option["kind"]).collect();
        let all = ["allow_once", "allow_always", "reject_once"];
        let expected = if is_asked_each_time(&subject) { vec![all[0], all[2]] } else { all.to_vec() };
        assert_eq!(kinds, expected);
        assert!(!asked.to_string().contains("sk-12345"), "{asked}");
        let ended = editor.next().await;
        let status = if verdict == Verdict::No { "failed" } else { "completed" };
        assert_eq!(ended["params"]["update"]["status"], status, "{ended}");
    }
}

#[tokio::test]
async fn question_about_a_change_is_about_its_call() {
    let mut editor = AskedEditor::new(false);
    let call = CallInProgress { id: "ada/7".into(), agent: "ada".into(), tool: "write".into() };
    editor.in_progress.begin(call);
    let text = "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+sk-12345\n".to_owned();
    let changes: Arc<[FileDifference]> = [FileDifference { path: "/p/a".into(), text: text.clone() }].into();
    let detail = format!("careful: a: a program\nedit a (+1 -1)\n\n{text}");
    let (broker, cx) = (editor.broker.clone(), cx());
    let (decided, asked) = tokio::join!(
        broker.permit_changes(&cx, change(true), &detail, &changes),
        editor.answer(selected("allow_once"))
    );
    assert_eq!(decided.unwrap().verdict, Verdict::Yes);
    let call = &asked["params"]["toolCall"];
    assert_eq!(call["toolCallId"], "ada/7");
    assert_eq!(
        call["content"][1],
        json!({"type": "diff", "path": "/p/a", "oldText": "x\n", "newText": "[secret KEY]\n"})
    );
    assert_eq!(call["content"][2]["content"]["text"], "careful: a: a program\nedit a (+1 -1)");
    assert_eq!(call["locations"], json!([{"path": "/p/a", "line": 1}]));
}

#[tokio::test]
async fn withdrawn_question_is_withdrawn_in_the_editor() {
    let mut editor = AskedEditor::new(false);
    let (broker, cx) = (editor.broker.clone(), cx());
    let asked = tokio::select! {
        _ = broker.permit(&cx, tool("t"), "") => panic!("nobody has answered"),
        asked = editor.next() => asked,
    };
    let withdrawn = editor.next().await;
    assert_eq!(withdrawn["method"], "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
}

fn open(labels: &[&str], multi_select: bool) -> OpenQuestion {
    let option = |label: &&str| QuestionOption { label: (*label).into(), description: "so".into() };
    let options = labels.iter().map(option).collect();
    OpenQuestion { text: "which?".into(), options, multi_select, ..OpenQuestion::default() }
}

fn chosen(labels: &[&str]) -> Option<OpenQuestionAnswer> {
    Some(OpenQuestionAnswer::Chosen(labels.iter().map(|label| (*label).to_owned()).collect()))
}

#[tokio::test]
async fn open_questions_are_forms_or_choices() {
    let form = |answer: Value| json!({"action": "accept", "content": {ANSWER: answer}});
    let words = |text: &str| Some(OpenQuestionAnswer::Text(text.into()));
    for (has_forms, question, result, answer) in [
        (true, open(&[], false), form(json!("blue")), words("blue")),
        (true, open(&["a", "b"], false), form(json!("b")), chosen(&["b"])),
        (true, open(&["a", "b"], false), form(json!("neither")), words("neither")),
        (true, open(&["a", "b"], true), form(json!(["b", "a"])), chosen(&["a", "b"])),
        (true, open(&["a", "b"], true), form(json!(["x"])), None),
        (true, open(&[], false), form(json!("")), None),
        (true, open(&[], false), json!({"action": "decline"}), None),
        (false, open(&["a", "b"], false), selected("choice-1"), chosen(&["b"])),
        (false, open(&["a", "b"], false), selected("choice-9"), None),
        (false, open(&["a", "b"], false), selected("reject_once"), None),
    ] {
        let mut editor = AskedEditor::new(has_forms);
        let (broker, cx) = (editor.broker.clone(), cx());
        let (answered, asked) = tokio::join!(broker.ask(&cx, question), editor.answer(result));
        assert_eq!(answered.ok().flatten(), answer, "{asked}");
        let method = if has_forms { "elicitation/create" } else { "session/request_permission" };
        assert_eq!(asked["method"], method);
    }
}

#[tokio::test]
async fn question_that_the_editor_cannot_ask_is_shown() {
    for question in [open(&[], false), open(&["a", "b"], true)] {
        let mut editor = AskedEditor::new(false);
        let (broker, cx) = (editor.broker.clone(), cx());
        let (answered, shown) = tokio::join!(broker.ask(&cx, question), editor.next());
        assert!(answered.unwrap_err().to_string().contains("declined"), "{shown}");
        let text = shown["params"]["update"]["content"]["text"].as_str().unwrap();
        assert!(text.contains("The agent `ada` asks: which?") && text.contains("your next message"), "{text}");
    }
}
