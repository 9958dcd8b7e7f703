use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use tokio::pin;

use super::{
    chat_input::ChatInput,
    chat_loop::ChatLoop,
    chat_screen::ChatScreen,
    chat_session::ChatSession,
    chat_state::ChatState,
    chat_theme::ChatTheme,
    input_history::InputHistory,
    no_model::no_model,
    plugin_development::DevelopedProject,
    raw_terminal::{RawTerminal, SilentTerminal},
    runner_facts::{RunnerFacts, facts_of},
};
use crate::{
    app::{App, NO_MODEL, Recording},
    cli::{
        ask::{self, QuestionDialog},
        compile_progress::{tell_above_progress, with_compile_progress},
        config_path::read_runner_config,
        host_environment::compiling,
        live::{chosen_theme, terminal_size},
        render::{self, DIM, PLAIN, RunOutputFormat, name, path_name, tell, warn},
        runner_args::RunnerArgs,
        secrets,
        session_target::SessionTarget,
        signals, trust,
    },
    error::{ErrorKind, Report},
    limits,
    plugin::PluginEngine,
};

/// Talk with an agent at the terminal.
///
/// Each message is one run in the same session, which `run` and `session` know too: a chat that was killed continues with
/// --continue. Type /help in the chat for its keys and commands.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host chat
  shelly-host chat --agent reviewer
  shelly-host chat --continue
  shelly-host chat --model offline-model
  shelly-host chat --dev dice

`shelly-host` alone, at a terminal, does the same as `shelly-host chat`.")]
pub struct ChatArgs {
    #[command(flatten)]
    runner: RunnerArgs,
    /// Continue the newest session.
    #[arg(long = "continue")]
    goes_on: bool,
    /// Continue this session: its name, or the beginning of its name.
    #[arg(long, value_name = "SESSION", conflicts_with = "goes_on")]
    resume: Option<String>,
    /// The folder of a plugin's project, which is built now and after each change: the next message uses the new plugin; repeatable.
    /// Builds run the toolchain and the code of the project: name only what you trust.
    #[arg(long = "dev", value_name = "DIR")]
    projects: Vec<PathBuf>,
}

/// Opens a chat for `shelly-host` without arguments; `None` without a terminal. Returns the exit code.
pub fn open_without_arguments() -> Option<u8> {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let args = || ChatArgs { runner: RunnerArgs::default(), goes_on: false, resume: None, projects: Vec::new() };
    is_terminal.then(|| args().execute())
}

impl ChatArgs {
    /// Runs the chat. Returns the exit code.
    pub fn execute(mut self) -> u8 {
        self.run().unwrap_or_else(|report| render::failed(&report, RunOutputFormat::Text))
    }

    /// Returns the session to continue.
    fn continued(&self) -> Option<String> {
        self.resume.clone().or_else(|| self.goes_on.then(|| "last".into()))
    }

