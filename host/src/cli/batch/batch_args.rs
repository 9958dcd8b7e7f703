use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
};

use clap::Args;

use super::{
    batch_costs::BatchCosts,
    batch_name::BatchName,
    batch_progress::{BatchCounts, BatchProgressBar},
    batch_run::{BatchEnd, BatchRun},
    dry_run, open_files,
    result_file::{PastResults, ResultFile, look_at_results},
    schema_cache::SchemaCache,
    session_room::check_room_for_all,
    task_file::{TaskFile, shown},
    task_index::{TaskIndex, TaskState},
    task_queue::TaskQueue,
    task_runner::TaskRunner,
    task_survey::{TaskSurvey, all_mistakes},
    vendor_batches::use_vendor_batches,
};
use crate::{
    app::{App, Recording},
    approval::ApprovalBroker,
    capability::Usd,
    cli::{
        ask::{self, ApprovalModeArg},
        config_path::read_config_with_toolboxes,
        host_environment::{compiling, environment, plugin_dirs},
        launch::{self, LaunchFlags},
        render::{self, DIM, PLAIN, RunOutputFormat, print, tell, tell_prose, warn},
        runner_args, secrets, signals, trust,
    },
    error::{ErrorKind, Report, count},
    files, limits,
    model::{Ledger, ModelInfo},
    session::SessionStore,
};

/// Run many tasks, each in a run of its own, and append their results to a file.
///
/// Each line of the tasks file is one task: {"task": "…"}. Optional keys are `id` (by default the line number), `agent`,
/// `model`, `attachments` (paths of text files, images and PDFs) and `schema` (the JSON Schema of the answer, or its path).
/// Each line of the results file is one result, in order of completion.
///
/// Run the same command again to continue a batch that was stopped. Answered tasks are not repeated, and interrupted tasks
/// are resumed from their sessions.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host batch --tasks tasks.jsonl --output results.jsonl
  shelly-host batch --tasks tasks.jsonl --output results.jsonl --retry-failed --jobs 16
  shelly-host batch --tasks tasks.jsonl --dry-run
  shelly-host batch --tasks tasks.jsonl --output results.jsonl --cheap --max-cost 5

Exit codes: 0 if every task is answered; 1 if tasks failed, or were not started because of --max-cost; 2 for wrong usage, before
any task runs; 130 after Ctrl-C.")]
pub struct BatchArgs {
    /// The tasks file, with one JSON object per line.
    #[arg(long, value_name = "FILE")]
    tasks: PathBuf,
    /// The results file, to which one JSON object per line is appended.
    #[arg(long, value_name = "FILE", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// The maximum number of tasks that run at once [default: 8; with --cheap the batch size of the model].
    #[arg(long, value_name = "N", value_parser = jobs)]
    jobs: Option<usize>,
    /// Repeat failed tasks.
    #[arg(long)]
    retry_failed: bool,
    /// Send requests through the batch API of the vendor: at a lower price, with replies after minutes to hours.
    #[arg(long)]
    cheap: bool,
    /// Start no further task once the batch has cost this many US dollars, earlier runs included. Running tasks continue.
    #[arg(long, value_name = "USD", value_parser = runner_args::cost)]
    max_cost: Option<Usd>,
    /// Estimate tokens and cost without sending a request.
    #[arg(long)]
    dry_run: bool,
    /// Do not record sessions; interrupted tasks start from the beginning.
    #[arg(long)]
    no_session: bool,
    /// The config file [default: .shelly/config.yaml or shelly.yaml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders; repeatable.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// The agent or team of tasks that name none [default: the entry agent of the config].
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The model of tasks that name none: its name in the config, or the id of a provider plugin that needs no grant.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The answer to requests for consent and questions of agents. Nobody is asked while tasks run.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ApprovalModeArg::Never)]
    approve: ApprovalModeArg,
    /// Trust the project's config and permissions for this run without asking; see shelly-host config trust. Also resume
    /// sessions of this batch that were not made here by you.
    #[arg(long)]
    trust: bool,
}

