use std::ffi::OsString;

use clap::Args;

use super::{common_run_args::CommonRunArgs, run_invocation::RunInvocation};
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
  shelly-host run --output json \"List the files in docs/\" | jq -r .answer
  shelly-host run --session release \"What is left to do?\"

What it does is written down in a session below .shelly/local/sessions, so that it can go on after a crash or a Ctrl-C:
shelly-host session resume last. The exit code says how it went: see shelly-host --help.")]
pub struct RunArgs {
    #[command(flatten)]
    with: CommonRunArgs,
    /// The session that it goes on with, or that is made under this name. Without it a new one is made.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Begin with what was asked and answered in this other session.
    #[arg(long, value_name = "NAME", conflicts_with = "session")]
    after: Option<String>,
    /// Write nothing down: what is interrupted is lost.
    #[arg(long, conflicts_with_all = ["session", "after"])]
    no_session: bool,
    /// The task; `-` reads it from standard input.
    #[arg(value_name = "TASK")]
    task: OsString,
}

/// Go on with a session: finish what was interrupted, or do one more thing.
///
/// What was done is not done again. A tool call that was interrupted and cannot be made twice is answered with an error
/// that says so. With a task, a run that was interrupted is told of it before its next turn. You are asked about a session
/// that was not made here by you, because its calls of tools are made.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host session resume last
  shelly-host session resume 20261122 \"Now write the tests\"
  shelly-host session resume last --model large")]
pub struct SessionResumeArgs {
    /// The session: its name, how that begins, or `last`.
    #[arg(value_name = "SESSION")]
    id: String,
    #[command(flatten)]
    with: CommonRunArgs,
    /// Go on with a damaged session from where the damage begins; what follows is kept in a copy.
    #[arg(long)]
    up_to_damage: bool,
    /// The task; `-` reads it from standard input. Without it, the run that was interrupted or has failed continues.
    #[arg(value_name = "TASK")]
    task: Option<OsString>,
}

/// Returns the long help of `run`, with the environment variables that are searched for keys.
fn about() -> String {
    let (keys, local) = (key_variables_in_words("or"), local_servers_in_words());
    format!(
        "Give an agent a task and print its answer.\n\n\
         The answer goes to standard output, progress to standard error.\n\n\
         Without a config the agent has every plugin with tools that needs no grant: of the directories that --plugins names, \
         else of those that are installed or come with the host. The model is one that is found: a key in the environment \
         ({keys}), or a local server ({local}) on its usual port.\n\n\
         The plugin `offline-model` is not an LLM: it is a small deterministic stand-in that picks tools by the words of the \
         task. For a real model set a key, start a local server, or name one under `providers` in shelly.yaml."
    )
}

impl RunArgs {
    pub fn execute(self) -> u8 {
        let Self { with, session, after, no_session, task } = self;
        let place = match session {
            Some(name) => SessionTarget::Named(name),
            None if no_session => SessionTarget::Nowhere,
            None => SessionTarget::New { after },
        };
        RunInvocation { with, task: Some(task), place }.execute()
    }
}

impl SessionResumeArgs {
    pub fn execute(self) -> u8 {
        let Self { id, with, up_to_damage, task } = self;
        RunInvocation { with, task, place: SessionTarget::There { id, up_to_damage } }.execute()
    }
}

/// Gives an agent a task in a new session. Returns the exit code.
pub fn once(with: CommonRunArgs, task: OsString) -> u8 {
    RunInvocation { with, task: Some(task), place: SessionTarget::New { after: None } }.execute()
}
