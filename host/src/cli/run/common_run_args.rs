use clap::Args;

use crate::cli::{
    input::StdinMode,
    render::{ProgressLevel, RunOutputFormat},
    runner_args::RunnerArgs,
};

/// The options of one run.
#[derive(Args)]
pub struct CommonRunArgs {
    #[command(flatten)]
    pub(super) runner: RunnerArgs,
    /// The format of standard output.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = RunOutputFormat::Text)]
    pub(super) output: RunOutputFormat,
    /// When to send standard input to the model with the task, marked as input. The task `-` is always read from standard
    /// input.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = StdinMode::Auto)]
    pub(super) stdin: StdinMode,
    /// Print only the answer, without progress and notes. Warnings, errors and the path of a config that was found are still
    /// printed.
    #[arg(long, short, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Write the text of each reply to standard output as it arrives, including what an agent says before it calls tools.
    /// A terminal shows it in any case; elsewhere, only the answer is written, when it is complete.
    #[arg(long, conflicts_with = "quiet")]
    pub(super) stream: bool,
}

impl CommonRunArgs {
    /// Returns the options of a run that is given nothing but its task.
    pub fn without_input(runner: RunnerArgs, output: RunOutputFormat) -> Self {
        Self { runner, output, stdin: StdinMode::Never, quiet: false, stream: false }
    }

    /// Returns the amount of progress that is shown.
    pub(super) fn level(&self) -> ProgressLevel {
        match (self.quiet, self.runner.verbose) {
            (true, _) => ProgressLevel::Quiet,
            (false, true) => ProgressLevel::Verbose,
            (false, false) => ProgressLevel::Normal,
        }
    }

    pub fn runner(&self) -> &RunnerArgs {
        &self.runner
    }

    pub fn output(&self) -> RunOutputFormat {
        self.output
    }

    /// Selects the agent.
    pub fn for_agent(mut self, agent: String) -> Self {
        self.runner.agent = Some(agent);
        self
    }
}