/// A batch of which only files were read.
struct PreparedBatch {
    app: App,
    broker: ApprovalBroker,
    schemas: SchemaCache,
    survey: TaskSurvey,
    /// With `--cheap`, the number of requests that a vendor's batch takes.
    requests_per_vendor_batch: Option<usize>,
}

/// Parses the number of tasks at once.
fn jobs(text: &str) -> Result<usize, String> {
    let most = limits::TASK_JOBS_CEILING;
    let jobs = text.parse().ok().filter(|jobs| (1..=most).contains(jobs));
    jobs.ok_or_else(|| format!("must be a number from 1 to {most}"))
}

impl BatchArgs {
    /// Runs the batch. Returns the exit code.
    pub fn execute(self) -> u8 {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let ended = runtime
            .map_err(|error| Report::new(ErrorKind::Bug, "cannot start the async runtime").cause(error))
            .and_then(|runtime| {
                let ended = runtime.block_on(self.run());
                // A guest in a computation yields within a tick; nothing else is waited for.
                runtime.shutdown_background();
                ended
            });
        ended.unwrap_or_else(|report| render::failed(&report, RunOutputFormat::Text))
    }

    /// Takes the batch through its steps, whose order matters: files are read, the person consents, the results file is locked,
    /// sessions are named after it, agents are built, and tasks run.
    async fn run(&self) -> Result<u8, Report> {
        // One listener covers the whole command: a signal between two of them would be lost.
        let mut interrupt = pin!(signals::ended());
        let PreparedBatch { app, broker, schemas, mut survey, requests_per_vendor_batch } = self.prepare()?;
        let standing = app.standing(&trust::store(), self.config.is_some())?;
        // Up to here only files were read. From here on keys are sent and plugins run, so consent is needed first.
        let trusted = tokio::select! {
            biased;
            code = &mut interrupt => return Ok(cancelled(code)),
            trusted = trust::admitted(&standing, self.trust, ask::is_attended()) => trusted?,
        };
        broker.trust(trusted);
        if self.dry_run {
            return self.estimate(&app, &mut survey).await;
        }
        let Some(output) = &self.output else { return Err(no_output()) };
        let mut results = ResultFile::open(output)?;
        let is_new = results.is_new;
        let past = results.recover(&mut survey.index)?;
        tell_past(&past, &survey.index, self.retry_failed);
        let pending = survey.index.count(|state| state.is_pending(self.retry_failed));
        if pending == 0 {
            return Ok(finished(&survey.index));
        }
        let jobs = self.jobs.or(requests_per_vendor_batch).unwrap_or(limits::TASK_JOBS).min(limits::TASK_JOBS_CEILING);
        open_files::make_room_for(jobs)?;
        let sessions = self.sessions(&app, &survey.index, output, is_new)?;
        let progress = Arc::new(BatchProgressBar::new());
        tokio::select! {
            biased;
            code = &mut interrupt => return Ok(cancelled(code)),
            ready = self.try_runners(&app, &survey, &progress) => ready?,
        }
        secrets::hide(app.secrets());
        if sessions.is_some() {
            launch::remember_session(&app.config.root, self.config.as_deref());
        }
        let counts = BatchCounts {
            tasks: survey.index.len() as u64,
            answered_before: survey.index.count(|state| state.is_answered),
            failed_before: survey.index.count(|state| state.has_failed() && !state.is_pending(self.retry_failed)),
            usd: past.usd,
            ..BatchCounts::default()
        };
        progress.begin(counts);
        let flags =
            LaunchFlags { config: self.config.clone(), plugins: self.plugins.clone(), model: self.model.clone() };
        let runner = Arc::new(TaskRunner {
            app,
            agent: self.agent.clone(),
            flags,
            sessions,
            is_trusted: self.trust,
            schemas,
            progress,
            costs: BatchCosts::new(past.usd),
        });
        tell(&format!(
            "{DIM}running {pending} of {}, at most {jobs} at once{PLAIN}\n",
            count(counts.tasks, "task", "tasks")
        ));
        let batch = BatchRun {
            runner: Arc::clone(&runner),
            queue: TaskQueue::new(TaskFile::open(&self.tasks)?, survey.index, self.retry_failed),
            jobs,
            max_cost: self.max_cost,
        };
        let end = batch.execute(results.into_writer()?, interrupt.as_mut()).await;
        self.report(end, runner).await
    }

