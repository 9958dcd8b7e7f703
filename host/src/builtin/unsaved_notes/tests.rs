use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Mutex,
};

use schemars::JsonSchema;
use serde::Deserialize;

use super::*;
use crate::{
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    builtin::{ChangeApprovalPolicy, FileChangeTool},
    change::{EditorBuffers, EditorBuffersError, FileChange, FileChangeAction},
    chat::ToolHints,
    digest::Sha256Digest,
    event::RunCx,
    tool::{self, ChangeProposalPart, ToolBox},
    trust::UserKey,
};

#[derive(Deserialize, JsonSchema)]
struct Args {
    path: String,
}

/// The texts that an editor shows, by their paths. Writing one saves it.
#[derive(Default)]
struct FakeEditor {
    texts: Mutex<BTreeMap<PathBuf, String>>,
    /// The answer to each text that it is given, in place of taking it.
    refuses: Option<EditorBuffersError>,
    /// The answer to each question for a text, in place of one.
    fails: Mutex<Option<EditorBuffersError>>,
    /// The text that the person types after the first look at it.
    types: Mutex<Option<String>>,
    /// The file to which the path leads as soon as it is looked at.
    leads_to: Mutex<Option<PathBuf>>,
}

#[async_trait]
impl EditorBuffers for FakeEditor {
    async fn read_text(&self, path: &Path) -> Result<Option<String>, EditorBuffersError> {
        #[cfg(unix)]
        if let Some(target) = self.leads_to.lock().unwrap().take() {
            fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink(&target, path).unwrap();
            return Ok(fs::read_to_string(target).ok());
        }
        if let Some(error) = self.fails.lock().unwrap().clone() {
            return Err(error);
        }
        let mut texts = self.texts.lock().unwrap();
        let text = texts.get(path).cloned();
        if let Some(typed) = self.types.lock().unwrap().take() {
            texts.insert(path.to_owned(), typed);
        }
        Ok(text)
    }

    async fn write_text(&self, path: &Path, text: &str) -> Result<(), EditorBuffersError> {
        if let Some(error) = &self.refuses {
            return Err(error.clone());
        }
        self.texts.lock().unwrap().insert(path.to_owned(), text.to_owned());
        fs::write(path, text).unwrap();
        Ok(())
    }
}

/// A folder with one file, an editor, and tools that read files and propose a new text of this file.
struct World {
    folder: tempfile::TempDir,
    editor: Arc<FakeEditor>,
    tools: ToolBox,
}

const FILE: &str = "a.txt";

fn world(saved: &str, in_editor: &str, act: FileChangeAction, refuses: Option<EditorBuffersError>) -> World {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let path = root.join(FILE);
    fs::write(&path, saved).unwrap();
    let texts = Mutex::new(BTreeMap::from([(path.clone(), in_editor.to_owned())]));
    let editor = Arc::new(FakeEditor { texts, refuses, ..FakeEditor::default() });
    let shared = Arc::clone(&editor) as Arc<dyn EditorBuffers>;
    let changes = ChangeApplier::new([], [], UserKey::default()).with_editor(Some(shared));
    let named = root.clone();
    let resolve =
        Arc::new(move |path: &str| ChangePath::new(&named, Path::new(path), path).into_iter().collect::<Vec<_>>());
    let read = tool::function("read", "Reads.", move |_, Args { path }: Args| {
        let text = fs::read_to_string(root.join(&path)).map_err(|error| Fault::invalid(error.to_string()));
        async move { text }
    });
    let read = read.with_hints(ToolHints { read_only: true, ..ToolHints::default() });
    let add = tool::function("add", "Adds.", |_, Args { .. }: Args| async { Ok("added".to_owned()) });
    let (expected, place) = (Some(Sha256Digest::of(saved)), folder.path().canonicalize().unwrap());
    let write = tool::function("write", "Writes.", move |_, Args { path }: Args| {
        let (file, act) = (ChangePath::new(&place, Path::new(&path), &path), act.clone());
        async move { Ok(ToolOutput::Propose(vec![ChangeProposalPart::Change(FileChange { path: file?, expected, act })])) }
    });
    let broker = ApprovalBroker::new(HeadlessPolicy::All, TrustedSubjects::default());
    let asks = ChangeApprovalPolicy::All;
    let write = FileChangeTool::new(Arc::new(write), changes.clone(), broker, "ada", "d", asks);
    let add = UnsavedNotes::new(Arc::new(add), changes.clone(), resolve.clone());
    let tools = ToolBox::new().with(UnsavedNotes::new(Arc::new(read), changes, resolve)).with(add).with(write);
    World { folder, editor, tools }
}

impl World {
    async fn call(&self, tool: &str, path: &str) -> (bool, String) {
        let arguments = serde_json::json!({ "path": path }).to_string();
        let call = ToolCall { id: "c".into(), name: tool.into(), arguments, meta: vec![] };
        let result = self.tools.dispatch(&ToolCx::new(RunCx::new("ada")), &call).await.result;
        (result.is_error, result.text())
    }

    fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(FILE)
    }

    /// Returns the text on the disk, and that in the editor.
    fn texts(&self) -> (String, String) {
        let in_editor = self.editor.texts.lock().unwrap()[&self.path()].clone();
        (fs::read_to_string(self.path()).unwrap(), in_editor)
    }
}

