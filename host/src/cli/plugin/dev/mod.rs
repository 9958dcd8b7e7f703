//! `shelly-host plugin dev`: builds a project again when its sources change.
//!
//! `dev_keys.rs` reads the keyboard, `repeated_trial.rs` makes the trial after each build, and `dev_output.rs` prints.

mod dev_keys;
mod dev_output;
mod repeated_trial;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use clap::{ArgAction, Args};

use self::{dev_keys::DevKeys, dev_output::DevOutput, repeated_trial::RepeatedTrial};
use super::{
    build::{ReadProject, build_into_place, show_tool_line},
    source_watch::SourceWatch,
    trial_args::{TrialArgs, TrialGrantArgs},
};
use crate::{
    cli::{command_runtime::runtime, host_environment::compiling, render::CliOutputFormat},
    error::Report,
    limits,
    plugin::{CompileConfig, CompileProfile, PluginEngine},
};

/// Build a plugin's project again whenever its sources change, and try it.
///
/// Builds as `plugin build` does, and shows what the build has changed or why it failed. After a failure the last plugin
/// stays in build/ID. With --call, --step or --complete the same trial is made after each build, and its result is compared
/// with the last one. At a terminal, Enter builds again, and q and Enter ends. Without --release the plugin is ready sooner
/// and runs slower: its machine code is not optimised, and functions that have not changed are not compiled again. The build
/// runs the toolchain and the code of the project that builds it: build only what you trust.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host plugin dev
  shelly-host plugin dev dice --call roll '{\"sides\": 6}'
  shelly-host plugin dev --step trial.yaml --grant 'powers: [note]'")]
pub struct PluginDevArgs {
    /// The project's folder, with its plugin.toml.
    #[arg(value_name = "DIR", default_value = ".")]
    project: PathBuf,
    /// Optimise it, without debug information.
    #[arg(long)]
    release: bool,
    /// After each build, call this tool with these arguments; `@FILE` reads them from a file.
    #[arg(long, value_names = ["TOOL", "JSON"], num_args = 2, action = ArgAction::Set, conflicts_with_all = ["step", "complete"])]
    call: Option<Vec<String>>,
    /// After each build, call the effect, middleware or coordinator with the input in this file.
    #[arg(long, value_name = "FILE", conflicts_with = "complete")]
    step: Option<PathBuf>,
    /// After each build, send the request in this file to the provider.
    #[arg(long, value_name = "FILE")]
    complete: Option<PathBuf>,
    #[command(flatten)]
    given: TrialGrantArgs,
    /// The config whose programs, credentials and limits count for the trial.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The output format; with `json`, one value a line.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
}

impl PluginDevArgs {
    /// Watches the project until the person or a signal ends it. Returns the exit code.
    pub(super) fn execute(&self) -> Result<u8, Report> {
        let trial = RepeatedTrial::of_options(self.call.as_deref(), self.step.as_ref(), self.complete.as_ref())?;
        // A folder without a project ends the command. A mistake that appears in its files later is a failed build.
        let ReadProject { project, .. } = ReadProject::read(&self.project)?;
        let mut keys = DevKeys::listen();
        let quit = keys.quit();
        runtime()?.block_on(async {
            // The branch that ends first drops the other one, which kills the programs of a build.
            tokio::select! {
                biased;
                () = quit => Ok(0),
                ended = self.watch(&project.folder, trial.as_ref(), &mut keys) => ended,
            }
        })
    }

    /// Builds, and builds again after each change.
    async fn watch(&self, folder: &Path, trial: Option<&RepeatedTrial>, keys: &mut DevKeys) -> Result<u8, Report> {
        let mut output = DevOutput::new(self.output);
        let mut sources = SourceWatch::begin(folder)?;
        output.show_begin(folder, sources.files(), keys.is_attended)?;
        let mut is_first = true;
        let engine = self.engine(folder)?;
        loop {
            let is_built = self.build_and_try(trial, is_first, &engine, &mut output).await?;
            is_first &= !is_built;
            // A file that is written during a build leads to another build.
            output.show_changes(&changed_sources(&mut sources, keys).await?)?;
        }
    }

    /// Builds once, and makes the trial. Returns `true` if a plugin was built. Failures are shown; the only error is an
    /// output that cannot be written.
    async fn build_and_try(
        &self,
        trial: Option<&RepeatedTrial>,
        is_first: bool,
        engine: &Arc<PluginEngine>,
        output: &mut DevOutput,
    ) -> Result<bool, Report> {
        let started = Instant::now();
        let built = match build_into_place(&self.project, self.release, engine, show_tool_line).await {
            Ok(built) => built,
            Err(report) => {
                output.show_failure(&report)?;
                return Ok(false);
            }
        };
        output.show_build(&built, started.elapsed(), is_first)?;
        if let Some(trial) = trial {
            let with = TrialArgs::of_path(&self.given, self.config.as_ref(), self.output);
            match trial.run(&with, &built.folder, engine.compiler()).await {
                Ok(outcome) => output.show_trial(outcome)?,
                Err(report) => output.show_failure(&report)?,
            }
        }
        Ok(true)
    }

    /// Returns an engine for all builds of a project.
    fn engine(&self, project: &Path) -> Result<Arc<PluginEngine>, Report> {
        let profile = match self.release {
            true => CompileProfile::Release,
            false => CompileProfile::Development { project: project.into() },
        };
        PluginEngine::new(CompileConfig { profile, ..compiling() }).map(Arc::new)
    }
}

/// Waits until the sources have changed and are still, or until a build is wanted. Returns the files that have changed.
async fn changed_sources(sources: &mut SourceWatch, keys: &mut DevKeys) -> Result<Vec<PathBuf>, Report> {
    loop {
        tokio::select! {
            () = keys.build() => return sources.take(),
            () = tokio::time::sleep(limits::WATCH_PAUSE) => {}
        }
        if let Some(changed) = sources.look_again()? {
            return Ok(changed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn change_counts_when_the_files_are_still() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("app.py"), "one").unwrap();
        let mut sources = SourceWatch::begin(folder.path()).unwrap();
        fs::write(folder.path().join("app.py"), "three").unwrap();
        let mut keys = DevKeys::unattended();
        let started = tokio::time::Instant::now();
        let changed = changed_sources(&mut sources, &mut keys).await.unwrap();
        assert_eq!(changed, [PathBuf::from("app.py")]);
        // Timers of tokio count whole milliseconds.
        let looks = started.elapsed().as_millis() / limits::WATCH_PAUSE.as_millis();
        assert_eq!(looks, 2, "two looks found the same");
    }
}
