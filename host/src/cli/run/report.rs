//! The last step of an invocation: prints the answer or the failure.

use std::{path::Path, time::Instant};

use super::{
    common_run_args::CommonRunArgs,
    finished_invocation::{FinishedInvocation, InvocationOutcome},
};
use crate::{
    cli::{
        command_words::resume_arguments,
        render::{self, RunResult},
    },
    error::Report,
};

/// Prints the end of an invocation. Returns the exit code.
pub(super) fn report(
    finished: Result<FinishedInvocation, Report>,
    with: &CommonRunArgs,
    schema_path: Option<&Path>,
    started: Instant,
) -> u8 {
    let output = with.output;
    let FinishedInvocation { outcome, agents, session, shown, schema, has_stream, telemetry: _ } = match finished {
        Ok(finished) => finished,
        Err(report) => {
            render::begin_stream(None, output);
            return render::failed(&report, output);
        }
    };
    let session = session.as_deref();
    if !has_stream {
        render::begin_stream(session, output);
    }
    let go_on = || {
        let arguments =
            session.map(|id| resume_arguments(id, with.runner.config.as_deref(), &with.runner.plugins, schema_path));
        arguments.iter().for_each(|arguments| render::go_on(arguments));
    };
    match outcome {
        InvocationOutcome::Answered { agent, model, answer } => {
            let (agent, model, duration) = (&*agent, &*model, started.elapsed());
            let is_shown = shown.reply.is_some_and(|reply| reply == answer.message.text_content());
            let theme = shown.theme;
            let value = schema.and_then(|schema| schema.value_of(&answer.message.text_content()).ok());
            let result = RunResult { agent, model, answer: &answer, value, agents, duration, session, is_shown, theme };
            render::answered(result, output, with.level())
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
