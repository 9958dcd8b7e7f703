//! Shows a run of a cluster from any host, and steers it.

use std::collections::HashMap;

use clap::Args;
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::{
    cluster_access::{ClusterConfigArgs, run_of},
    cluster_command::declined_words,
    event_line::{event_line, is_about_questions},
    remote_question::RemoteQuestion,
    run_end::print_end,
};
use crate::{
    cli::{
        ask::{self, TypedLine, TypedLines},
        command_runtime::runtime,
        project_sessions::sessions_of,
        render::{self, CliOutputFormat, DIM, PLAIN, json_line, name, print, tell, tell_prose, warn},
    },
    cluster::{Cluster, ClusterError, RunCommand, RunEndState, RunEntry, RunPhase, RunReply},
    config::Config,
    error::{ErrorKind, Report},
    limits,
    session::SessionStore,
};

/// Show a run in the queue of the cluster, from any host: what was recorded, then what happens, until it has ended.
///
/// Questions of its agents are asked at the terminal. The first answer counts if several people watch. With --answer,
/// --message or --cancel the command does that and ends.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host attach 20261122-101530-7f3a9c
  shelly-host attach release --answer yes
  shelly-host attach release --message \"Leave the changelog alone\"
  shelly-host attach release --cancel

The exit code is that of shelly-host run.")]
pub struct AttachArgs {
    #[command(flatten)]
    config: ClusterConfigArgs,
    /// Answer an open question: yes or no for a permission, otherwise a number of an option or any text.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["message", "cancel"])]
    answer: Option<String>,
    /// The number of the question that --answer is for (default: the only open one).
    #[arg(long, value_name = "ID", requires = "answer")]
    question: Option<String>,
    /// Give the agent a message, which it reads before its next turn.
    #[arg(long, value_name = "TEXT", conflicts_with = "cancel")]
    message: Option<String>,
    /// The agent of the run that --message is for (default: the one that the run began with).
    #[arg(long, value_name = "NAME", requires = "message")]
    agent: Option<String>,
    /// Cancel the run.
    #[arg(long)]
    cancel: bool,
    /// The output format: lines for people, or each event as JSON and the end.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    output: CliOutputFormat,
    /// The run, or its session.
    #[arg(value_name = "RUN")]
    id: String,
}

impl AttachArgs {
    pub fn execute(self) -> u8 {
        let output = self.output;
        let done = runtime().and_then(|runtime| runtime.block_on(self.run()));
        done.unwrap_or_else(|report| render::failed(&report, output.into()))
    }

    async fn run(self) -> Result<u8, Report> {
        let (config, cluster) = self.config.open()?;
        let entry = run_of(&cluster, &self.id).await?;
        let id = entry.spec.id.clone();
        let done = |what: &str| match self.output {
            CliOutputFormat::Text => print(what),
            CliOutputFormat::Json => print(&json_line(&json!({"run": id, "done": what}))),
        };
        if self.cancel {
            let entry = cluster.runs().cancel(&id).await.map_err(|error| error.report())?;
            done(match entry.ending().map(|ending| ending.state) {
                Some(RunEndState::Cancelled) => "cancelled",
                Some(_) => "it has ended",
                None => "its worker is told to cancel it",
            })?;
        } else if let Some(text) = &self.message {
            let command = RunCommand::Message { id: None, agent: self.agent.clone(), text: text.clone() };
            ask_run(&cluster, &id, &command).await?;
            done("the message is given")?;
        } else if let Some(line) = &self.answer {
            let question = self.question_to_answer(&cluster, &id).await?;
            answer(&cluster, &id, &question, line).await?;
            done("answered")?;
        } else {
            return self.watch(&config, &cluster, entry).await;
        }
        Ok(0)
    }

    /// Returns the open question that `--answer` is for.
    async fn question_to_answer(&self, cluster: &Cluster, id: &str) -> Result<RemoteQuestion, Report> {
        let mut open = open_questions(cluster, id).await?;
        if let Some(wanted) = &self.question {
            open.retain(|question| question.id == *wanted);
        }
        let refused = |what: &str, hint: &str| Err(Report::new(ErrorKind::Usage, what).hint(hint));
        match open.len() {
            0 => refused("the run has no such open question", "shelly-host attach RUN shows its questions"),
            1 => Ok(open.remove(0)),
            _ => {
                open.iter().for_each(|question| tell_prose(&format!("{}\n", question.shown())));
                refused("the run has several open questions", "name one with --question ID")
            }
        }
    }

