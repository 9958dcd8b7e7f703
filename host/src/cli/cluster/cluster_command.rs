//! Lists the workers and the runs of a cluster, and cancels runs.

use std::time::SystemTime;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    cluster_access::{ClusterConfigArgs, run_of},
    cluster_upkeep::{ClusterKeyArgs, ClusterPruneArgs},
    unreadable_entries::{unreadable_json, unreadable_text},
};
use crate::{
    app,
    cli::{
        command_runtime::runtime,
        render::{self, CliOutputFormat, indented_json, json_line, name, one_line, print, size, tell, warn},
        session::{table, when},
    },
    cluster::{
        ClusterError, NamespaceLimits, NamespaceUse, NewerEntries, QueueDepth, RunEntry, RunListing, RunPhase,
        StreamSize, WorkerEntry, WorkerState,
    },
    error::{Report, count},
    limits,
};

/// Workers and runs of a cluster.
#[derive(Subcommand)]
pub enum ClusterCommand {
    Status(ClusterStatusArgs),
    Runs(ClusterRunsArgs),
    Cancel(ClusterCancelArgs),
    Prune(ClusterPruneArgs),
    Key(ClusterKeyArgs),
}

/// Show the workers, the queue, the runs at work and the use of the server.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host cluster status
  shelly-host cluster status --output json | jq '.queue'")]
pub struct ClusterStatusArgs {
    #[command(flatten)]
    config: ClusterConfigArgs,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    output: CliOutputFormat,
}

/// List runs, the newest first.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host cluster runs
  shelly-host cluster runs --limit 1000 --output json")]
pub struct ClusterRunsArgs {
    #[command(flatten)]
    config: ClusterConfigArgs,
    /// The maximum number of runs.
    #[arg(long, value_name = "N", value_parser = listed, default_value_t = limits::CLUSTER_RUNS_SHOWN)]
    limit: usize,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    output: CliOutputFormat,
}

/// Cancel a run: one that waits ends at once, one at work after its step.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host cluster cancel 20261122-101530-7f3a9c")]
pub struct ClusterCancelArgs {
    #[command(flatten)]
    config: ClusterConfigArgs,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    output: CliOutputFormat,
    /// The run, or its session.
    #[arg(value_name = "RUN")]
    id: String,
}

/// Parses the number of runs that are listed.
fn listed(text: &str) -> Result<usize, String> {
    let most = limits::CLUSTER_RUNS_LISTED;
    let count = text.parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("the number must be 1 to {most}"))
}

impl ClusterCommand {
    pub fn execute(self) -> u8 {
        let output = match &self {
            Self::Status(status) => status.output,
            Self::Runs(runs) => runs.output,
            Self::Cancel(cancel) => cancel.output,
            Self::Prune(prune) => prune.output,
            Self::Key(key) => key.output,
        };
        let done = runtime().and_then(|runtime| {
            runtime.block_on(async {
                match self {
                    Self::Status(status) => status.run().await,
                    Self::Runs(runs) => runs.run().await,
                    Self::Cancel(cancel) => cancel.run().await,
                    Self::Prune(prune) => prune.run().await,
                    Self::Key(key) => key.run(),
                }
            })
        });
        done.map_or_else(|report| render::failed(&report, output.into()), |()| 0)
    }
}

