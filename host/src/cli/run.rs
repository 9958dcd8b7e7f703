use std::{ffi::OsString, path::PathBuf, pin::pin, sync::Arc, time::Instant};

use clap::Args;

use super::{
    ask::{self, ApprovalModeArg},
    input::{self, StdinMode},
    launch::{self, LaunchFlags},
    render::{self, ProgressDisplay, RunOutputFormat, RunResult, name},
    secrets,
    session_target::{CompletedSession, PendingWork, SessionTarget, resume_arguments},
    signals, trust,
};
use crate::{
    agent::{RunAnswer, RunError, WindowExceeded},
    app::{App, PreparedRun, RunSession, key_variables_in_words, local_servers_in_words},
    error::{ErrorKind, Fault, Report, without_number},
    event::{EventSink, RunCx},
    limits,
    model::Ledger,
    net,
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

/// The options with which an agent runs.
#[derive(Args)]
pub struct CommonRunArgs {
    /// The config; without it .shelly/config.yaml or shelly.yaml, if there is one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders; may be given several times.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// The agent or team; without it the session's, or the entry agent of the config.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The model, by its name in the config, or the id of a provider plugin that needs no grant; without a config also a
    /// vendor's name.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The format of standard output.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = RunOutputFormat::Text)]
    output: RunOutputFormat,
    /// Answers requests for consent and questions of agents in this way, without asking you. Without it you are asked if there
    /// is a terminal and the task does not come from standard input; else it is `never`.
    #[arg(long, value_name = "WHEN", value_enum)]
    approve: Option<ApprovalModeArg>,
    /// Act on what the config and the permissions that were found in the project name, for this run, though you have not
    /// said yes to it; see shelly-host config trust. What you name with --config and --plugins needs none of it. Also go on
    /// with a session that was not made here by you, and take the tools of MCP servers as they are now.
    #[arg(long)]
    trust: bool,
    /// When standard input goes to the model with the task, marked as input. A task of `-` is read from it in any case.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = StdinMode::Auto)]
    stdin: StdinMode,
    /// Also show what plugins log and what each call of a plugin costs.
    #[arg(long, short)]
    verbose: bool,
}

impl CommonRunArgs {
    /// Returns the options that a session stores.
    fn named(&self) -> LaunchFlags {
        LaunchFlags { config: self.config.clone(), plugins: self.plugins.clone(), model: self.model.clone() }
    }

    pub fn config(&self) -> Option<&PathBuf> {
        self.config.as_ref()
    }

    pub fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    pub fn output(&self) -> RunOutputFormat {
        self.output
    }

    /// Selects the agent.
    pub fn for_agent(self, agent: String) -> Self {
        Self { agent: Some(agent), ..self }
    }
}

/// Gives an agent a task in a new session. Returns the exit code.
pub fn once(with: CommonRunArgs, task: OsString) -> u8 {
    RunInvocation { with, task: Some(task), place: SessionTarget::New { after: None } }.execute()
}

/// A task, its options, and the session in which it is recorded.
struct RunInvocation {
    with: CommonRunArgs,
    task: Option<OsString>,
    place: SessionTarget,
}

/// The end of an invocation that got as far as preparing its run.
struct FinishedInvocation {
    outcome: InvocationOutcome,
    /// The usage of each agent.
    agents: Ledger,
    /// The name of the session.
    session: Option<String>,
}

enum InvocationOutcome {
    /// An answer of this agent on this model.
    Answered {
        agent: String,
        model: String,
        answer: Box<RunAnswer>,
    },
    Failed(Report),
    /// Cancelled by a signal, with the exit code for it.
    Cancelled(u8),
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

impl RunInvocation {
    fn execute(mut self) -> u8 {
        let output = self.with.output;
        if let Err(report) = self.recall() {
            return render::failed(&report, output);
        }
        let with = &self.with;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return render::failed(&Report::new(ErrorKind::Bug, "cannot start").cause(error), output),
        };
        let started = Instant::now();
        let end = runtime.block_on(self.run());
        // A guest in a computation yields within a tick; nothing else is waited for.
        runtime.shutdown_background();
        let FinishedInvocation { outcome, agents, session } = match end {
            Ok(end) => end,
            Err(report) => return render::failed(&report, output),
        };
        let session = session.as_deref();
        let go_on = || {
            let arguments = session.map(|id| resume_arguments(id, with.config.as_deref(), &with.plugins));
            arguments.iter().for_each(|arguments| render::go_on(arguments));
        };
        match outcome {
            InvocationOutcome::Answered { agent, model, answer } => {
                let (agent, model, duration) = (&*agent, &*model, started.elapsed());
                render::answered(RunResult { agent, model, answer: &answer, agents, duration, session }, output)
            }
            InvocationOutcome::Failed(report) => {
                let code = render::failed_after(&report, &agents, session, output);
                go_on();
                code
            }
            InvocationOutcome::Cancelled(code) => {
                render::cancelled(code, &agents, session, output);
                go_on();
                code
            }
        }
    }

    /// Takes options that the command line does not name from the session to resume.
    fn recall(&mut self) -> Result<(), Report> {
        let (id, is_whole_name) = match &self.place {
            SessionTarget::There { id, .. } => (id, false),
            SessionTarget::Named(id) if id != "last" => (id, true),
            SessionTarget::Named(_) | SessionTarget::New { .. } | SessionTarget::Nowhere => return Ok(()),
        };
        let mut named = self.with.named();
        named.recall(id, is_whole_name)?;
        let LaunchFlags { config, plugins, model } = named;
        (self.with.config, self.with.plugins, self.with.model) = (config, plugins, model);
        Ok(())
    }

    async fn run(&self) -> Result<FinishedInvocation, Report> {
        // One listener covers the whole command: a signal between two of them would be lost.
        let interrupt = signals::ended();
        tokio::pin!(interrupt);
        let reads_task = self.task.as_ref().is_some_and(|task| task == "-");
        let task = self.task.as_deref().map(input::task).transpose()?;
        let config = super::config(self.with.config.as_ref())?;
        let input = if reads_task { None } else { input::beside_task(self.with.stdin)? };
        if task.is_none() {
            input::refuse_without_task(input.as_deref())?;
        }
        if task.is_none()
            && let Some(CompletedSession { header, agents, answer }) = self.place.over(&config)?
        {
            render::tell("nothing was left to be done; this was answered\n");
            let answer = Box::new(answer);
            let outcome = InvocationOutcome::Answered { agent: header.agent, model: header.model, answer };
            return Ok(FinishedInvocation { outcome, agents, session: Some(header.id) });
        }
        let reads_stdin = reads_task || self.with.stdin == StdinMode::Always;
        let is_attended = !reads_stdin && ask::is_attended();
        let (broker, person) = ask::broker(self.with.approve, is_attended);
        let (mut recording, agent) = self.place.recording(&config, &self.with.named(), task.as_deref())?;
        let app = App::new(
            config,
            super::plugin_dirs(&self.with.plugins),
            super::compiling(),
            super::environment(),
            broker.clone(),
        )?;
        let app = app
            .with_own_key(trust::own_key())
            .with_approvals(trust::store(), self.with.trust)
            .with_logins(trust::logins());
        let agent = self.with.agent.as_deref().or(agent.as_deref());
        // Up to here only files were read. From here on keys are sent and plugins run, so consent is needed first.
        let standing = app.standing(&trust::store(), self.with.config.is_some())?;
        let admitted = async {
            let trusted = trust::admitted(&standing, self.with.trust, is_attended).await?;
            trust::admit_session(&app.sessions(), &mut recording, self.with.trust, is_attended).await?;
            Ok::<_, Report>(trusted)
        };
        let trusted = tokio::select! {
            biased;
            code = &mut interrupt => return Ok(FinishedInvocation { outcome: InvocationOutcome::Cancelled(code), agents: Ledger::new(), session: None }),
            trusted = admitted => trusted?,
        };
        broker.trust(trusted);
        let mut prepared = tokio::select! {
            biased;
            code = &mut interrupt => return Ok(FinishedInvocation { outcome: InvocationOutcome::Cancelled(code), agents: Ledger::new(), session: None }),
            prepared = app.agent(agent, self.with.model.as_deref(), recording) => prepared?,
        };
        let session = prepared.session.take();
        secrets::hide(app.secrets());

        let (events, stream) = EventSink::channel();
        session.iter().for_each(|session| session.listen(&events));
        let mut progress = ProgressDisplay::new(self.with.output, self.with.verbose);
        progress.notes(&prepared, session.as_ref());
        if let (Some(config), Some(_)) = (&self.with.config, &session) {
            launch::keep_config_begun_here(config);
        }
        let task = task.map(|task| input.map_or(task.clone(), |input| input::with_input(&task, &input)));
        let work = PendingWork::of(session.as_ref(), task)?;
        let shown = tokio::spawn(ask::show(progress, stream, person));
        let cx = RunCx::new(Arc::clone(prepared.entrant.runner().name())).with_run(run_id()).with_events(events);
        let chat = session.as_ref().map(|session| session.chat.clone()).unwrap_or_default();
        let outcome = {
            let mut working = pin!(work.run(&prepared, &cx, &chat));
            tokio::select! {
                outcome = &mut working => Ok(outcome),
                code = &mut interrupt => {
                    // The journal ends here as in a crash: what is cut off now continues when the session is resumed.
                    close(session.as_ref()).await;
                    Err(code)
                }
            }
        };
        drop((cx, broker));
        let agents = prepared.agent_group.ledger();
        let name = session.as_ref().map(|session| session.journal.id().to_owned());
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(code) => {
                exit_soon(code);
                // The programs that it has started end now; exiting would leave them running.
                drop(prepared);
                app.settled().await;
                let _ = shown.await;
                return Ok(FinishedInvocation { outcome: InvocationOutcome::Cancelled(code), agents, session: name });
            }
        };
        close(session.as_ref()).await;
        app.settled().await;
        // All events are shown before the result, unless their reader is stuck.
        tokio::select! {
            biased;
            code = &mut interrupt => {
                exit_soon(code);
                return Ok(FinishedInvocation { outcome: InvocationOutcome::Cancelled(code), agents, session: name });
            }
            _ = async { (app.close_servers().await, shown.await) } => {}
        }
        let outcome = match outcome {
            Ok(answer) => InvocationOutcome::Answered {
                agent: prepared.entrant.runner().name().to_string(),
                model: prepared.model.model.clone(),
                answer: Box::new(answer),
            },
            Err(error) => InvocationOutcome::Failed(explain(&prepared, &error)),
        };
        Ok(FinishedInvocation { outcome, agents, session: name })
    }
}

