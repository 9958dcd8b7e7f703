//! Puts runs into the queue of a cluster.

use std::{collections::BTreeSet, ffi::OsString, path::PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::{
    cluster_access::{cluster_of, label},
    run_end::{end_json, print_end},
    worker_environment::host_name,
};
use crate::{
    app::App,
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    capability::{Budget, Usd},
    cli::{
        ask,
        batch::{FileTask, FileTasks},
        command_runtime::runtime,
        input,
        render::{self, CliOutputFormat, DIM, PLAIN, json_line, name, print, tell, warn},
        run::TaskMaterialArgs,
        runner_args::{self, RunnerArgs},
        trust,
    },
    cluster::{Cluster, RunPriority, RunSpec, Submission},
    cluster_runs::{ConfigBundle, RunSubmission},
    error::{ErrorKind, Report, count},
    limits,
    task::AnswerSchema,
};

/// Put a task into the queue of the cluster that the config names, for a worker on any host.
///
/// The config, the agents that are installed in the project, and the plugins of both go to the worker, each by its
/// digest. The project's files and credentials do not: a worker uses those of its own host. The run is recorded in a
/// session of the cluster.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host submit \"Look for typos in docs/\"
  shelly-host submit --wait \"What is 2 + 2?\"
  shelly-host submit --label gpu --priority high --max-cost 0.50 \"Summarize the report\"
  shelly-host submit --tasks tasks.jsonl --id typos --output json

With --wait, the exit code is that of shelly-host run.")]
pub struct SubmitArgs {
    /// The config file (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders; repeatable.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// The agent or team (default: the one of the session, or the entry agent of the config).
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The model: its name in the config.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Trust the project's config and permissions for this command without asking; see shelly-host config trust.
    #[arg(long)]
    trust: bool,
    /// The maximum cost of one run in US dollars, including all of its sub-runs.
    #[arg(long, value_name = "USD", value_parser = runner_args::cost)]
    max_cost: Option<Usd>,
    /// The maximum number of tokens of one run, including all of its sub-runs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    #[command(flatten)]
    material: TaskMaterialArgs,
    /// The session to continue; it is created if no session has this name (default: one with the id of the run).
    #[arg(long, value_name = "NAME", conflicts_with = "tasks")]
    session: Option<String>,
    /// The id of the run; with --tasks, the beginning of the ids, which end with the numbers of the lines. A run that was
    /// submitted before with this id is not submitted again (default: the time and random digits).
    #[arg(long, value_name = "ID", value_parser = run_id)]
    id: Option<String>,
    /// A label that the worker must have, such as gpu; repeatable.
    #[arg(long = "label", value_name = "LABEL", value_parser = label)]
    labels: Vec<String>,
    /// The order among the runs that wait.
    #[arg(long, value_name = "PRIORITY", value_enum, default_value_t = PriorityArg::Normal)]
    priority: PriorityArg,
    /// Let the worker use its own config instead of this one.
    #[arg(long, conflicts_with = "plugins")]
    worker_config: bool,
    /// Wait for the end of the runs and print their answers. Ctrl-C ends the wait alone.
    #[arg(long)]
    wait: bool,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    output: CliOutputFormat,
    /// A file of tasks, as shelly-host batch reads it: one JSON object per line.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["task", "attach", "schema"])]
    tasks: Option<PathBuf>,
    /// The task; `-` reads it from standard input.
    #[arg(value_name = "TASK", required_unless_present = "tasks")]
    task: Option<OsString>,
}

/// The priority of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PriorityArg {
    /// Before all others.
    High,
    /// Before those of low priority.
    Normal,
    /// When nothing else waits, and now and then when something does.
    Low,
}

impl From<PriorityArg> for RunPriority {
    fn from(priority: PriorityArg) -> Self {
        match priority {
            PriorityArg::High => Self::High,
            PriorityArg::Normal => Self::Normal,
            PriorityArg::Low => Self::Low,
        }
    }
}

/// Parses the id of a run.
fn run_id(text: &str) -> Result<String, String> {
    let most = limits::CLUSTER_RUN_ID_BYTES;
    match RunSpec::is_id(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("an id has 1 to {most} of a-z, 0-9 and -")),
    }
}

