//! A guest for tests: proposes whatever it is told to, and lacks whatever it is told to.

use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::{
    Call, Error, Reply, Tool, fs,
    types::{Content, FileAct, FileChange, Opaque},
};

shelly_plugin::export!(tools: [Propose, Lack]);

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// What is said beside the changes.
    #[serde(default)]
    says: Option<String>,
    changes: Vec<Change>,
}

#[derive(Deserialize, JsonSchema)]
struct Change {
    path: String,
    expected: Option<String>,
    /// Bytes of the file: its text, so often.
    write: Option<String>,
    #[serde(default)]
    times: usize,
    move_to: Option<String>,
    copy_to: Option<String>,
    #[serde(default)]
    make_folder: bool,
}

struct Propose;

impl Tool for Propose {
    const NAME: &'static str = "propose";
    const DESCRIPTION: &'static str = "Proposes changes of files.";
    type Args = Args;

    fn call(args: Args, _: &Call) -> Result<Reply, Error> {
        let change = |change: Change| {
            let act = match change {
                Change { write: Some(text), times, .. } => FileAct::Write(text.repeat(times.max(1)).into_bytes()),
                Change { move_to: Some(to), .. } => FileAct::MoveTo(to),
                Change { copy_to: Some(to), .. } => FileAct::CopyTo(to),
                Change { make_folder: true, .. } => FileAct::MakeFolder,
                _ => FileAct::Remove,
            };
            Content::Change(FileChange { path: change.path, expected: change.expected, act })
        };
        let said = args.says.map(Content::Text).into_iter();
        Ok(Reply(said.chain(args.changes.into_iter().map(change)).collect()))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Lacking {
    /// Folders that it must have, one after the other.
    #[serde(default)]
    folders: Vec<String>,
    /// In so many bytes it says what it lacks.
    bytes: Option<usize>,
    /// As it says what it lacks.
    says: Option<String>,
    /// What it says beside that.
    beside: Option<String>,
}

struct Lack;

impl Tool for Lack {
    const NAME: &'static str = "lack";
    const DESCRIPTION: &'static str = "Lacks what it is told to.";
    type Args = Lacking;

    fn call(args: Lacking, _: &Call) -> Result<Reply, Error> {
        if let Some(folder) = args.folders.iter().find(|folder| fs::metadata(folder).is_err()) {
            return Ok(Reply::needs_folder(folder));
        }
        let folder = |bytes: usize| format!("{{\"folder\":\"/{}\"}}", "x".repeat(bytes - r#"{"folder":"/"}"#.len()));
        let Some(json) = args.says.or(args.bytes.map(folder)) else {
            return Ok(Reply::from(format!("{} folders are there", args.folders.len())));
        };
        let beside = args.beside.map(Content::Text).into_iter();
        Ok(Reply(beside.chain([Content::Other(Opaque { kind: "shelly.needs".into(), json })]).collect()))
    }
}