/// Closes the journal of a session. A failed write has ended the run already.
async fn close(session: Option<&RunSession>) {
    if let Some(session) = session {
        let _ = session.journal.close().await;
    }
}

/// Ends the process after a grace period, as the reader of its output may be stuck.
fn exit_soon(code: u8) {
    std::thread::spawn(move || {
        std::thread::sleep(limits::CANCEL_GRACE);
        std::process::exit(i32::from(code));
    });
}

/// Returns the name of a run: its start time and a random part.
fn run_id() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut chance = [0; 4];
    // Without random bytes the time alone is the name.
    let _ = getrandom::fill(&mut chance);
    format!("run-{:x}-{:08x}", since.as_millis(), u32::from_le_bytes(chance))
}

/// Returns a hint on a failed model request; `source` is where the model comes from.
pub fn how_to_mend(fault: &Fault, source: &str, is_plugin: bool) -> String {
    let or = "or use another with --model";
    if let Some(mend) = net::mend(fault) {
        return format!("{mend} ({source}), {or}");
    }
    match fault {
        Fault::Unavailable { .. } if is_plugin => {
            format!("check that its server runs, if it asks one ({source}), try again later, {or}")
        }
        Fault::Denied { .. } if is_plugin => {
            format!("check what the plugin is granted, `http` and `credentials`, and its key ({source}), {or}")
        }
        Fault::Exhausted { .. } | Fault::Timeout { .. } if is_plugin => {
            format!("give the plugin more under `limits` of the model ({source}) if it says that it needs it, {or}")
        }
        Fault::Denied { .. } => format!("check the key of the model ({source}), {or}"),
        Fault::NotFound { .. } => format!("check the model's name and address ({source}), {or}"),
        Fault::Unavailable { .. } | Fault::Timeout { .. } => {
            format!("check that its server runs, and its address ({source}), {or}")
        }
        Fault::RateLimited { .. } => format!("try again later, {or}"),
        Fault::Exhausted { .. } => format!("check the account at the vendor ({source}), {or}"),
        Fault::TooLarge { .. } => "give a smaller task, or use a model with a larger window".into(),
        Fault::Invalid { .. } | Fault::Other { .. } => format!("check the settings of the model ({source}), {or}"),
    }
}

