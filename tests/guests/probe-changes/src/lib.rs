//! A guest for tests: proposes whatever it is told to.

use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::{
    Call, Error, Reply, Tool,
    types::{Content, FileAct, FileChange},
};

shelly_plugin::export!(tools: [Propose]);

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