    /// Shows a run until it has ended. Returns the exit code.
    async fn watch(&self, config: &Config, cluster: &Cluster, entry: RunEntry) -> Result<u8, Report> {
        let (id, session) = (entry.spec.id.clone(), entry.spec.session.clone());
        let report = |error: ClusterError| error.report();
        // Before the recorded ones are read, so that none is missed between the two.
        let mut lines = cluster.bus().follow(&id).await.map_err(report)?;
        let mut entries = cluster.runs().watch(&id).await.map_err(report)?;
        if let RunPhase::Running { .. } = entry.phase {
            // What happened just before is recorded by then.
            tokio::time::sleep(limits::SESSION_EVENTS_DELAY * 2).await;
        }
        let mut shown = self.show_recorded(&sessions_of(config, self.config.is_trusted())?, &session);
        let is_attended = self.output == CliOutputFormat::Text && ask::is_attended();
        if is_attended && entry.ending().is_none() {
            tell(&format!("{DIM}Ctrl-C ends the command alone; the run goes on{PLAIN}\n"));
        }
        let mut prompt = TerminalQuestion::new();
        let mut told = String::new();
        loop {
            let is_asked = is_attended && prompt.asked.is_some();
            let next_look = prompt.next_look;
            tokio::select! {
                entry = entries.next() => {
                    // Without a further state the run has ended, or it was removed.
                    let Some(entry) = entry.transpose().map_err(report)? else { break };
                    if let Some(ending) = entry.ending() {
                        // The worker has sent them before it wrote the end.
                        for _ in 0..limits::SERVE_RUN_EVENTS {
                            let Some(Some(line)) = lines.next().now_or_never() else { break };
                            self.show_line(&line)?;
                        }
                        return print_end(&id, &session, ending, self.output);
                    }
                    let now = phase_words(&entry);
                    if now != told {
                        tell(&format!("{DIM}{}{PLAIN}\n", name(&now)));
                        told = now;
                        self.next_question(cluster, &id, &mut prompt).await;
                    }
                }
                line = lines.next() => {
                    let Some(line) = line else { break };
                    let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
                    if shown.has_shown(&event) {
                        continue;
                    }
                    self.show(&event)?;
                    if is_about_questions(&event) {
                        self.next_question(cluster, &id, &mut prompt).await;
                    }
                }
                () = time_of(next_look) => self.next_question(cluster, &id, &mut prompt).await,
                line = next_line(&mut prompt.typed, is_asked) => match line {
                    TypedLine::End => {
                        warn("end of input: questions are left to others");
                        prompt.asked = None;
                    }
                    TypedLine::NotText => warn("the answer is not UTF-8 text"),
                    TypedLine::Text(line) => {
                        let Some(question) = prompt.asked.take() else { continue };
                        if let Err(report) = answer(cluster, &id, &question, &line).await {
                            warn(&report.with_hint());
                        }
                        self.next_question(cluster, &id, &mut prompt).await;
                    }
                },
            }
        }
        let ending = cluster.runs().ended(&id).await.map_err(|error| error.report())?;
        print_end(&id, &session, &ending, self.output)
    }

    /// Shows the recorded events of a session. Returns which ones those are.
    fn show_recorded(&self, store: &SessionStore, session: &str) -> ShownEvents {
        let mut shown = ShownEvents::default();
        // A session that does not exist yet, or cannot be read, has nothing to show.
        let Ok(mut events) = store.events(session) else { return shown };
        while let Ok(Some(event)) = events.next_event() {
            let json = format!("{{\"sequence\":{},{}}}", event.sequence, event.members);
            let Ok(event) = serde_json::from_str::<Value>(&json) else { continue };
            shown.note(&event);
            if self.show(&event).is_err() {
                break;
            }
        }
        shown
    }

    /// Shows a line of the bus, unless it is no event.
    fn show_line(&self, line: &[u8]) -> Result<(), Report> {
        serde_json::from_slice::<Value>(line).map_or(Ok(()), |event| self.show(&event))
    }

    fn show(&self, event: &Value) -> Result<(), Report> {
        match self.output {
            CliOutputFormat::Json => print(&json_line(event)),
            CliOutputFormat::Text => {
                if let Some(line) = event_line(event) {
                    tell(&format!("{line}\n"));
                }
                Ok(())
            }
        }
    }

