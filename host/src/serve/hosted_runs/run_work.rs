//! The work of a hosted run: it is prepared, performed and ended, by the steps of `shelly-host run`.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, time::SystemTime};

use futures_util::FutureExt;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    HostedRun, HostedRunOutcome, RunHostOptions, RunRequest, RunTarget,
    hosted_run::{HostedRunEnd, HostedRunStart},
    output_budget::with_output_budget,
};
use crate::{
    agent::{RunAnswer, RunError},
    app::{App, PendingWork, PreparedRun, Recording, RunSession, SessionCloser, explain},
    chat::{Chat, Message},
    error::{ErrorKind, Report, RequestObstacle},
    event::{EventSink, RunCx},
    limits,
    session::{EventRedactor, Secrets, SessionError},
    task::{AnswerSchema, TaskInput},
};

/// The things of a host that one of its runs needs.
pub(super) struct HostedRunWork {
    pub app: Arc<App>,
    pub options: Arc<RunHostOptions>,
    /// Cancelled when the host ends: the run is then interrupted as by a crash, and its session can be resumed.
    pub stop: CancellationToken,
    /// Takes the credentials that are known once the run is prepared.
    pub learn: Arc<dyn Fn(Secrets) + Send + Sync>,
    /// Returns the credentials that no client may see.
    pub secrets: Arc<dyn Fn() -> Secrets + Send + Sync>,
}

