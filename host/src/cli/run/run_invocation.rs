use std::{ffi::OsString, time::Instant};

use super::{
    admit::admit,
    common_run_args::CommonRunArgs,
    execute::execute,
    finished_invocation::FinishedInvocation,
    prepare::{Preparation, prepare},
    report::report,
    task_material_args::TaskMaterialArgs,
};
use crate::{
    cli::{render, session_target::SessionTarget, signals},
    error::{ErrorKind, Report},
};

/// A task, its options, and the session in which it is recorded.
pub(super) struct RunInvocation {
    pub with: CommonRunArgs,
    pub material: TaskMaterialArgs,
    pub task: Option<OsString>,
    pub place: SessionTarget,
}

impl RunInvocation {
    /// Runs it from beginning to end. Returns the exit code.
    pub fn execute(mut self) -> u8 {
        let output = self.with.output;
        if let Err(report) = self.recall() {
            render::begin_stream(None, output);
            return render::failed(&report, output);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                render::begin_stream(None, output);
                return render::failed(
                    &Report::new(ErrorKind::Bug, "cannot start the async runtime").cause(error),
                    output,
                );
            }
        };
        let started = Instant::now();
        let finished = runtime.block_on(self.run());
        let telemetry = finished.as_ref().map(|finished| finished.telemetry.clone()).unwrap_or_default();
        let code = report(finished, &self.with, self.material.schema.as_deref(), started);
        // Only now: a collector may be slow.
        if let Some(warning) = runtime.block_on(telemetry.finish()) {
            render::warn(&warning);
        }
        // A guest in a computation yields within a tick; nothing else is waited for.
        runtime.shutdown_background();
        code
    }

    /// Takes options that the command line does not name from the session to resume.
    fn recall(&mut self) -> Result<(), Report> {
        let (id, is_whole_name) = match &self.place {
            SessionTarget::There { id, .. } => (id, false),
            SessionTarget::Named(id) if id != "last" => (id, true),
            SessionTarget::Named(_) | SessionTarget::New { .. } | SessionTarget::Nowhere => return Ok(()),
        };
        self.with.runner.recall(id, is_whole_name)
    }

    /// Prepares, admits and executes the run.
    async fn run(&self) -> Result<FinishedInvocation, Report> {
        // One listener covers the whole command: a signal between two of them would be lost.
        let interrupt = signals::ended();
        tokio::pin!(interrupt);
        let prepared = match prepare(&self.with, &self.material, self.task.as_deref(), &self.place)? {
            Preparation::Ready(prepared) => *prepared,
            Preparation::Finished(finished) => return Ok(*finished),
        };
        // Up to here only files were read. From here on keys are sent and plugins run, so consent is needed first.
        let admitted = tokio::select! {
            biased;
            code = &mut interrupt => return Ok(FinishedInvocation::cancelled(code)),
            admitted = admit(prepared, self.with.runner.trust) => admitted?,
        };
        execute(admitted, &self.with, interrupt).await
    }
}