    /// Looks for the question to ask now: the one that is asked, if it is still open, or the next one, which is shown.
    async fn next_question(&self, cluster: &Cluster, id: &str, prompt: &mut TerminalQuestion) {
        if self.output == CliOutputFormat::Json {
            return;
        }
        let reply = cluster.bus().ask(id, &RunCommand::Questions).await;
        let Some(open) = prompt.note_look(questions_at_work(reply)) else { return };
        if let Some(asked) = prompt.asked.take() {
            if open.contains(&asked) {
                prompt.asked = Some(asked);
                return;
            }
            tell(&format!("\n{DIM}{}{PLAIN}\n", ask::WITHDRAWN));
        }
        let Some(question) = open.into_iter().next() else { return };
        let is_attended = ask::is_attended();
        if is_attended {
            // Nobody can answer what they have not seen.
            prompt.typed.forget();
        }
        tell_prose(&question.shown());
        if !is_attended {
            tell("\n");
        }
        prompt.asked = Some(question);
    }
}

/// The question that a person is asked at the terminal.
struct TerminalQuestion {
    typed: TypedLines,
    /// `None`: nothing is asked.
    asked: Option<RemoteQuestion>,
    /// The time of the next look for questions, after one that failed.
    next_look: Option<Instant>,
    /// The failure of the last look, which is told once.
    failure: Option<String>,
}

impl TerminalQuestion {
    fn new() -> Self {
        Self { typed: TypedLines::new(), asked: None, next_look: None, failure: None }
    }

    /// Notes the outcome of a look for questions, and returns them. A failure is told, and the next look follows a moment
    /// later.
    fn note_look(&mut self, open: Result<Vec<RemoteQuestion>, Report>) -> Option<Vec<RemoteQuestion>> {
        let failure = open.as_ref().err().map(Report::with_hint);
        if let Some(failure) = failure.as_ref().filter(|failure| self.failure.as_ref() != Some(*failure)) {
            warn(&format!("cannot look for questions of the run: {failure}"));
        }
        self.next_look = failure.is_some().then(|| Instant::now() + limits::CLUSTER_QUESTION_PAUSE);
        self.failure = failure;
        open.ok()
    }
}

/// The recorded events that were shown. What was recorded meanwhile arrives as a live event too.
#[derive(Debug, Default)]
struct ShownEvents {
    /// The time of the last event about each run of an agent. Clocks of hosts differ, but each such run is on one of them.
    last: HashMap<String, String>,
}

impl ShownEvents {
    fn note(&mut self, event: &Value) {
        if event["event"] == "stream_started" {
            // Live events are those of the last attempt.
            self.last.clear();
        }
        if let (Some(run), Some(time)) = (event["run"].as_str(), event["time"].as_str()) {
            self.last.insert(run.to_owned(), time.to_owned());
        }
    }

    /// Returns `true` if a live event is among the recorded ones. After the first one of a run that is not, none is: its
    /// clock may jump back.
    fn has_shown(&mut self, event: &Value) -> bool {
        let Some(run) = event["run"].as_str() else { return false };
        let is_shown = |last: &String| event["time"].as_str().is_some_and(|time| time <= last.as_str());
        if self.last.get(run).is_some_and(is_shown) {
            return true;
        }
        self.last.remove(run);
        false
    }
}

/// Returns the next line that a person types; never ready unless one is asked for.
async fn next_line(typed: &mut TypedLines, is_asked: bool) -> TypedLine {
    match is_asked {
        true => typed.next().await,
        false => std::future::pending().await,
    }
}