fn text(text: &str) -> FileChangeAction {
    FileChangeAction::Write(text.as_bytes().into())
}

#[tokio::test]
async fn result_says_what_the_person_has_not_saved() {
    let world = world("one\ntwo\n", "one\nTWO\n", FileChangeAction::Remove, None);
    let (is_error, read) = world.call("read", FILE).await;
    assert!(!is_error && read.ends_with("one\ntwo\n"), "{read}");
    assert!(read.starts_with("The person has unsaved changes of `a.txt` in the editor"), "{read}");
    assert!(read.contains("-two\n+TWO\n"), "{read}");
    // A file that the editor does not have, and a text that differs only in the form of its lines.
    fs::write(world.path().with_file_name("b.txt"), "b\n").unwrap();
    assert_eq!(world.call("read", "b.txt").await, (false, "b\n".into()));
    world.editor.texts.lock().unwrap().insert(world.path(), "one\r\ntwo".into());
    assert_eq!(world.call("read", FILE).await, (false, "one\ntwo\n".into()));
}

#[tokio::test]
async fn text_that_the_editor_keeps_to_itself_is_a_failed_read() {
    let world = world("one\n", "two\n", text("three\n"), None);
    let refused = EditorBuffersError::Refused { reason: "busy".into() };
    for (error, why) in
        [(refused, "the editor refused: busy"), (EditorBuffersError::Silent, "has not answered within 5 seconds")]
    {
        *world.editor.fails.lock().unwrap() = Some(error);
        let (is_error, read) = world.call("read", FILE).await;
        assert!(is_error && read.contains(why) && !read.contains("one"), "{read}");
        // What a tool has done is said all the same.
        let (is_error, added) = world.call("add", FILE).await;
        assert!(!is_error && added.contains(why) && added.ends_with("added"), "{added}");
        let (is_error, written) = world.call("write", FILE).await;
        assert!(is_error && written.contains(why), "{written}");
        assert_eq!(world.texts(), ("one\n".into(), "two\n".into()));
    }
}

#[tokio::test]
async fn change_keeps_what_the_person_has_not_saved() {
    let saved = "1\n2\n3\n4\n5\n";
    let edited = "1\n2\n3\n4\nFIVE\n";
    for (in_editor, act, after) in [
        (saved, text("ONE\n2\n3\n4\n5\n"), "ONE\n2\n3\n4\n5\n"),
        (edited, text("ONE\n2\n3\n4\n5\n"), "ONE\n2\n3\n4\nFIVE\n"),
        (edited, text("ONE\n2\n3\n4\nFIVE\n"), "ONE\n2\n3\n4\nFIVE\n"),
    ] {
        let world = world(saved, in_editor, act, None);
        let (is_error, said) = world.call("write", FILE).await;
        assert_eq!((is_error, &*said), (false, "changed a.txt (+1 -1)"));
        assert_eq!(world.texts(), (after.into(), after.into()));
    }
}

#[tokio::test]
async fn unsaved_text_is_not_lost() {
    let (saved, edited, other) = ("1\n2\n3\n", "1\n2\nTHREE\n", "ONE\n2\n3\n");
    let cannot = Some(EditorBuffersError::CannotWrite);
    for (act, refuses, types, expected) in [
        (text("1\n2\n33\n"), None, None, "unsaved changes of the same lines"),
        (FileChangeAction::Remove, None, None, "has unsaved changes in the person's editor"),
        (text(other), cannot, None, "does not offer to write files"),
        (text(other), Some(EditorBuffersError::Silent), None, "has not answered within 5 seconds"),
        (text(other), None, Some("typed\n"), "has changed in the meantime"),
    ] {
        let world = world(saved, edited, act, refuses);
        *world.editor.types.lock().unwrap() = types.map(str::to_owned);
        let (is_error, said) = world.call("write", FILE).await;
        assert!(is_error && said.contains(expected), "{said}");
        assert_eq!(world.texts(), (saved.into(), types.unwrap_or(edited).into()), "{expected}");
    }
}

#[tokio::test]
async fn larger_text_of_an_editor_is_refused() {
    let huge = "x".repeat(limits::CHANGED_FILE_BYTES + 1);
    let world = world("1\n", &huge, text("2\n"), None);
    let (is_error, said) = world.call("write", FILE).await;
    assert!(is_error && said.contains("bytes in the editor"), "{said}");
    let (is_error, said) = world.call("read", FILE).await;
    assert!(is_error && said.contains("bytes in the editor"), "the disk's text is not that of the person: {said}");
    assert_eq!(fs::read_to_string(world.path()).unwrap(), "1\n");
}

#[cfg(unix)]
#[tokio::test]
async fn link_that_appears_shows_nothing_of_its_target() {
    let world = world("1\n", "1\n", text("2\n"), None);
    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(outside.path(), "secret\n").unwrap();
    *world.editor.leads_to.lock().unwrap() = Some(outside.path().to_owned());
    assert_eq!(world.call("read", FILE).await, (false, "1\n".into()));
    assert!(world.path().is_symlink());
    let (is_error, said) = world.call("write", FILE).await;
    assert!(is_error && said.contains("outside the folders"), "{said}");
}