/// A run that was submitted.
struct SubmittedRun {
    id: String,
    session: String,
    labels: BTreeSet<String>,
    /// The id of its task in the tasks file.
    task: Option<String>,
    /// `true` if it was there before.
    is_known: bool,
}

impl SubmitArgs {
    pub fn execute(self) -> u8 {
        let output = self.output;
        let done = runtime().and_then(|runtime| runtime.block_on(self.run()));
        done.unwrap_or_else(|report| render::failed(&report, output.into()))
    }

    async fn run(self) -> Result<u8, Report> {
        let task = self.task.as_deref().map(input::task).transpose()?;
        let (schema, attachments) = (self.material.answer_schema()?, self.material.attachments()?);
        let runner = self.runner();
        let config = runner.read_config()?;
        let cluster = cluster_of(&config)?;
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let app = runner.app(config, broker)?;
        self.check(&app)?;
        let standing = app.standing(&trust::store(), self.config.is_some())?;
        // From here on the config leaves this machine.
        trust::admitted(&standing, self.trust, ask::is_attended()).await?;
        let bundle = match self.worker_config {
            true => None,
            false => {
                let packed = ConfigBundle::pack(&app)?;
                packed.upload(&cluster.objects()).await?;
                Some(packed.digest())
            }
        };
        let id = match &self.id {
            Some(id) => id.clone(),
            None => app.sessions().new_name().map_err(|error| error.report())?,
        };
        let new = |id: String, agent: Option<String>, model: Option<String>| {
            let agent = agent.or_else(|| self.agent.clone());
            // The agent is run by workers with its labels, whoever starts it.
            let of_agent = app.config.labels_of(agent.as_deref()).iter();
            let labels = of_agent.chain(&self.labels).cloned().collect::<BTreeSet<_>>();
            RunSubmission {
                id,
                session: self.session.clone(),
                agent,
                labels,
                model: model.or_else(|| self.model.clone()),
                task: None,
                attachments: Vec::new(),
                schema: None,
                bundle,
                priority: self.priority.into(),
                budget: Budget { usd: self.max_cost, tokens: self.max_tokens, ..Budget::default() },
                submitter: submitter(),
            }
        };
        let Some(path) = &self.tasks else {
            let schema = schema.as_ref().map(AnswerSchema::json);
            let run =
                submitted(RunSubmission { task, attachments, schema, ..new(id, None, None) }, None, &cluster).await?;
            self.print_submitted(&run)?;
            warn_of_missing_workers(&cluster, std::slice::from_ref(&run)).await;
            return if self.wait { self.print_ends(&[run], &cluster).await } else { Ok(0) };
        };
        let (mut tasks, mut runs) = (FileTasks::open(path)?, Vec::new());
        while let Some(FileTask { line_number, id: task_id, text, agent, model, attachments, schema }) = tasks.next()? {
            let run_id = run_id(&format!("{id}-{line_number}")).map_err(|why| Report::new(ErrorKind::Usage, why))?;
            let schema = schema.as_ref().map(AnswerSchema::json);
            let run = RunSubmission { task: Some(text), attachments, schema, ..new(run_id, agent, model) };
            let run = submitted(run, Some(task_id), &cluster).await?;
            self.print_submitted(&run)?;
            runs.push(run);
        }
        warn_of_missing_workers(&cluster, &runs).await;
        match self.wait {
            true => self.print_ends(&runs, &cluster).await,
            false => {
                tell(&format!("{DIM}{} submitted{PLAIN}\n", count(runs.len() as u64, "run", "runs")));
                Ok(0)
            }
        }
    }

    /// Checks what the command line and the tasks of its file name: a mistake would otherwise be told by a worker.
    fn check(&self, app: &App) -> Result<(), Report> {
        let check_runner = |agent: Option<&str>, model: Option<&str>| -> Result<(), Report> {
            // The config of the worker is not known here.
            if self.worker_config {
                return Ok(());
            }
            agent.map_or(Ok(()), |agent| app.config.check_runner(agent))?;
            // If the config has no models, the worker looks for one.
            model.map_or(Ok(()), |model| app.knows_model(model).map(drop))
        };
        check_runner(self.agent.as_deref(), self.model.as_deref())?;
        let Some(tasks) = &self.tasks else { return Ok(()) };
        let count = FileTasks::check(tasks, check_runner)?;
        match count > limits::CLUSTER_SUBMITTED_RUNS {
            true => {
                let what = format!("the file has {count} tasks, more than {}", limits::CLUSTER_SUBMITTED_RUNS);
                Err(Report::new(ErrorKind::Usage, what).hint("split the file, for example with split -l"))
            }
            false => Ok(()),
        }
    }

