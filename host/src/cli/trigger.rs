//! The subcommand `trigger`: fires a trigger of the config by hand.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use clap::{Args, Subcommand};

use super::{
    ask::ApprovalModeArg,
    config_path::read_config_silently,
    render::{self, RunOutputFormat, path_name, print_for_people, warn},
    run::{self, CommonRunArgs},
    runner_args::{self, RunnerArgs},
};
use crate::{
    capability::Usd,
    error::{ErrorKind, Report, why_unreadable},
    files, limits,
    serve::triggers::{TrialFiring, TrialPayload},
};

/// Commands for triggers.
#[derive(Subcommand)]
pub enum TriggerCommand {
    Fire(TriggerFireArgs),
}

/// Fire a trigger of the config once, and print the answer of its run.
///
/// The payload takes the place of what fires it, so that the task can be tried without a server, and without the signature
/// of a webhook. A warning names the values of the task that the payload does not have. The run is one of this command, as
/// with shelly-host run: the triggers of a server know nothing of it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host trigger fire nightly
  shelly-host trigger fire issues --payload issue.json --event issues --dry-run
  curl -s https://example.com/issue.json | shelly-host trigger fire issues --payload -")]
pub struct TriggerFireArgs {
    /// The trigger.
    #[arg(value_name = "TRIGGER")]
    trigger: String,
    /// The file with the body of the webhook; for a trigger with `files`, with the names of changed files as a JSON list.
    /// `-` reads it from standard input.
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// The kind of event, as the sender of the webhook names it in a header.
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Print the task, and run nothing.
    #[arg(long)]
    dry_run: bool,
    /// The config file (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders; repeatable.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// The model (default: the model of each agent).
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Answers requests for consent and questions of agents in this way, without asking. Without this option you are asked
    /// if there is a terminal; otherwise `never` applies.
    #[arg(long, value_name = "WHEN", value_enum)]
    approve: Option<ApprovalModeArg>,
    /// Trust the project's config and permissions for this run without asking; see shelly-host config trust. Also accept the
    /// current tools of MCP servers.
    #[arg(long)]
    trust: bool,
    /// The maximum cost of the run in US dollars, including all of its sub-runs.
    #[arg(long, value_name = "USD", value_parser = runner_args::cost)]
    max_cost: Option<Usd>,
    /// Do not record the run; an interrupted run cannot be resumed.
    #[arg(long)]
    no_session: bool,
    /// The format of standard output.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = RunOutputFormat::Text, conflicts_with = "dry_run")]
    output: RunOutputFormat,
    /// Also show log entries of plugins and the resource use of each plugin call.
    #[arg(long, short)]
    verbose: bool,
}

impl TriggerCommand {
    pub fn execute(self) -> u8 {
        match self {
            Self::Fire(fire) => fire.execute(),
        }
    }
}

impl TriggerFireArgs {
    fn execute(self) -> u8 {
        let fired = match self.firing() {
            Ok(fired) => fired,
            Err(report) => {
                render::begin_stream(None, self.output);
                return render::failed(&report, self.output);
            }
        };
        if let Some(problem) = &fired.problem {
            warn(problem);
        }
        if !fired.missing.is_empty() {
            let missing = fired.missing.join(", ");
            let hint = if self.payload.is_none() { "; give a payload with --payload FILE" } else { "" };
            warn(&format!("the task has empty values, since the firing has no {missing}{hint}"));
        }
        if self.dry_run {
            let printed = print_for_people(&format!("{}\n", fired.task));
            return printed.map_or_else(|report| render::failed(&report, self.output), |()| 0);
        }
        let runner = RunnerArgs {
            config: self.config,
            plugins: self.plugins,
            agent: fired.agent,
            model: self.model,
            approve: self.approve,
            trust: self.trust,
            max_cost: self.max_cost,
            verbose: self.verbose,
        };
        run::once(CommonRunArgs::without_input(runner, self.output), fired.task.into(), !self.no_session)
    }

    /// Makes the task of the firing.
    fn firing(&self) -> Result<TrialFiring, Report> {
        let config = read_config_silently(self.config.as_ref())?;
        let payload = self.payload.as_deref().map(read_payload).transpose()?;
        let payload = payload.as_ref().map(|(place, bytes)| TrialPayload { place, bytes });
        TrialFiring::new(&config, &self.trigger, (payload, self.event.as_deref()), SystemTime::now())
    }
}

/// Reads a payload; `-` is standard input. Returns the place, for messages, and the bytes.
fn read_payload(path: &Path) -> Result<(String, Vec<u8>), Report> {
    let most = limits::TRIGGER_BODY_BYTES;
    let read = |from: &mut dyn Read| {
        let mut bytes = Vec::new();
        from.take(most as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    let (shown, read) = match path.as_os_str() == "-" {
        true => ("standard input".to_owned(), read(&mut io::stdin().lock())),
        false => (path_name(path), files::open(path).and_then(|mut file| read(&mut file))),
    };
    let cannot =
        |cause: String| Report::new(ErrorKind::Usage, format!("cannot read the payload from {shown}")).cause(cause);
    let bytes = read.map_err(|error| {
        cannot(why_unreadable(&error)).hint("name a file with the body of a webhook, or with a list of files")
    })?;
    match bytes.len() > most {
        true => Err(cannot(format!("it has more than {most} bytes")).hint("a server takes no larger webhook either")),
        false => Ok((shown, bytes)),
    }
}