impl ClusterStatusArgs {
    async fn run(self) -> Result<(), Report> {
        let (config, cluster) = self.config.open()?;
        let report = |error: ClusterError| error.report();
        cluster.connect().await.map_err(report)?;
        let workers = cluster.workers().list().await.map_err(report)?;
        let depths = cluster.runs().depths().await.map_err(report)?;
        let RunListing { runs, unreadable } =
            cluster.runs().listing(limits::CLUSTER_RUNS_LISTED).await.map_err(report)?;
        let at_work: Vec<_> =
            runs.into_iter().filter(|entry| matches!(entry.phase, RunPhase::Running { .. })).collect();
        let newer = cluster.newer_entries().await.map_err(report)?;
        let sizes = cluster.sizes().await.map_err(report)?;
        let reserved = match cluster.counters().reserved().await {
            // All else is shown if this one value cannot be read.
            Err(why @ (ClusterError::Newer { .. } | ClusterError::Invalid { .. } | ClusterError::TooLarge { .. })) => {
                Err(why.report().with_hint())
            }
            reserved => Ok(reserved.map_err(report)?),
        };
        let of_namespace = app::namespace_limits(&config);
        let namespace = config.cluster.as_ref().map(|cluster| cluster.namespace.clone()).unwrap_or_default();
        if self.output == CliOutputFormat::Json {
            let [reserved, unread] = reserved_json(&reserved);
            let status = json!({
                "namespace": namespace,
                "workers": workers.iter().map(worker_json).collect::<Vec<_>>(),
                "queue": depths.iter().map(depth_json).collect::<Vec<_>>(),
                "runs": at_work.iter().map(run_json).collect::<Vec<_>>(),
                "reserved": reserved,
                "reserved_problem": unread,
                "limits": json!({"runs": of_namespace.runs, "tokens": of_namespace.tokens, "usd": of_namespace.usd}),
                "streams": sizes.iter().map(size_json).collect::<Vec<_>>(),
                "newer": json!({"runs": newer.runs, "workers": newer.workers, "sessions": newer.sessions}),
                "unreadable": unreadable_json(&unreadable),
            });
            return print(&indented_json(&status));
        }
        let now = SystemTime::now();
        let mut parts = vec![format!("namespace {}", name(&namespace)), workers_text(&workers), queue_text(&depths)];
        parts.push(if at_work.is_empty() { "no run is at work".into() } else { runs_text(&at_work, now) });
        parts.push(match &reserved {
            Ok(reserved) => reserved_text(reserved, &of_namespace),
            Err(why) => format!("reserved: not known, because it cannot be read: {}", name(why)),
        });
        parts.push(sizes_text(&sizes));
        // The runs are named with the others that cannot be read.
        parts.extend(newer_text(&NewerEntries { runs: 0, ..newer }));
        parts.extend(unreadable_text(&unreadable));
        print(&parts.join("\n\n"))
    }
}

impl ClusterRunsArgs {
    async fn run(self) -> Result<(), Report> {
        let (_, cluster) = self.config.open()?;
        let RunListing { runs: entries, unreadable } =
            cluster.runs().listing(self.limit).await.map_err(|error| error.report())?;
        if let Some(text) = unreadable_text(&unreadable) {
            warn(&text);
        }
        match self.output {
            CliOutputFormat::Json => print(&indented_json(&json!(entries.iter().map(run_json).collect::<Vec<_>>()))),
            CliOutputFormat::Text if entries.is_empty() => {
                tell("the queue has no runs; put one into it: shelly-host submit \"…\"\n");
                Ok(())
            }
            CliOutputFormat::Text => print(&runs_text(&entries, SystemTime::now())),
        }
    }
}

impl ClusterCancelArgs {
    async fn run(self) -> Result<(), Report> {
        let (_, cluster) = self.config.open()?;
        let id = run_of(&cluster, &self.id).await?.spec.id;
        let entry = cluster.runs().cancel(&id).await.map_err(|error| error.report())?;
        match (self.output, entry.ending()) {
            (CliOutputFormat::Json, _) => print(&json_line(&run_json(&entry))),
            (CliOutputFormat::Text, Some(ending)) => print(&format!("{id}: {}", word(&json!(ending.state)))),
            (CliOutputFormat::Text, None) => print(&format!("{id}: its worker is told to cancel it")),
        }
    }
}

/// Returns the word of a unit variant.
fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn worker_json(worker: &WorkerEntry) -> Value {
    let started = when(worker.started);
    let is_draining = matches!(worker.state, WorkerState::Draining);
    json!({
        "worker": worker.id, "host": worker.host, "pid": worker.pid, "version": worker.version, "labels": worker.labels,
        "jobs": worker.jobs, "running": worker.running, "state": if is_draining { "draining" } else { "working" },
        "started": started,
    })
}

fn depth_json(depth: &QueueDepth) -> Value {
    json!({
        "priority": depth.priority.word(), "labels": depth.labels, "waiting": depth.waiting, "taken": depth.taken,
    })
}

fn size_json(it: &StreamSize) -> Value {
    json!({"name": it.name, "messages": it.messages, "bytes": it.bytes})
}