    /// Reads the config and all tasks. Nothing is sent and no plugin runs.
    fn prepare(&self) -> Result<PreparedBatch, Report> {
        let mut config = read_config_with_toolboxes(self.config.as_ref(), &self.plugins)?;
        self.check_output()?;
        let schemas = SchemaCache::default();
        let survey = TaskSurvey::new(&self.tasks, (self.agent.as_deref(), self.model.as_deref()), &schemas)?;
        let requests_per_vendor_batch = match self.cheap {
            true => Some(use_vendor_batches(&mut config, &survey, &shown(&self.tasks))?),
            false => None,
        };
        let (broker, _) = ask::broker(Some(self.approve), false);
        let app = App::new(config, plugin_dirs(&self.plugins), compiling(), environment(), broker.clone())?;
        let app =
            app.with_own_key(trust::own_key()).with_approvals(trust::store(), self.trust).with_logins(trust::logins());
        Ok(PreparedBatch { app, broker, schemas, survey, requests_per_vendor_batch })
    }

    /// Returns the sessions of the project with the name of this batch, once its results file is locked; `None` if nothing is
    /// recorded.
    fn sessions(
        &self,
        app: &App,
        index: &TaskIndex,
        output: &Path,
        is_new: bool,
    ) -> Result<Option<(SessionStore, BatchName)>, Report> {
        if self.no_session || !app.config.sessions.is_recording() {
            return Ok(None);
        }
        let (store, batch_name) = (app.sessions(), BatchName::open(output, &app.config.root, is_new)?);
        let tasks = TaskFile::open(&self.tasks)?;
        check_room_for_all(&store, &batch_name, tasks, index, self.retry_failed)?;
        Ok(Some((store, batch_name)))
    }

    /// Checks that the results file is not the tasks file.
    fn check_output(&self) -> Result<(), Report> {
        let Some(output) = &self.output else { return Ok(()) };
        match files::resolved(output) == files::resolved(&self.tasks) {
            true => Err(Report::new(ErrorKind::Usage, format!("--output names the tasks file {}", shown(output)))
                .hint("name another file for the results")),
            false => Ok(()),
        }
    }

    /// Prints an estimate. Returns the exit code.
    async fn estimate(&self, app: &App, survey: &mut TaskSurvey) -> Result<u8, Report> {
        let past = match &self.output {
            Some(output) => look_at_results(output, &mut survey.index)?,
            None => PastResults::default(),
        };
        let defaults = (self.agent.as_deref(), self.model.as_deref());
        let tasks = TaskFile::open(&self.tasks)?;
        let text = dry_run::estimate(app, survey, tasks, defaults, self.retry_failed, &past).await?;
        print(&text)?;
        if self.cheap {
            tell(&format!("{DIM}vendors charge less than this for batches{PLAIN}\n"));
        }
        Ok(0)
    }

    /// Builds each agent that tasks name once, so that a mistake in the config fails the batch and not every task.
    async fn try_runners(&self, app: &App, survey: &TaskSurvey, progress: &BatchProgressBar) -> Result<(), Report> {
        let (tasks, mut notes, mut mistakes) = (shown(&self.tasks), HashSet::new(), Vec::new());
        for uses in &survey.runners {
            let prepared = app.agent(uses.agent.as_deref(), uses.model.as_deref(), Recording::Off).await;
            let has_no_price = |model: &ModelInfo| self.max_cost.is_some() && model.price.is_none();
            let prepared = match prepared {
                Ok(prepared) if has_no_price(&prepared.model) => Err(no_price(&prepared.model.model)),
                other => other,
            };
            let prepared = match prepared {
                Ok(prepared) => prepared,
                Err(report) => {
                    mistakes.push(uses.explain(report, &tasks));
                    if mistakes.len() == limits::TASK_MISTAKES {
                        break;
                    }
                    continue;
                }
            };
            prepared.warnings.iter().for_each(|warning| progress.note_warning(warning));
            progress.show_warnings();
            for note in prepared.notes {
                if !notes.contains(&note) {
                    tell_prose(&format!("{DIM}{}{PLAIN}\n", render::name(&note)));
                    notes.insert(note);
                }
            }
        }
        all_mistakes(&tasks, "agents or models that cannot be used", mistakes).map_or(Ok(()), Err)
    }