/// Waits until this time; never ready without one.
async fn time_of(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Returns the state of a run that has not ended, in words.
fn phase_words(entry: &RunEntry) -> String {
    let declined = declined_words(entry);
    let of_entry = match &entry.phase {
        RunPhase::Queued { waits_for: Some(what) } => format!("queued{declined}: {what}"),
        RunPhase::Queued { waits_for: None } => format!("queued{declined}"),
        RunPhase::Running { worker, .. } => match entry.attempts() {
            ..=1 => format!("at work on {worker}{declined}"),
            attempts => format!("at work on {worker}, attempt {attempts}{declined}"),
        },
        RunPhase::Ended(_) => "ended".into(),
    };
    match entry.cancel_requested {
        true => format!("{of_entry}, to be cancelled"),
        false => of_entry,
    }
}

/// Sends a command to the worker that has a run. Returns its reply, if it does not refuse.
async fn ask_run(cluster: &Cluster, id: &str, command: &RunCommand) -> Result<RunReply, Report> {
    accepted(cluster.bus().ask(id, command).await)
}

/// Returns the reply of a worker, if it does not refuse.
fn accepted(reply: Result<RunReply, ClusterError>) -> Result<RunReply, Report> {
    match reply.map_err(|error| error.report())? {
        RunReply::Refused { reason } => Err(Report::new(ErrorKind::Run, "the run does not take it").cause(reason)),
        reply => Ok(reply),
    }
}

/// Returns the open questions of a run.
async fn open_questions(cluster: &Cluster, id: &str) -> Result<Vec<RemoteQuestion>, Report> {
    Ok(questions_in(&ask_run(cluster, id, &RunCommand::Questions).await?))
}

/// Returns the open questions in the reply to [`RunCommand::Questions`]. A run that no worker has at the moment asks
/// nothing.
fn questions_at_work(reply: Result<RunReply, ClusterError>) -> Result<Vec<RemoteQuestion>, Report> {
    match reply {
        Err(ClusterError::NotAtWork { .. }) => Ok(Vec::new()),
        reply => Ok(questions_in(&accepted(reply)?)),
    }
}

fn questions_in(reply: &RunReply) -> Vec<RemoteQuestion> {
    match reply {
        RunReply::Questions { questions } => {
            questions.iter().take(limits::OPEN_QUESTIONS).filter_map(RemoteQuestion::read).collect()
        }
        _ => Vec::new(),
    }
}

async fn answer(cluster: &Cluster, id: &str, question: &RemoteQuestion, line: &str) -> Result<(), Report> {
    let command = RunCommand::answer(&question.id, &question.attempt, question.reply(line)?);
    ask_run(cluster, id, &command).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::cluster::RunSpec;

    #[test]
    fn attempts_are_counted_without_those_that_were_declined() {
        let running = || RunPhase::Running { worker: "w".into(), attempt: 4, since: SystemTime::UNIX_EPOCH };
        let queued = || RunPhase::Queued { waits_for: Some("no trust".into()) };
        for (phase, starts, all_declines, words) in [
            (running(), 1, 0, "at work on w"),
            (running(), 4, 0, "at work on w, attempt 4"),
            (running(), 4, 3, "at work on w, declined 3 times"),
            (running(), 4, 1, "at work on w, attempt 3, declined 1 time"),
            (queued(), 2, 2, "queued, declined 2 times: no trust"),
        ] {
            let entry = RunEntry {
                spec: RunSpec::new("a", "s", None),
                phase,
                starts,
                deaths: 0,
                cancel_requested: false,
                warnings: Vec::new(),
                declined: None,
                declines: 0,
                all_declines,
            };
            assert_eq!(phase_words(&entry), words);
        }
    }

    #[test]
    fn live_events_of_an_attempt_are_shown_once() {
        let event = |run: &str, time: &str| json!({"event": "warning", "run": run, "time": time});
        let mut shown = ShownEvents::default();
        assert!(!shown.has_shown(&event("r1", "2026-11-27T10:00:00Z")), "nothing was recorded");
        shown.note(&event("r0", "2026-11-27T10:00:00Z"));
        shown.note(&json!({"event": "stream_started"}));
        shown.note(&event("r1", "2026-11-27T10:00:00Z"));
        // An agent to which it delegates.
        shown.note(&event("r1.1", "2026-11-27T10:00:02Z"));
        for (run, time, is_shown) in [
            ("r1", "2026-11-27T09:59:59Z", true),
            ("r1", "2026-11-27T10:00:00Z", true),
            ("r1.1", "2026-11-27T10:00:02Z", true),
            ("r1", "2026-11-27T10:00:01Z", false),
            // The clock jumps back.
            ("r1", "2026-11-27T08:00:00Z", false),
            // Another host goes on, whose clock is behind.
            ("r2", "2026-11-27T09:00:00Z", false),
            ("r0", "2026-11-27T09:00:00Z", false),
        ] {
            assert_eq!(shown.has_shown(&event(run, time)), is_shown, "{run} {time}");
        }
        assert!(!shown.has_shown(&json!({"event": "gap"})));
    }

    #[test]
    fn failed_look_for_questions_is_told_and_repeated() {
        let mut prompt = TerminalQuestion::new();
        let away = || ClusterError::Unreachable { servers: "nats://a:1".into(), reason: "refused".into() };
        let refused = || RunReply::Refused { reason: "no".into() };
        for (reply, is_known) in [
            (Err(away()), false),
            (Err(ClusterError::NotAtWork { run: "a".into() }), true),
            (Ok(refused()), false),
            (Ok(RunReply::Questions { questions: Vec::new() }), true),
        ] {
            let open = prompt.note_look(questions_at_work(reply));
            assert_eq!(open.is_some(), is_known);
            assert_eq!((prompt.next_look.is_none(), prompt.failure.is_none()), (is_known, is_known));
        }
    }
}