fn run_json(entry: &RunEntry) -> Value {
    let spec = &entry.spec;
    let (state, worker, attempt) = match &entry.phase {
        RunPhase::Queued { .. } => ("queued".to_owned(), None, None),
        RunPhase::Running { worker, attempt, .. } => ("running".to_owned(), Some(worker), Some(*attempt)),
        RunPhase::Ended(ending) => (word(&json!(ending.state)), None, None),
    };
    let waits_for = match &entry.phase {
        RunPhase::Queued { waits_for } => waits_for.as_deref(),
        _ => None,
    };
    json!({
        "run": spec.id, "session": spec.session, "state": state, "waits_for": waits_for, "worker": worker,
        "attempt": attempt, "starts": entry.starts, "declines": entry.refusals(), "deaths": entry.deaths,
        "cancel_requested": entry.cancel_requested,
        "priority": spec.priority.word(), "labels": spec.labels, "agent": spec.agent, "submitter": spec.submitter,
        "submitted": when(spec.submitted), "warnings": entry.warnings,
        "answer": entry.ending().and_then(|ending| ending.answer.as_deref()),
        "error": entry.ending().and_then(|ending| ending.error.as_ref()),
        "usage": entry.ending().map(|ending| ending.usage), "cost_usd": entry.ending().and_then(|ending| ending.cost_usd),
    })
}

fn workers_text(workers: &[WorkerEntry]) -> String {
    if workers.is_empty() {
        return "no worker is there; start one: shelly-host worker".into();
    }
    let head = ["WORKER", "HOST", "VERSION", "STATE", "RUNS", "LABELS"].map(str::to_owned);
    let row = |worker: &WorkerEntry| {
        let is_draining = matches!(worker.state, WorkerState::Draining);
        [
            name(&worker.id),
            name(&worker.host),
            name(&worker.version),
            if is_draining { "draining".into() } else { "working".into() },
            format!("{}/{}", worker.running.len(), worker.jobs),
            labels_text(worker.labels.iter()),
        ]
    };
    table(&std::iter::once(head).chain(workers.iter().map(row)).collect::<Vec<_>>())
}

fn queue_text(depths: &[QueueDepth]) -> String {
    let head = ["PRIORITY", "LABELS", "WAITING", "TAKEN"].map(str::to_owned);
    let row = |depth: &QueueDepth| {
        let labels = labels_text(depth.labels.iter());
        [depth.priority.word().to_owned(), labels, depth.waiting.to_string(), depth.taken.to_string()]
    };
    match depths.is_empty() {
        true => "the queue is empty".into(),
        false => table(&std::iter::once(head).chain(depths.iter().map(row)).collect::<Vec<_>>()),
    }
}

fn runs_text(entries: &[RunEntry], now: SystemTime) -> String {
    let head = ["RUN", "STATE", "SINCE", "WORKER", "TASK"].map(str::to_owned);
    let row = |entry: &RunEntry| {
        let age = |since: SystemTime| {
            let seconds = now.duration_since(since).unwrap_or_default().as_secs();
            match seconds {
                0..120 => format!("{seconds} s"),
                120..7_200 => format!("{} min", seconds / 60),
                _ => format!("{} h", seconds / 3_600),
            }
        };
        let declined = declined_words(entry);
        let (state, since, worker) = match &entry.phase {
            RunPhase::Queued { waits_for: Some(what) } => {
                let what = one_line(what, limits::NAME_SHOWN_CHARS);
                (format!("queued{declined} ({what})"), entry.spec.submitted, String::new())
            }
            RunPhase::Queued { waits_for: None } => (format!("queued{declined}"), entry.spec.submitted, String::new()),
            RunPhase::Running { worker, since, .. } => {
                (format!("running, attempt {}{declined}", entry.attempts()), *since, name(worker))
            }
            RunPhase::Ended(ending) => (word(&json!(ending.state)), ending.finished, String::new()),
        };
        let task = entry.spec.task.as_deref().unwrap_or("(goes on)");
        [name(&entry.spec.id), state, age(since), worker, one_line(task, limits::NAME_SHOWN_CHARS)]
    };
    table(&std::iter::once(head).chain(entries.iter().map(row)).collect::<Vec<_>>())
}

/// Returns the words for how often workers have declined a run, to follow its state; empty if none has.
pub fn declined_words(entry: &RunEntry) -> String {
    match entry.refusals() {
        0 => String::new(),
        refusals => format!(", declined {}", count(refusals.into(), "time", "times")),
    }
}

/// Returns as JSON what the runs at work have reserved, and the reason if that cannot be read; one of them is null.
fn reserved_json(reserved: &Result<NamespaceUse, String>) -> [Value; 2] {
    match reserved {
        Ok(all) => [json!({"runs": all.runs, "tokens": all.tokens, "usd": all.usd}), Value::Null],
        Err(why) => [Value::Null, json!(why)],
    }
}