    /// Prints the end of the batch. Returns the exit code.
    async fn report(&self, end: Result<BatchEnd, Report>, runner: Arc<TaskRunner>) -> Result<u8, Report> {
        let (counts, elapsed) = (runner.progress.counts(), runner.progress.elapsed());
        let words = counts.words(elapsed);
        let closing = async {
            tokio::join!(runner.app.settled(), runner.app.close_servers());
            if let Some(warning) = runner.app.telemetry_flush().finish().await {
                warn(&warning);
            }
        };
        if let Ok(BatchEnd::Interrupted(code)) = end {
            let _ = tokio::time::timeout(limits::CANCEL_GRACE, closing).await;
            tell(&format!("stopped: {words}\n"));
            runner.progress.tell_failures();
            tell(&format!("{DIM}run the same command again to continue{PLAIN}\n"));
            return Ok(code);
        }
        closing.await;
        tell(&format!("{words}\n"));
        runner.progress.tell_failures();
        if let BatchEnd::TooCostly(cost) = end? {
            let left = counts.tasks - counts.done();
            let mend = "run the same command with a higher --max-cost to continue";
            tell(&format!(
                "{} not started because the batch has cost {cost}; {mend}\n",
                count(left, "task was", "tasks were")
            ));
            return Ok(ErrorKind::Run.exit_code());
        }
        if counts.failed + counts.failed_before > 0 {
            tell(&format!("{DIM}repeat the failed tasks with --retry-failed{PLAIN}\n"));
            return Ok(ErrorKind::Run.exit_code());
        }
        if let Some((_, batch_name)) = Arc::into_inner(runner).and_then(|runner| runner.sessions) {
            batch_name.forget();
        }
        Ok(0)
    }
}

/// Tells the person what earlier starts have left.
fn tell_past(past: &PastResults, index: &TaskIndex, retries_failed: bool) {
    if past.is_cut {
        tell(&format!("{DIM}the last result was incomplete; its task continues{PLAIN}\n"));
    }
    if past.unknown > 0 {
        let results = count(past.unknown, "result belongs", "results belong");
        warn(&format!("{results} to no task of this file"));
    }
    let (answered, failed) = (index.count(|state| state.is_answered), index.count(TaskState::has_failed));
    if answered + failed > 0 {
        let then = if failed > 0 && !retries_failed { "; repeat the failed tasks with --retry-failed" } else { "" };
        tell(&format!("{DIM}earlier runs: {answered} answered, {failed} failed{then}{PLAIN}\n"));
    }
}

/// Tells the person that no task is left. Returns the exit code.
fn finished(index: &TaskIndex) -> u8 {
    tell("no task is left to run\n");
    if index.count(TaskState::has_failed) > 0 { ErrorKind::Run.exit_code() } else { 0 }
}

fn cancelled(code: u8) -> u8 {
    render::cancelled(code, &Ledger::new(), None, RunOutputFormat::Text);
    code
}

fn no_output() -> Report {
    Report::new(ErrorKind::Usage, "no results file is named").hint("name one: --output results.jsonl")
}

fn no_price(model: &str) -> Report {
    Report::new(ErrorKind::Usage, format!("the price of the model {} is unknown", model.escape_debug()))
        .cause("--max-cost limits the cost of the batch")
        .hint("set the price, in dollars per million tokens: providers: [{…, price: {input: 0.25, output: 2}}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_jobs_is_bounded() {
        assert_eq!([jobs("1"), jobs("1000")], [Ok(1), Ok(1_000)]);
        for text in ["0", "1001", "-1", "many", ""] {
            assert_eq!(jobs(text), Err("must be a number from 1 to 1000".into()), "{text}");
        }
    }
}