    fn runner(&self) -> RunnerArgs {
        RunnerArgs {
            config: self.config.clone(),
            plugins: self.plugins.clone(),
            trust: self.trust,
            ..RunnerArgs::default()
        }
    }

    /// Prints the id of a run, to standard output unless its answer goes there.
    fn print_submitted(&self, run: &SubmittedRun) -> Result<(), Report> {
        let SubmittedRun { id, session, task, is_known, .. } = run;
        let known = if *is_known { ", which was submitted before" } else { "" };
        match (self.output, self.wait) {
            (CliOutputFormat::Json, false) => {
                print(&json_line(&json!({"run": id, "session": session, "task": task, "known": is_known})))
            }
            (CliOutputFormat::Text, false) => {
                tell(&format!("{DIM}run {} in the session {}{known}{PLAIN}\n", name(id), name(session)));
                print(id)
            }
            (_, true) => {
                tell(&format!(
                    "{DIM}waiting for the run {} in the session {}{known}{PLAIN}\n",
                    name(id),
                    name(session)
                ));
                Ok(())
            }
        }
    }

    /// Waits for the runs and prints their ends. Returns the exit code.
    async fn print_ends(&self, runs: &[SubmittedRun], cluster: &Cluster) -> Result<u8, Report> {
        tell(&format!("{DIM}Ctrl-C ends the wait; shelly-host attach shows a run again{PLAIN}\n"));
        let mut code = 0;
        for SubmittedRun { id, session, task, .. } in runs {
            let ending = cluster.runs().ended(id).await.map_err(|error| error.report())?;
            match (task, &self.tasks) {
                (Some(task), Some(_)) => {
                    let mut line = end_json(id, session, &ending);
                    line["task"] = json!(task);
                    let is_ok = line["ok"] == json!(true);
                    print(&json_line(&line))?;
                    code = if is_ok { code } else { ErrorKind::Run.exit_code() };
                }
                _ => code = print_end(id, session, &ending, self.output)?,
            }
        }
        Ok(code)
    }
}

/// Submits a run.
async fn submitted(run: RunSubmission, task: Option<String>, cluster: &Cluster) -> Result<SubmittedRun, Report> {
    let (id, session, labels) = (run.id.clone(), run.session().to_owned(), run.labels.clone());
    let is_known = matches!(run.submit(cluster).await?, Submission::Known);
    Ok(SubmittedRun { id, session, labels, task, is_known })
}

/// Warns of runs that no worker could take now. They wait for one.
async fn warn_of_missing_workers(cluster: &Cluster, runs: &[SubmittedRun]) {
    // Without a list nothing is known.
    let Ok(workers) = cluster.workers().list().await else { return };
    let is_there = |labels: &BTreeSet<String>| workers.iter().any(|worker| worker.takes(labels));
    let wanted: BTreeSet<_> = runs.iter().map(|run| &run.labels).collect();
    for labels in wanted.into_iter().filter(|labels| !is_there(labels)) {
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        let (with, option) = match labels.join(",") {
            none if none.is_empty() => (String::new(), String::new()),
            labels => (format!(" with {labels}"), format!(" --labels {labels}")),
        };
        warn(&format!("no worker{with} is there now; start one with `shelly-host worker{option}`"));
    }
}

/// Returns the name of whoever submits, as far as the environment tells it.
fn submitter() -> String {
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let user: String = user.unwrap_or_default().chars().filter(|c| c.is_ascii_graphic()).take(32).collect();
    let host = host_name();
    if user.is_empty() { host } else { format!("{user}@{host}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_labels_are_checked_on_the_command_line() {
        let long = "x".repeat(limits::CLUSTER_RUN_ID_BYTES + 1);
        for (given, is_id, is_label) in [
            ("a-1", true, false),
            ("gpu_8", false, true),
            ("A", false, false),
            ("", false, false),
            (&*long, false, false),
        ] {
            assert_eq!((run_id(given).is_ok(), label(given).is_ok()), (is_id, is_label), "{given}");
        }
    }
}