impl HostedRunWork {
    /// Performs a run. Returns its end, which is not recorded yet.
    pub async fn perform(self, run: &Arc<HostedRun>, request: RunRequest) -> HostedRunEnd {
        let (events, mut stream) = EventSink::channel();
        let (ring, secrets) = (Arc::clone(&run.events), Arc::clone(&self.secrets));
        let recording = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut redactor = EventRedactor::default();
            while let Some(event) = stream.next().await {
                ring.push(&event, &mut redactor, &secrets());
                ring.make_room().await;
            }
        }));
        let is_plain = request.is_plain();
        let not_begun = |report: Report| match (report.kind, report.obstacle) {
            (ErrorKind::Usage, None) if is_plain => {
                HostedRunOutcome::not_begun(report.obstacle(RequestObstacle::Setup))
            }
            _ => HostedRunOutcome::not_begun(report),
        };
        let sink = events.clone();
        let mut work = Box::pin(AssertUnwindSafe(self.work(run, request, events)).catch_unwind());
        let outcome = tokio::select! {
            biased;
            () = run.dropped.cancelled() => {
                if run.is_abandoned() {
                    sink.interrupt();
                }
                HostedRunOutcome::Cancelled
            }
            outcome = work.as_mut() => match outcome {
                Ok(outcome) => outcome.unwrap_or_else(not_begun),
                Err(_) => HostedRunOutcome::not_begun(Report::new(ErrorKind::Bug, "the run crashed")),
            },
        };
        // The recording ends with the last sink.
        drop((work, sink));
        let agents = run.ledger();
        // All events are kept before the end, unless something still holds their sink.
        let _ = timeout(limits::SERVE_END_TIME, recording).await;
        HostedRunEnd { outcome, finished: SystemTime::now(), agents }
    }

    /// Prepares the run and performs it.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it cannot begin.
    async fn work(&self, run: &HostedRun, request: RunRequest, events: EventSink) -> Result<HostedRunOutcome, Report> {
        let RunRequest {
            agent,
            model,
            input,
            target,
            budget,
            history,
            output_tokens,
            outer_span,
            queue_id,
            queued,
            schema,
            boards,
        } = request;
        if let Some(span) = outer_span {
            events.set_outer_span(span);
        }
        let depth = queued.depth;
        let mut app = (*self.app).clone().with_budget(self.options.budget.meet(&budget)).with_queued_run(queued);
        if let Some(boards) = boards {
            app = app.with_shared_boards(boards);
        }
        let title = input.as_ref().map(|input| input.text.clone()).unwrap_or_default();
        let (recording, of_session) = self.recording(target, title).await?;
        let agent = agent.or(of_session).or_else(|| self.options.agent.clone());
        let model = model.or_else(|| self.options.model.clone());
        if let (None, Recording::New { id: Some(id), .. }) = (&input, &recording) {
            return Err(nothing_left(format!("there is no session `{id}` whose run could go on")));
        }
        let mut prepared = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Ok(HostedRunOutcome::Interrupted),
            prepared = app.agent(agent.as_deref(), model.as_deref(), recording) => prepared?,
        };
        let schema = input.as_ref().and_then(|input| input.schema.clone()).or(schema);
        if let Some(schema) = &schema {
            prepared.entrant = schema.enforce_on(prepared.entrant);
        }
        if let Some(tokens) = output_tokens {
            prepared.entrant = with_output_budget(prepared.entrant, tokens);
        }
        let session = prepared.session.take();
        if let (None, Some(session)) = (&input, &session)
            && !session.is_unfinished
            && !session.has_failed
        {
            return Err(nothing_left(format!(
                "the session `{}` is complete: no run is left to go on",
                session.journal.id()
            )));
        }
        (self.learn)(app.secrets());
        self.app.observe(&events, &prepared, session.as_ref());
        let task = input.map(TaskInput::into_message).map(|message| match queue_id {
            Some(id) => message.with_queued_run(&id),
            None => message,
        });
        let work = PendingWork::of(session.as_ref(), task)?;
        let chat = session.as_ref().map(|session| session.chat.clone()).unwrap_or_default();
        add_history(&chat, history, &work)?;
        run.begin(self.start(&prepared, session.as_ref()), &prepared.agent_group);
        let name = Arc::clone(prepared.entrant.runner().name());
        let cx = RunCx { depth, ..RunCx::new(name) }.with_run(Arc::clone(run.id())).with_events(events);
        let outcome = self.until_stopped(work, &prepared, (&cx, &chat), session).await;
        drop(cx);
        Ok(match outcome {
            None => HostedRunOutcome::Interrupted,
            Some(Ok(answer)) => answered(answer, schema.as_ref()),
            Some(Err(RunError::Cancelled)) => HostedRunOutcome::Cancelled,
            Some(Err(error)) => HostedRunOutcome::Failed { error: explain(&prepared, &error), failure: Some(error) },
        })
    }

    /// Does the work and closes the session; `None`: the host ends first.
    async fn until_stopped(
        &self,
        work: PendingWork,
        prepared: &PreparedRun,
        (cx, chat): (&RunCx, &Chat),
        session: Option<RunSession>,
    ) -> Option<Result<RunAnswer, RunError>> {
        let mut working = pin!(work.run(prepared, cx, chat));
        // Declared after the run so that it is dropped first: a run that is dropped records nothing more.
        let closing = SessionCloser(session);
        let outcome = tokio::select! {
            biased;
            () = self.stop.cancelled() => {
                cx.events.interrupt();
                None
            }
            outcome = working.as_mut() => Some(outcome),
        };
        if let Some(session) = &closing.0 {
            // A failed write has ended the run already. After an interruption the journal ends here as in a crash.
            let _ = session.journal.close().await;
        }
        outcome
    }

    fn start(&self, prepared: &PreparedRun, session: Option<&RunSession>) -> HostedRunStart {
        let changed = session.iter().flat_map(|session| &session.changed);
        let changed = changed.map(|what| format!("since the session was last used: {what}"));
        let of_session = session.iter().flat_map(|session| session.warnings.iter().cloned());
        let warnings = prepared.warnings.iter().cloned().chain(of_session).chain(changed);
        let secrets = (self.secrets)();
        HostedRunStart {
            agent: Arc::clone(prepared.entrant.runner().name()),
            model: prepared.model.model.clone(),
            session: session.map(|session| session.journal.id().to_owned()),
            warnings: shown_warnings(warnings, &secrets),
            spent_before: prepared.agent_group.ledger().total(),
        }
    }

    /// Returns where a run is recorded, and the agent of an existing session.
    async fn recording(&self, target: RunTarget, title: String) -> Result<(Recording, Option<String>), Report> {
        let (app, options) = (&self.app, &self.options);
        let new = |id| (Recording::New { id, title, follows: None, options: options.launch.clone() }, None::<String>);
        let name = match target {
            RunTarget::Off => return Ok((Recording::Off, None)),
            RunTarget::New if !options.record || !app.config.sessions.is_recording() => {
                return Ok((Recording::Off, None));
            }
            RunTarget::New => return Ok(new(None)),
            RunTarget::Named(_) if !options.record => {
                return Err(Report::new(ErrorKind::Usage, "this server records no sessions")
                    .hint("leave the session out, or start the server without --no-session"));
            }
            RunTarget::Named(name) => name,
        };
        if name == "last" {
            return Err(Report::new(ErrorKind::Usage, "`last` cannot be the name of a session")
                .hint("name the session, or leave it out for a new one"));
        }
        let (store, wanted) = (app.sessions(), name.clone());
        // The sessions may be on a server that is away.
        let found = tokio::task::spawn_blocking(move || {
            let id = store.resolve(&wanted)?;
            let agent = if id == wanted { Some(store.read(&id)?.header().agent.clone()) } else { None };
            Ok::<_, SessionError>((id, agent))
        });
        let found = found.await.map_err(|_| Report::new(ErrorKind::Bug, "the sessions cannot be read"))?;
        match found {
            Ok((id, Some(agent))) => {
                let is_trusted = options.is_trusted;
                Ok((Recording::Existing { id, up_to_damage: false, is_trusted }, Some(agent)))
            }
            Err(SessionError::NotFound { .. }) => Ok(new(Some(name))),
            Ok((id, None)) => {
                let what = format!("`{name}` is only the beginning of the name of session `{id}`");
                let hint = "write the full name to continue that session, or choose another name";
                Err(Report::new(ErrorKind::Usage, what).hint(hint))
            }
            Err(error) => Err(error.report()),
        }
    }
}

