use tokio::task::{JoinError, JoinHandle};

use super::{
    fetched_prompt::FetchedPrompt,
    message_run::{MessageProgress, MessageRun},
    plugin_adoption::PluginAdoption,
    runner_facts::RunnerFacts,
    session_watch::{SessionWatch, WatchProgress},
    shell_command::{ShellCommand, ShellOutput},
};
use crate::error::{ErrorKind, Report};

/// The step that runs while the person waits.
pub enum RunningStep {
    None,
    Message {
        run: MessageRun,
        typed: String,
        /// The tokens of the conversation that the answer takes the place of; `None` if it stays.
        compacted_tokens: Option<u64>,
    },
    Shell {
        command: ShellCommand,
        is_shared: bool,
        typed: String,
    },
    /// Another program works in the session of the chat.
    Watch {
        watch: SessionWatch,
        /// The message that the person wanted to send; empty without one.
        typed: String,
    },
    /// A server is asked for the text of a prompt, which then is the message.
    Prompt {
        task: JoinHandle<Result<FetchedPrompt, Report>>,
        typed: String,
    },
    /// A text for the person is put together.
    Text {
        task: JoinHandle<Result<String, Report>>,
        /// The command that wants it.
        typed: &'static str,
    },
    /// Another agent or model is looked at.
    Selection {
        task: JoinHandle<Result<RunnerFacts, Report>>,
        agent: Option<String>,
        model: Option<String>,
    },
    /// Plugins that were built again are tried.
    Adoption {
        task: JoinHandle<PluginAdoption>,
    },
}

/// The next thing that a step reports.
pub enum StepProgress {
    Message(MessageProgress),
    Shell(ShellOutput),
    Watch(WatchProgress),
    Prompt(Result<FetchedPrompt, Report>),
    Text(Result<String, Report>),
    Selection(Result<RunnerFacts, Report>),
    Adoption(Result<PluginAdoption, Report>),
}

impl RunningStep {
    /// Waits for the next progress; never ready if nothing runs. Cancel safe.
    pub async fn next(&mut self) -> StepProgress {
        match self {
            Self::None => std::future::pending().await,
            Self::Message { run, .. } => StepProgress::Message(run.progress().await),
            Self::Shell { command, .. } => StepProgress::Shell(command.end().await),
            Self::Watch { watch, .. } => StepProgress::Watch(watch.next().await),
            Self::Prompt { task, .. } => StepProgress::Prompt(task.await.unwrap_or_else(|error| Err(why_none(&error)))),
            Self::Text { task, .. } => StepProgress::Text(task.await.unwrap_or_else(|error| Err(why_none(&error)))),
            Self::Selection { task, .. } => {
                StepProgress::Selection(task.await.unwrap_or_else(|error| Err(why_none(&error))))
            }
            Self::Adoption { task } => StepProgress::Adoption(task.await.map_err(|error| why_none(&error))),
        }
    }
}

/// Returns the reason why a task has no result.
fn why_none(error: &JoinError) -> Report {
    match error.is_cancelled() {
        true => Report::new(ErrorKind::Usage, "nothing was done").cause("you interrupted it"),
        false => Report::new(ErrorKind::Bug, "this is a bug in shelly-host").cause(error),
    }
}
