//! The first step of an invocation: reads the task, standard input, the config, and where the run is recorded.

use std::ffi::OsStr;

use super::{
    common_run_args::CommonRunArgs,
    finished_invocation::{FinishedInvocation, InvocationOutcome},
    task_material_args::TaskMaterialArgs,
};
use crate::{
    app::{App, ProjectTrustStatus, Recording, TelemetryFlush},
    approval::ApprovalBroker,
    chat::Message,
    cli::{
        ask::{self, TerminalPrompter},
        input,
        live::{FinishedDisplay, chosen_theme},
        render::tell,
        session_target::{CompletedSession, SessionTarget},
        trust,
    },
    config::ThemeChoice,
    error::Report,
    task::AnswerSchema,
};

/// The result of preparing an invocation.
pub(super) enum Preparation {
    /// A run that can be admitted.
    Ready(Box<PreparedInvocation>),
    /// A session in which nothing is left to be done.
    Finished(Box<FinishedInvocation>),
}

/// An invocation whose files were read. It has sent nothing and started nothing.
pub(super) struct PreparedInvocation {
    pub app: App,
    /// The facts that the project's files name, and the person's consent to them.
    pub standing: ProjectTrustStatus,
    pub broker: ApprovalBroker,
    /// The prompter that answers the broker; `None` if nobody is asked.
    pub person: Option<TerminalPrompter>,
    /// `true` if a person is present, who can be asked for consent.
    pub is_attended: bool,
    pub recording: Recording,
    /// The agent or team; `None`: the entry agent of the config.
    pub agent: Option<String>,
    /// The task with the standard input and the files that belong to it; `None`: the session continues.
    pub task: Option<Message>,
    /// The schema that the answer follows.
    pub schema: Option<AnswerSchema>,
    pub theme: ThemeChoice,
}

/// Reads what an invocation names.
///
/// # Errors
///
/// A [`Report`] if the task, its files, the config, the session or a plugin directory cannot be used.
pub(super) fn prepare(
    with: &CommonRunArgs,
    material: &TaskMaterialArgs,
    task: Option<&OsStr>,
    place: &SessionTarget,
) -> Result<Preparation, Report> {
    let reads_task = task.is_some_and(|task| task == "-");
    let task = task.map(input::task).transpose()?;
    let schema = material.answer_schema()?;
    let config = with.runner.read_config()?;
    let theme = chosen_theme(&config)?;
    let input = if reads_task { None } else { input::beside_task(with.stdin)? };
    if task.is_none() {
        input::refuse_without_task(input.as_deref())?;
    }
    let is_trusted = with.runner.config.is_some() || with.runner.trust;
    if task.is_none()
        && let Some(CompletedSession { header, agents, answer }) = place.over(&config, is_trusted)?
    {
        tell("the session is already complete; its last answer:\n");
        let answer = Box::new(answer);
        let outcome = InvocationOutcome::Answered { agent: header.agent, model: header.model, answer };
        return Ok(Preparation::Finished(Box::new(FinishedInvocation {
            outcome,
            agents,
            session: Some(header.id),
            shown: FinishedDisplay::of_no_run(with.output, theme),
            schema,
            has_stream: false,
            telemetry: TelemetryFlush::default(),
        })));
    }
    let is_attended = ask::is_attended();
    let (broker, inbox) = ask::broker(with.runner.approve, is_attended);
    let (recording, agent) = place.recording(&config, (&with.runner.named(), is_trusted), task.as_deref())?;
    let app = with.runner.app(config, broker.clone())?;
    let agent = with.runner.agent.clone().or(agent);
    let standing = app.standing(&trust::store(), with.runner.config.is_some())?;
    let task = task.map(|task| input.map_or(task.clone(), |input| input::with_input(&task, &input)));
    let task = material.message(task, schema.as_ref())?;
    let prepared = PreparedInvocation {
        app,
        standing,
        broker,
        person: inbox.map(TerminalPrompter::new),
        is_attended,
        recording,
        agent,
        task,
        schema,
        theme,
    };
    Ok(Preparation::Ready(Box::new(prepared)))
}
