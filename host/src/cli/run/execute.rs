//! The third step of an invocation: builds the agent, runs it, and shows its progress.

use std::{
    io::IsTerminal,
    pin::{Pin, pin},
    sync::Arc,
};

use tokio::time::timeout;

use super::{
    admit::AdmittedInvocation,
    common_run_args::CommonRunArgs,
    finished_invocation::{FinishedInvocation, InvocationOutcome},
};
use crate::{
    app::{PendingWork, RunSession, explain},
    cli::{
        ask,
        compile_progress::{tell_above_progress, with_compile_progress},
        launch,
        live::{DisplayOptions, RunDisplay},
        render::ProgressLevel,
        run_id::run_id,
        secrets,
    },
    error::Report,
    event::{EventSink, RunCx},
    limits,
};

/// Runs an admitted invocation until it ends, or until `interrupt` yields the exit code of a signal.
///
/// # Errors
///
/// A [`Report`] if the agent cannot be built, or no work is left for it. The failure of a run is an outcome.
pub(super) async fn execute(
    admitted: AdmittedInvocation,
    with: &CommonRunArgs,
    mut interrupt: Pin<&mut impl Future<Output = u8>>,
) -> Result<FinishedInvocation, Report> {
    let AdmittedInvocation { app, broker, person, recording, agent, task, schema, theme } = admitted;
    let mut prepared = tokio::select! {
        biased;
        code = &mut interrupt => return Ok(FinishedInvocation::cancelled(code)),
        prepared = explained(app.agent(agent.as_deref(), with.runner.model.as_deref(), recording), with.level()) => prepared?,
    };
    if let Some(schema) = &schema {
        prepared.entrant = schema.enforce_on(prepared.entrant);
    }
    let session = prepared.session.take();
    secrets::hide(app.secrets());

    let (events, stream) = EventSink::channel();
    app.observe(&events, &prepared, session.as_ref());
    let mut progress = match &schema {
        // JSON is no Markdown: it is printed whole, when it was checked.
        Some(_) => RunDisplay::lines(with.output, with.level()),
        None => {
            RunDisplay::new(DisplayOptions { output: with.output, level: with.level(), streams: with.stream, theme })
        }
    };
    if session.is_some() {
        launch::remember_session(&app.config.root, with.runner.config.as_deref());
    }
    progress.notes(&prepared, session.as_ref()).into_iter().for_each(|warning| events.emit_now(warning));
    let work = match PendingWork::of(session.as_ref(), task) {
        Ok(work) => work,
        // The warnings are shown all the same: one may say that the session was damaged.
        Err(report) => {
            drop(events);
            let (outcome, telemetry) = (InvocationOutcome::Failed(report), app.telemetry_flush());
            return Ok(FinishedInvocation {
                shown: ask::show(progress, stream, None).await,
                ..FinishedInvocation::of_run(outcome, &prepared, session.as_ref(), telemetry)
            });
        }
    };
    let person = person.map(|person| person.with_agents(Arc::clone(&prepared.agent_group)));
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
    let telemetry = app.telemetry_flush();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(code) => {
            exit_soon(code);
            let outcome = InvocationOutcome::Cancelled(code);
            let finished = FinishedInvocation::of_run(outcome, &prepared, session.as_ref(), telemetry);
            // The programs that it has started end now; exiting would leave them running.
            drop(prepared);
            app.settled().await;
            let _ = shown.await;
            return Ok(finished);
        }
    };
    close(session.as_ref()).await;
    app.settled().await;
    // All events are shown before the result, unless their reader is stuck.
    let shown = tokio::select! {
        biased;
        code = &mut interrupt => {
            exit_soon(code);
            let outcome = InvocationOutcome::Cancelled(code);
            return Ok(FinishedInvocation::of_run(outcome, &prepared, session.as_ref(), telemetry));
        }
        // A display that crashed has shown nothing whole.
        ((), shown) = async { (app.close_servers().await, shown.await) } => shown.unwrap_or_default(),
    };
    let outcome = match outcome {
        Ok(answer) => InvocationOutcome::Answered {
            agent: prepared.entrant.runner().name().to_string(),
            model: prepared.model.model.clone(),
            answer: Box::new(answer),
        },
        Err(error) => InvocationOutcome::Failed(explain(&prepared, &error)),
    };
    let finished = FinishedInvocation::of_run(outcome, &prepared, session.as_ref(), telemetry);
    Ok(FinishedInvocation { shown, schema, ..finished })
}

/// Waits until an agent has started, and tells a person at the terminal who waits long what takes the time.
async fn explained<T>(start: impl Future<Output = T>, level: ProgressLevel) -> T {
    if level == ProgressLevel::Quiet || !std::io::stderr().is_terminal() {
        return start.await;
    }
    let mut start = pin!(with_compile_progress(start));
    match timeout(limits::START_NOTICE_DELAY, &mut start).await {
        Ok(started) => started,
        Err(_) => {
            tell_above_progress("still starting: plugins are compiled at their first use, and servers are connected\n");
            start.await
        }
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
