use std::ffi::OsString;

use clap::Args;

use super::{common_run_args::CommonRunArgs, run_invocation::RunInvocation, task_material_args::TaskMaterialArgs};
use crate::{
    app::{key_variables_in_words, local_servers_in_words},
    cli::session_target::SessionTarget,
};

/// Give an agent a task and print its answer.
#[derive(Args)]
#[command(long_about = about(), after_help = "\
Examples:
  shelly-host run \"What is a monad, in one sentence?\"
  shelly-host run --model offline-model \"How many words are in 'one two three'?\"
  git diff | shelly-host run --agent reviewer \"Review this change\"
  shelly-host run - < task.txt
  shelly-host run --attach report.pdf --schema summary.json \"Summarize the report\"
  shelly-host run --output json \"List the files in docs/\" | jq -r .answer
  shelly-host run --session release \"What is left to do?\"

The run is recorded in a session below .shelly/local/sessions. To continue it after a crash or
Ctrl-C: shelly-host session resume last. For the exit codes see shelly-host --help.")]
pub struct RunArgs {
    #[command(flatten)]
    with: CommonRunArgs,
    #[command(flatten)]
    material: TaskMaterialArgs,
    /// The session to continue; it is created if no session has this name (default: a new session).
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Start with a note of the tasks and answers of this other session.
    #[arg(long, value_name = "NAME", conflicts_with = "session")]
    after: Option<String>,
    /// Do not record the run; an interrupted run cannot be resumed.
    #[arg(long, conflicts_with_all = ["session", "after"])]
    no_session: bool,
    /// The task; `-` reads it from standard input.
    #[arg(value_name = "TASK")]
    task: OsString,
}

/// Resume a session: finish its interrupted run, or give it another task.
///
/// Completed steps are not repeated. A tool call that was interrupted and must not run twice gets an error result that says
/// so. A task is given to an interrupted run before its next turn. You are asked before a session is resumed that was not
/// made here by you, because its pending tool calls are executed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host session resume last
  shelly-host session resume 20261122 \"Now write the tests\"
  shelly-host session resume last --model large")]
pub struct SessionResumeArgs {
    /// The session: its name, the beginning of its name, or `last`.
    #[arg(value_name = "SESSION")]
    id: String,
    #[command(flatten)]
    with: CommonRunArgs,
    #[command(flatten)]
    material: TaskMaterialArgs,
    /// Resume a damaged session from the last intact line; the rest is kept in a copy.
    #[arg(long)]
    up_to_damage: bool,
    /// The task; `-` reads it from standard input. Without a task, the interrupted or failed run continues.
    #[arg(value_name = "TASK")]
    task: Option<OsString>,
}

/// Returns the long help of `run`, with the environment variables that are searched for keys.
fn about() -> String {
    let (keys, local) = (key_variables_in_words("or"), local_servers_in_words());
    format!(
        "Give an agent a task and print its answer.\n\n\
         The answer goes to standard output, progress to standard error.\n\n\
         Without a config, the agent reads and searches the files of the folder, and asks before it changes one, runs a \
         program, uses git or reads a page. It also has every tool plugin that needs no grant: those in the directories that \
         --plugins names, otherwise the installed ones. The model is discovered: from a key in the environment ({keys}), or a local \
         server ({local}) on its usual port.\n\n\
         The plugin `offline-model` is not an LLM but a small deterministic stand-in that chooses tools by the words of the \
         task. For a real model set a key, start a local server, or name a model under `providers` in the config."
    )
}

impl RunArgs {
    pub fn execute(self) -> u8 {
        let Self { with, material, session, after, no_session, task } = self;
        let place = match session {
            Some(name) => SessionTarget::Named(name),
            None if no_session => SessionTarget::Nowhere,
            None => SessionTarget::New { after },
        };
        RunInvocation { with, material, task: Some(task), place }.execute()
    }
}

impl SessionResumeArgs {
    pub fn execute(self) -> u8 {
        let Self { id, with, material, up_to_damage, task } = self;
        RunInvocation { with, material, task, place: SessionTarget::There { id, up_to_damage } }.execute()
    }
}

/// Gives an agent a task in a new session, or in none if the run is not recorded. Returns the exit code.
pub fn once(with: CommonRunArgs, task: OsString, is_recorded: bool) -> u8 {
    let material = TaskMaterialArgs::default();
    let place = if is_recorded { SessionTarget::New { after: None } } else { SessionTarget::Nowhere };
    RunInvocation { with, material, task: Some(task), place }.execute()
}