    fn run(&mut self) -> Result<u8, Report> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(Report::new(ErrorKind::Usage, "a chat needs a terminal for its input and its output")
                .hint("without a terminal, give one task: shelly-host run \"…\""));
        }
        if let Some(id) = self.continued() {
            self.runner.recall(&id, false)?;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Report::new(ErrorKind::Bug, "cannot start the async runtime").cause(error))?;
        let code = runtime.block_on(self.talk());
        // A guest in a computation yields within a tick; nothing else is waited for.
        runtime.shutdown_background();
        code
    }

    /// Prepares the chat, and runs it until the person leaves.
    async fn talk(&mut self) -> Result<u8, Report> {
        // One listener covers the whole command: a signal between two of them would be lost.
        let interrupt = signals::ended();
        pin!(interrupt);
        let prepared = tokio::select! {
            biased;
            code = &mut interrupt => signals::exit(code),
            prepared = self.prepare() => prepared,
        };
        let prepared = match prepared? {
            ChatPreparation::Ready(chat) => *chat,
            ChatPreparation::NoModel(text) => {
                tell(&text);
                return Ok(ErrorKind::Usage.exit_code());
            }
        };
        let PreparedChat { theme, dialog, session, app, facts, projects } = prepared;
        let exporting = Arc::clone(&app);
        let history = InputHistory::read(trust::kept("chat-history.jsonl"));
        let screen = ChatScreen::new(io::stdout(), Arc::new(terminal_size), theme.theme(), theme.rewraps_lines());
        let state = ChatState::new(ChatInput::new(history));
        let mut chat = ChatLoop::new(app, self.runner.clone(), session, facts, (screen, state, theme), dialog);
        if !projects.is_empty() {
            chat.develop(projects);
        }
        chat.greet();
        let raw = RawTerminal::enter();
        let raw =
            raw.map_err(|error| Report::new(ErrorKind::Usage, "cannot read keys of this terminal").cause(error))?;
        let (code, session) = chat.run(RawTerminal::keys(), interrupt).await;
        drop(raw);
        if let Some(session) = session {
            let session = name(&session);
            tell(&format!("{DIM}session {session}; continue it with: shelly-host chat --resume {session}{PLAIN}\n"));
        }
        if let Some(warning) = exporting.telemetry_flush().finish().await {
            warn(&warning);
        }
        Ok(code)
    }

    /// Reads the config and the session, asks for consent, and looks at the agent and its model.
    async fn prepare(&mut self) -> Result<ChatPreparation, Report> {
        let config = read_runner_config(self.runner.config.as_ref())?;
        let Some(theme) = ChatTheme::of_terminal(chosen_theme(&config)?) else {
            return Err(Report::new(
                ErrorKind::Usage,
                "this terminal cannot be redrawn in place (TERM is `dumb` or not set)",
            )
            .hint("give one task: shelly-host run \"…\""));
        };
        let (broker, inbox) = ask::broker(self.runner.approve, true);
        let (mut recording, agent) = match self.continued() {
            Some(id) => {
                let target = SessionTarget::There { id, up_to_damage: false };
                let is_trusted = self.runner.config.is_some() || self.runner.trust;
                target.recording(&config, (&self.runner.named(), is_trusted), None)?
            }
            None => (Recording::Off, None),
        };
        let projects = self.build_projects().await?;
        let app = self.runner.app(config, broker.clone())?;
        let mut app = app.with_built_projects(projects.iter().map(|project| project.folder.clone()));
        let standing = app.standing(&trust::store(), self.runner.config.is_some())?;
        let trusted = trust::admitted(&standing, self.runner.trust, ask::is_attended()).await?;
        trust::admit_session(&app.sessions(), &mut recording, self.runner.trust, ask::is_attended()).await?;
        broker.trust(trusted);
        for project in &projects {
            app = app.with_rebuilt(&project.output).await?;
            self.warn_without_user(&app, &project.id);
        }
        let session = match &recording {
            Recording::Existing { id, is_trusted, .. } => ChatSession::existing(&app.sessions(), id, *is_trusted)?.0,
            Recording::Off | Recording::New { .. } => ChatSession::new(),
        };
        self.runner.agent = self.runner.agent.take().or(agent);
        let looked_at = facts_of(&app, self.runner.agent.as_deref(), self.runner.model.as_deref());
        let silent = SilentTerminal::enter();
        let looked_at = told_if_slow(looked_at).await;
        drop(silent);
        let facts = match looked_at {
            Ok(facts) => facts,
            Err(report) => {
                let may_lack_model = report.message == NO_MODEL;
                let text = if may_lack_model { no_model(&app).await } else { None };
                return text.map(ChatPreparation::NoModel).ok_or(report);
            }
        };
        facts.notes.iter().for_each(|note| tell(&format!("{DIM}{}{PLAIN}\n", name(note))));
        facts.warnings.iter().for_each(|what| warn(what));
        secrets::hide(app.secrets());
        let dialog = inbox.map(QuestionDialog::new);
        Ok(ChatPreparation::Ready(Box::new(PreparedChat {
            theme,
            dialog,
            session,
            app: Arc::new(app),
            facts,
            projects,
        })))
    }

    /// Builds the projects of plugins, and names the folders that they are built into.
    async fn build_projects(&mut self) -> Result<Vec<DevelopedProject>, Report> {
        let mut projects: Vec<DevelopedProject> = Vec::new();
        if self.projects.is_empty() {
            return Ok(projects);
        }
        let engine = Arc::new(PluginEngine::new(compiling())?);
        for folder in &self.projects {
            let project = DevelopedProject::build(folder, &engine).await?;
            let same_id = projects.iter().find(|other| other.id == project.id);
            if let Some(other) = same_id {
                let message = format!("--dev names two projects of the plugin `{}`", project.id);
                let folders = [&other.folder, &project.folder].map(|folder| path_name(folder));
                return Err(Report::new(ErrorKind::Usage, message)
                    .cause(folders.join(" and "))
                    .hint("name one of them, or give the plugins different ids"));
            }
            let directory = project.output.parent().map(Path::to_owned).unwrap_or_default();
            if !self.runner.plugins.contains(&directory) {
                self.runner.plugins.push(directory);
            }
            projects.push(project);
        }
        Ok(projects)
    }

    /// Warns if nobody in the chat has a plugin that is built for it.
    fn warn_without_user(&self, app: &App, id: &str) {
        if !app.has_user_of(id) && self.runner.model.as_deref() != Some(id) {
            warn(&format!(
                "no agent has the plugin `{id}`; give it to one in the config: agents: [{{name: …, plugins: {{{id}: {{}}}}}}]"
            ));
        }
    }
}

/// Waits for the agent, and tells the person if that takes long.
async fn told_if_slow<T>(work: impl Future<Output = T>) -> T {
    let work = with_compile_progress(work);
    pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = tokio::time::sleep(limits::CHAT_PREPARING) => {}
    }
    tell_above_progress(&format!("{DIM}preparing the agent; its plugins are compiled once{PLAIN}\n"));
    work.await
}

/// The result of preparing a chat.
enum ChatPreparation {
    Ready(Box<PreparedChat>),
    /// There is no model to use; the text says how to get one.
    NoModel(String),
}

/// Everything that a chat needs.
struct PreparedChat {
    theme: ChatTheme,
    dialog: Option<QuestionDialog>,
    session: ChatSession,
    app: Arc<App>,
    facts: RunnerFacts,
    /// The projects whose plugins are built again.
    projects: Vec<DevelopedProject>,
}