/// Returns warnings without credentials, at most [`limits::SERVE_WARNINGS`].
fn shown_warnings(all: impl Iterator<Item = String>, secrets: &Secrets) -> Vec<String> {
    all.take(limits::SERVE_WARNINGS).map(|warning| secrets.clean_text(&warning)).collect()
}

/// Adds the messages before the task to the conversation of a run.
fn add_history(chat: &Chat, history: Vec<Message>, work: &PendingWork) -> Result<(), Report> {
    let cannot = |cause: String| Report::new(ErrorKind::Usage, "the conversation cannot be used").cause(cause);
    if !history.is_empty() && matches!(work, PendingWork::Finish(_)) {
        return Err(cannot("the last run of the session was interrupted, so its conversation is not complete".into())
            .hint("send the task alone, with which that run goes on"));
    }
    let added = history.into_iter().try_for_each(|message| chat.append(message));
    added.map_err(|error| cannot(error.to_string()).hint("begin a new conversation"))
}

/// Returns the refusal of a request without a task for a session in which no run is left.
fn nothing_left(what: String) -> Report {
    Report::new(ErrorKind::Usage, what)
        .hint("add a task, or name a session whose last run was interrupted or has failed")
}

/// Returns the outcome of a run with an answer.
fn answered(answer: RunAnswer, schema: Option<&AnswerSchema>) -> HostedRunOutcome {
    let value = schema.and_then(|schema| schema.value_of(&answer.message.text_content()).ok());
    HostedRunOutcome::Completed { answer: Box::new(answer), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_warnings_are_shown_without_credentials() {
        let secrets = Secrets::new([("KEY", "sk-12345")]);
        let all = (0..=limits::SERVE_WARNINGS).map(|n| format!("{n}: sk-12345"));
        let shown = shown_warnings(all, &secrets);
        assert_eq!(shown.len(), limits::SERVE_WARNINGS);
        assert!(shown[0].starts_with("0: ") && shown.iter().all(|warning| !warning.contains("12345")), "{shown:?}");
    }
}
