//! The subcommand `acp`: serves an editor over the Agent Client Protocol. `project_opening.rs` opens the projects of its
//! conversations, and `typed_commands.rs` has the commands that a person may type in them.

mod project_opening;
mod typed_commands;

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use project_opening::{ProjectOpening, check_names, sessions_in};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    ask,
    live::RunDisplay,
    render::{self, ProgressLevel, RunOutputFormat, tell_prose},
    run_id::run_id,
    runner_args::RunnerArgs,
    signals,
};
use crate::{
    acp::{AcpOptions, AcpServer},
    app::explain,
    error::{ErrorKind, Report},
    event::EventSink,
    limits,
};

/// Serve an editor: its agent panel talks with the agents of your projects.
///
/// The editor starts this command and speaks the Agent Client Protocol to it: Zed, the IDEs of JetBrains, Neovim and
/// others. Each conversation is a session, which `run`, `chat` and `session` know too. Questions of agents are asked in
/// the editor, unless --approve answers them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host acp
  shelly-host acp --agent reviewer
  shelly-host acp --allow-client-mcp github

docs/editors.md has the settings of editors.")]
pub struct AcpArgs {
    #[command(flatten)]
    runner: RunnerArgs,
    /// Do not record conversations in sessions.
    #[arg(long)]
    no_session: bool,
    /// The name of an MCP server of the editor's settings that agents may use, too; repeatable. Others are not started.
    #[arg(long, value_name = "NAME")]
    allow_client_mcp: Vec<String>,
}

/// The line for a person who starts the command by hand.
const WAITING: &str = "waiting for an editor, which starts this command itself and speaks JSON to it; end it with Ctrl-C. \
                       For a conversation in this terminal: shelly-host chat\n";

impl AcpArgs {
    /// Serves the editor. Returns the exit code.
    pub fn execute(self) -> u8 {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let failed = |report: &Report| render::failed(report, RunOutputFormat::Text);
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return failed(&Report::new(ErrorKind::Bug, "cannot start the async runtime").cause(error)),
        };
        let ended = runtime.block_on(self.run());
        // A blocked read of standard input and a running guest are not waited for.
        runtime.shutdown_background();
        ended.unwrap_or_else(|report| failed(&report))
    }

    async fn run(mut self) -> Result<u8, Report> {
        // One listener covers the whole command: a signal between two of them would be lost.
        let interrupt = signals::ended();
        tokio::pin!(interrupt);
        self.make_paths_absolute()?;
        // Otherwise a misspelt name would be told to the editor alone.
        check_names(&self.runner)?;
        if std::io::stdin().is_terminal() {
            tell_prose(WAITING);
        }
        // An editor may not read standard error, and is not waited for.
        let events = EventSink::new();
        let level = if self.runner.verbose { ProgressLevel::Verbose } else { ProgressLevel::Quiet };
        let display = RunDisplay::lines(RunOutputFormat::Text, level);
        let shown = tokio::spawn(ask::show(display, events.observe(), None));
        let server = AcpServer::new(self.options(events));
        let stop = CancellationToken::new();
        let mut serving = Box::pin(server.serve(tokio::io::stdin(), tokio::io::stdout(), stop.clone()));
        let ended = tokio::select! {
            biased;
            code = &mut interrupt => {
                stop.cancel();
                let _ = timeout(limits::CANCEL_GRACE, &mut serving).await;
                Ok(code)
            }
            served = &mut serving => served.map(|()| 0),
        };
        drop(serving);
        drop(server);
        let _ = timeout(limits::CANCEL_GRACE, shown).await;
        ended
    }

    /// Resolves paths below the current folder: editors have other folders open.
    fn make_paths_absolute(&mut self) -> Result<(), Report> {
        for path in self.runner.config.iter_mut().chain(&mut self.runner.plugins) {
            *path = std::path::absolute(&*path).map_err(|error| {
                let message = format!("cannot resolve the path {}", render::name(&path.display().to_string()));
                Report::new(ErrorKind::Usage, message).cause(error)
            })?;
        }
        Ok(())
    }

    fn options(&self, events: EventSink) -> AcpOptions {
        let opening = ProjectOpening::new(self.runner.clone(), !self.no_session);
        let (config, is_trusted) = (self.runner.config.clone(), self.runner.trust);
        AcpOptions {
            open: Arc::new(move |request| opening.open(request)),
            sessions: Arc::new(move |folder: &Path| sessions_in(folder, config.as_ref(), is_trusted)),
            agent: self.runner.agent.clone(),
            model: self.runner.model.clone(),
            record: !self.no_session,
            trusts_sessions: self.runner.trust,
            allowed_servers: self.allow_client_mcp.clone(),
            explain,
            run_id,
            folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            events,
        }
    }
}