fn reserved_text(reserved: &NamespaceUse, of_namespace: &NamespaceLimits) -> String {
    let of = |used: String, most: Option<String>| most.map_or(used.clone(), |most| format!("{used} of {most}"));
    format!(
        "reserved: {} runs, {} tokens, {}",
        of(reserved.runs.to_string(), of_namespace.runs.map(|runs| runs.to_string())),
        of(reserved.tokens.to_string(), of_namespace.tokens.map(|tokens| tokens.to_string())),
        of(reserved.usd.to_string(), of_namespace.usd.map(|usd| usd.to_string()))
    )
}

/// Returns the words for what a newer version has written, if there is any.
fn newer_text(newer: &NewerEntries) -> Option<String> {
    let NewerEntries { runs, workers, sessions } = *newer;
    let parts = [(runs, "run", "runs"), (workers, "worker", "workers"), (sessions, "session", "sessions")];
    let parts = parts.iter().filter(|(number, ..)| *number > 0);
    let parts: Vec<_> = parts.map(|(number, one, many)| count(*number as u64, one, many)).collect();
    (!parts.is_empty()).then(|| {
        format!(
            "left alone, because a newer shelly-host wrote them: {}; update this host to see them",
            parts.join(", ")
        )
    })
}

fn sizes_text(sizes: &[StreamSize]) -> String {
    let head = ["STREAM", "MESSAGES", "SIZE"].map(str::to_owned);
    let row = |it: &StreamSize| [name(&it.name), it.messages.to_string(), size(it.bytes)];
    table(&std::iter::once(head).chain(sizes.iter().map(row)).collect::<Vec<_>>())
}

fn labels_text<'a>(labels: impl Iterator<Item = &'a String>) -> String {
    let labels: Vec<_> = labels.map(|label| name(label)).collect();
    if labels.is_empty() { "-".into() } else { labels.join(",") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::{QueuedRunEnd, RunEndState, RunSpec};

    #[test]
    fn reserved_sums_that_cannot_be_read_have_a_reason() {
        let [sums, why] = reserved_json(&Ok(NamespaceUse { runs: 2, ..NamespaceUse::default() }));
        assert_eq!((&sums["runs"], why), (&json!(2), Value::Null));
        assert_eq!(reserved_json(&Err("damaged".into())), [Value::Null, json!("damaged")]);
    }

    #[test]
    fn runs_are_listed_with_what_they_wait_for() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10_000);
        let entry = |id: &str, phase| RunEntry {
            spec: RunSpec { submitted: now - Duration::from_secs(60), ..RunSpec::new(id, id, Some("Go.\nOn.".into())) },
            phase,
            starts: 1,
            deaths: 0,
            cancel_requested: false,
            warnings: Vec::new(),
            declined: None,
            declines: 0,
            all_declines: 0,
        };
        let mut entries = [
            entry("a", RunPhase::Queued { waits_for: Some("runs of the namespace\u{1b}".into()) }),
            entry("b", RunPhase::Running { worker: "w-1".into(), attempt: 2, since: now - Duration::from_secs(9_000) }),
            entry("c", RunPhase::Ended(QueuedRunEnd { finished: now, ..QueuedRunEnd::new(RunEndState::Poisoned) })),
        ];
        entries[1].starts = 2;
        let text = runs_text(&entries, now);
        for row in ["queued (runs of the namespace", "60 s", "running, attempt 2 ", "2 h", "w-1", "poisoned", "Go. On."]
        {
            assert!(text.contains(row), "{row}: {text}");
        }
        assert!(!text.contains('\u{1b}'));
        assert_eq!(run_json(&entries[1])["worker"], json!("w-1"));
        // Workers that declined it made no attempt.
        (entries[0].all_declines, entries[1].starts, entries[1].all_declines) = (1, 5, 3);
        let text = runs_text(&entries, now);
        for row in ["queued, declined 1 time (runs of the namespace", "running, attempt 2, declined 3 times "] {
            assert!(text.contains(row), "{row}: {text}");
        }
        let run = run_json(&entries[1]);
        assert_eq!((&run["starts"], &run["declines"]), (&json!(5), &json!(3)));
        let newer = NewerEntries { runs: 1, workers: 0, sessions: 2 };
        let text = newer_text(&newer).unwrap();
        assert!(text.contains("1 run, 2 sessions"), "{text}");
        assert_eq!(newer_text(&NewerEntries::default()), None);
        assert!(listed("0").is_err() && listed(&(limits::CLUSTER_RUNS_LISTED + 1).to_string()).is_err());
    }
}