/// Returns a hint on a request that exceeds its model's context window; `place` is the agent's position in the config.
fn how_to_fit(exceeded: &WindowExceeded, place: &str) -> String {
    let WindowExceeded { model, window, fixed, unread, .. } = exceeded;
    let less = if fixed > window {
        format!("give {place} fewer tools or shorter instructions")
    } else if fixed + unread > *window {
        "give a smaller task, or a smaller part of it at once".to_owned()
    } else {
        format!("shorten the conversation, with `effects: [compact]` under {place}")
    };
    let model = name(model);
    format!(
        "if the model takes more, set providers.{model}.context_window in the config, and the window of its server; else {less}, \
         or use a model with a larger window"
    )
}

fn explain(prepared: &PreparedRun, error: &RunError) -> Report {
    let mut report = Report::new(error.kind(), error.to_string());
    if let Some(cause) = std::error::Error::source(error) {
        report = report.cause(without_number(&cause.to_string()));
    }
    let place = &prepared.place;
    match error {
        RunError::MaxIterations(most) => {
            report.message = format!("no answer after {most} {}", if *most == 1 { "turn" } else { "turns" });
            report.hint(format!("raise {place}.options.max_iterations, or give a smaller task"))
        }
        RunError::Budget(_) => report.hint(format!(
            "raise {place}.budget in the config, and the middleware `budget` if it has that, or give a smaller task"
        )),
        RunError::Window(exceeded) => report.hint(how_to_fit(exceeded, place)),
        RunError::Cut => report.hint("raise `max_tokens` of the model in the config, or ask for less"),
        RunError::Model(fault) => {
            report.message = format!("the model `{}` could not be asked", prepared.model.name);
            report.hint(how_to_mend(fault, &prepared.model_source, prepared.model_is_plugin))
        }
        RunError::Effect { name: step, fault } | RunError::Middleware { name: step, fault } => {
            let is_of_params = matches!(fault, Fault::Invalid { message } if message.starts_with("params: "));
            report.hint(match is_of_params {
                true => format!("correct the `params` of `{step}` under {place} in the config"),
                false => format!("set `on_failure: skip` beside `{step}` under {place} to go on without it"),
            })
        }
        _ => report,
    }
}
