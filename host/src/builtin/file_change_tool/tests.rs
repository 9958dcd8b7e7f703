use std::{
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use schemars::JsonSchema;
use serde::Deserialize;

use super::*;
use crate::{
    approval::{HeadlessPolicy, QuestionKind, TrustedSubjects},
    change::{ChangePath, FileChange, FileChangeAction},
    chat::ToolResultContent,
    event::{EventSink, EventStream, FileChangeKind},
    tool::{self, CallStartHook, ToolBox},
    trust::UserKey,
};

#[derive(Deserialize, JsonSchema)]
struct Args {
    path: String,
}

struct World {
    folder: tempfile::TempDir,
    tools: ToolBox,
    events: EventStream,
    cx: RunCx,
    /// The files whose complete content a person saw.
    seen: Arc<Mutex<Vec<PathBuf>>>,
}

/// Returns a tool that proposes to write a new file; its agent asks at this broker.
fn world(broker: &ApprovalBroker, asks: ChangeApprovalPolicy) -> World {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("root");
    fs::create_dir(&root).unwrap();
    let key = UserKey::new(Some(folder.path().join("key")));
    let seen = Arc::<Mutex<Vec<PathBuf>>>::default();
    let told = Arc::clone(&seen);
    let changes = ChangeApplier::new([], [], key).on_seen(move |files| told.lock().unwrap().extend_from_slice(files));
    let session = folder.path().join("session");
    fs::create_dir(&session).unwrap();
    changes.of_session(folder.path().join("common"), &session);
    let tool = tool::function("write", "Writes.", move |_, Args { path }: Args| {
        let place = ChangePath::new(&root, Path::new(&path), &path);
        async move {
            let change = FileChange { path: place?, expected: None, act: FileChangeAction::Write(b"new\n"[..].into()) };
            let said = ChangeProposalPart::Content(ToolResultContent::Text("as you wish:".into()));
            Ok(ToolOutput::Propose(vec![said, ChangeProposalPart::Change(change)]))
        }
    });
    let changing = FileChangeTool::new(Arc::new(tool), changes, broker.clone(), "ada", "d", asks).pure();
    let (events, stream) = EventSink::channel();
    let cx = RunCx::new("ada-1").with_events(events);
    World { folder, tools: ToolBox::new().with(changing), events: stream, cx, seen }
}

impl World {
    async fn call(&self, path: &str, begin: CallStartHook) -> (bool, String) {
        let cx = ToolCx { begin, ..ToolCx::new(self.cx.clone()) };
        let arguments = serde_json::json!({ "path": path }).to_string();
        let call = ToolCall { id: format!("call of {path}"), name: "write".into(), arguments, meta: vec![] };
        let result = self.tools.dispatch(&cx, &call).await.result;
        (result.is_error, result.text())
    }

    fn has(&self, path: &str) -> bool {
        self.folder.path().join("root").join(path).exists()
    }
}

#[tokio::test]
async fn file_change_approval_shows_the_diff() {
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let mut world = world(&broker, ChangeApprovalPolicy::All);
    let (is_error, text) = world.call("a", CallStartHook::default()).await;
    assert!(is_error && text.contains("no person can be asked: nothing was changed"), "{text}");
    let mut inbox = broker.attend().unwrap();
    for (path, verdict) in [("a", Verdict::No), ("b", Verdict::Yes), ("c", Verdict::Trust)] {
        let person = async {
            let asked = inbox.next().await.unwrap();
            let QuestionKind::Permission { subject, detail } = &asked.question.kind else { panic!("{asked:?}") };
            assert_eq!(subject.to_string(), "change files, as `write` of `host` proposes");
            assert_eq!(*detail, format!("create {path} (+1 -0)\n\n--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+new\n"));
            assert!(!world.has(path));
            let root = world.folder.path().canonicalize().unwrap().join("root");
            let text = format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+new\n");
            assert_eq!(*asked.question.changes, [FileDifference { path: root.join(path), text }]);
            inbox.decide(asked.id, verdict).unwrap();
        };
        let ((is_error, text), ()) = tokio::join!(world.call(path, CallStartHook::default()), person);
        assert_eq!((is_error, world.has(path)), (verdict == Verdict::No, verdict != Verdict::No), "{text}");
        match is_error {
            true => assert!(text.starts_with("the person declined the changes that `write` proposed"), "{text}"),
            false => assert_eq!(text, format!("as you wish:\ncreated {path} (+1 -0)")),
        }
    }
    // From now on the tool is trusted, except for changes with warnings.
    assert_eq!(world.call("d", CallStartHook::default()).await, (false, "as you wish:\ncreated d (+1 -0)".into()));
    let person = async {
        let asked = inbox.next().await.unwrap();
        let QuestionKind::Permission { detail, .. } = &asked.question.kind else { panic!("{asked:?}") };
        assert!(
            detail.starts_with(
                "careful: .git/config: read by version control, which may run programs that the file names\n"
            ),
            "{detail}"
        );
        inbox.decide(asked.id, Verdict::No).unwrap();
    };
    let ((is_error, _), ()) = tokio::join!(world.call(".git/config", CallStartHook::default()), person);
    assert!(is_error && !world.has(".git"));
    let mut told = Vec::new();
    world.cx = RunCx::new("nobody");
    while let Some(event) = world.events.next_event().await {
        if let Event::FileChange { agent, act, path, to, added, removed, by, difference, .. } = event {
            assert!(difference.unwrap().path.ends_with(&path));
            assert_eq!((&*agent, act, to, added, removed), ("ada-1", FileChangeKind::Create, None, Some(1), Some(0)));
            told.push((path, by));
        }
    }
    let by = |path: &str, by| (path.to_owned(), Some(by));
    assert_eq!(told, [by("b", AnsweredBy::Person), by("c", AnsweredBy::Person), by("d", AnsweredBy::Trust)]);
    let root = world.folder.path().canonicalize().unwrap().join("root");
    assert_eq!(*world.seen.lock().unwrap(), [root.join("b"), root.join("c")], "what a person was shown, and no other");
}

#[tokio::test]
async fn apply_policy_asks_only_about_sensitive_files() {
    for (policy, path, is_made) in [
        (HeadlessPolicy::Never, "a", true),
        (HeadlessPolicy::Never, ".envrc", false),
        (HeadlessPolicy::Granted, ".envrc", false),
        (HeadlessPolicy::All, ".envrc", true),
    ] {
        let broker = ApprovalBroker::new(policy, TrustedSubjects::default());
        let world = world(&broker, ChangeApprovalPolicy::Remarkable);
        let (is_error, text) = world.call(path, CallStartHook::default()).await;
        assert_eq!((is_error, world.has(path)), (!is_made, is_made), "{policy:?} {path}: {text}");
    }
}

#[tokio::test]
async fn repeated_file_change_call_applies_once() {
    let broker = ApprovalBroker::new(HeadlessPolicy::All, TrustedSubjects::default());
    let world = World { cx: RunCx::new("ada"), ..world(&broker, ChangeApprovalPolicy::All) };
    let made = (false, "as you wish:\ncreated a (+1 -0)".to_owned());
    assert_eq!(world.call("a", CallStartHook::default()).await, made);
    // An equal id is not enough: only an interrupted call is looked up.
    let (is_error, text) = world.call("a", CallStartHook::default()).await;
    assert!(is_error && text.contains("`a` already exists"), "{text}");
    fs::write(world.folder.path().join("root/a"), "edited since").unwrap();
    assert_eq!(world.call("a", CallStartHook::default().again(true)).await, made);
    assert_eq!(fs::read_to_string(world.folder.path().join("root/a")).unwrap(), "edited since");
    // A call that was interrupted before any change is simply made.
    assert!(!world.call("b", CallStartHook::default().again(true)).await.0 && world.has("b"));
}

#[tokio::test(start_paused = true)]
async fn hanging_file_change_tool_times_out_without_approval_time() {
    let broker = ApprovalBroker::new(HeadlessPolicy::All, TrustedSubjects::default());
    let hangs = tool::function("hang", "", |_, Args { .. }: Args| std::future::pending::<Result<&str, Fault>>());
    let hangs =
        FileChangeTool::new(Arc::new(hangs), ChangeApplier::default(), broker, "ada", "", ChangeApprovalPolicy::All);
    assert_eq!(Tool::time_limit(&hangs), limits::TOOL_TIME + limits::QUESTION_TIME + limits::CHANGE_TIME);
    let cx = ToolCx::new(RunCx::new("a"));
    let call = ToolCall { id: "c".into(), name: "hang".into(), arguments: r#"{"path":"a"}"#.into(), meta: vec![] };
    let result = ToolBox::new().with(hangs).dispatch(&cx, &call).await.result;
    assert!(result.is_error && result.text() == "the call took longer than 60 seconds", "{}", result.text());
}

#[tokio::test]
async fn proposal_without_an_applier_is_reported_to_the_model() {
    let bare = tool::function("write", "", |_, Args { path }: Args| async move {
        let place = ChangePath::new("/", Path::new(&path), &path)?;
        let change = FileChange { path: place, expected: None, act: FileChangeAction::MakeFolder };
        Ok(ToolOutput::Propose(vec![ChangeProposalPart::Change(change)]))
    });
    let cx = ToolCx::new(RunCx::new("a"));
    let call = ToolCall { id: "c".into(), name: "write".into(), arguments: r#"{"path":"a"}"#.into(), meta: vec![] };
    let result = ToolBox::new().with(bare).dispatch(&cx, &call).await.result;
    assert!(result.is_error && result.text().ends_with("no file was changed."), "{}", result.text());
}
