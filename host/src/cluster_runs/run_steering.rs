//! Watching and steering a run from another host: its events, its questions, and commands.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    approval::Verdict,
    cluster::{ClusterError, CommandService, RunBus, RunCommand, RunReply},
    limits,
    serve::{
        hosted_runs::{HostedRun, QuestionReply, RunEventStep, RunHost},
        http_api::{parse_reply, question_json},
    },
};

/// A run that can be watched and steered from other hosts, as long as this lives.
pub(super) struct SteeredRun {
    _commands: CommandService,
    events: AbortOnDropHandle<()>,
}

impl SteeredRun {
    /// Answers the commands about the run `id` of the queue, which this host does as `run`, and sends its events. `cancel`
    /// is cancelled when somebody wants the run cancelled.
    ///
    /// # Errors
    ///
    /// A [`ClusterError`] if the server does not answer. The run can go on without it.
    pub async fn start(
        bus: &RunBus,
        id: &str,
        host: &RunHost,
        run: &Arc<HostedRun>,
        cancel: &CancellationToken,
    ) -> Result<Self, ClusterError> {
        let (of_commands, hosted, cancel) = (host.clone(), Arc::clone(run), cancel.clone());
        let answer = move |command: RunCommand| {
            let (host, run, cancel) = (of_commands.clone(), Arc::clone(&hosted), cancel.clone());
            let reply = async move { reply_to(command, &host, &run, &cancel).await };
            Box::pin(reply) as futures_util::future::BoxFuture<'static, RunReply>
        };
        let commands = bus.serve(id, answer).await?;
        let events = AbortOnDropHandle::new(tokio::spawn(send_events(bus.clone(), id.to_owned(), Arc::clone(run))));
        Ok(Self { _commands: commands, events })
    }

    /// Waits until the events of a run that has ended are sent.
    pub async fn finish(self) {
        let _ = timeout(limits::SERVE_END_TIME, self.events).await;
    }
}

/// Sends the events of a run until it has ended. Lines that nobody hears are lost: the session has what it records.
async fn send_events(bus: RunBus, id: String, run: Arc<HostedRun>) {
    let mut reader = run.events_after(0);
    loop {
        let line = match reader.next().await {
            RunEventStep::Event(record) => Bytes::copy_from_slice(record.json.as_bytes()),
            RunEventStep::Gap { from, to } => json!({"event": "gap", "from": from, "to": to}).to_string().into(),
            RunEventStep::Behind { after } => {
                reader = run.events_after(after);
                continue;
            }
            RunEventStep::End => return,
        };
        // A line that is too long, or that the server does not take, is lost too.
        let _ = bus.publish(&id, line).await;
    }
}

/// Does what a command says. It comes from another host, and may have been sent by anyone in the namespace.
async fn reply_to(command: RunCommand, host: &RunHost, run: &Arc<HostedRun>, cancel: &CancellationToken) -> RunReply {
    let refused = |reason: String| RunReply::Refused { reason };
    match command {
        RunCommand::Cancel => {
            // The entry says it too: a run that is cancelled twice is dropped.
            cancel.cancel();
            RunReply::Done
        }
        RunCommand::Message { text, .. } if text.len() > limits::TASK_BYTES => {
            refused(format!("the message has more than {} bytes", limits::TASK_BYTES))
        }
        // If this host dies a moment later, whoever goes on with the run has the message too.
        RunCommand::Message { agent, text, .. } => match run.send_recorded(agent.as_deref(), &text).await {
            Ok(()) => RunReply::Done,
            Err(error) => refused(error.to_string()),
        },
        RunCommand::Questions => {
            let open = host.questions().into_iter().filter(|open| open.question.run == *run.id());
            let secrets = host.secrets();
            let cleaned = |json: Value| {
                let bytes = secrets.clean_json(json.to_string().into_bytes(), |json| {
                    serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok()
                });
                serde_json::from_slice(&bytes).unwrap_or_default()
            };
            RunReply::Questions { questions: open.map(|open| cleaned(question_json(open))).collect() }
        }
        RunCommand::Answer { question, reply } => {
            let reply = match parse_reply(reply) {
                // It would be stored, and hold for all later runs of the person of this host.
                Ok(QuestionReply::Verdict(Verdict::Trust, _)) => {
                    return refused(
                        "trust from now on is given on the host of the worker alone; answer yes for this once, or no"
                            .into(),
                    );
                }
                Ok(reply) => reply,
                Err(why) => return refused(why),
            };
            let (id, attempt) = RunCommand::answered_question(&question);
            if attempt.is_some_and(|attempt| attempt != &**run.id()) {
                return refused("another worker has asked this; look at the open questions again".into());
            }
            // Of another run of this host, whoever watches this one decides nothing.
            let is_of_run =
                |id: &u64| host.questions().iter().any(|open| open.id == *id && open.question.run == *run.id());
            let Some(id) = id.parse().ok().filter(is_of_run) else {
                return refused("the run has no such open question".into());
            };
            match host.answer(id, &reply) {
                Ok(()) => RunReply::Done,
                Err(error) => refused(error.to_string()),
            }
        }
        RunCommand::Snapshot => {
            let snapshot = run.snapshot();
            let usage = snapshot.usage();
            RunReply::Snapshot {
                snapshot: json!({
                    "state": snapshot.state(),
                    "agent": snapshot.agent.as_deref(),
                    "model": snapshot.model,
                    "session": snapshot.session,
                    "last_event": snapshot.last_event,
                    "usage": usage,
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::hosted_runs::testing::{SilentHost, request};

    #[tokio::test]
    async fn commands_of_other_hosts_reach_the_run() {
        let silent = SilentHost::new(2).await;
        let run = silent.host.start(request("hello")).await.unwrap();
        let cancel = CancellationToken::new();
        let reply = async |command| reply_to(command, &silent.host, &run, &cancel).await;
        let message = |text: String| RunCommand::Message { id: None, agent: None, text };
        assert_eq!(reply(message("more".into())).await, RunReply::Done);
        let long = reply(message("x".repeat(limits::TASK_BYTES + 1))).await;
        assert!(matches!(long, RunReply::Refused { reason } if reason.contains("more than")));
        assert_eq!(reply(RunCommand::Questions).await, RunReply::Questions { questions: Vec::new() });
        let answer = RunCommand::Answer { question: "1".into(), reply: json!({"verdict": "yes"}) };
        assert!(
            matches!(reply(answer).await, RunReply::Refused { reason } if reason.contains("no such open question"))
        );
        let trust = RunCommand::Answer { question: "1".into(), reply: json!({"verdict": "trust"}) };
        assert!(
            matches!(reply(trust).await, RunReply::Refused { reason } if reason.contains("on the host of the worker"))
        );
        let late = reply(RunCommand::answer("1", "run-of-another-worker", json!({"verdict": "yes"}))).await;
        assert!(matches!(late, RunReply::Refused { reason } if reason.contains("another worker has asked this")));
        let own = reply(RunCommand::answer("1", run.id(), json!({"verdict": "yes"}))).await;
        assert!(matches!(own, RunReply::Refused { reason } if reason.contains("no such open question")));
        let RunReply::Snapshot { snapshot } = reply(RunCommand::Snapshot).await else { panic!("no snapshot") };
        assert_eq!((&snapshot["state"], &snapshot["agent"]), (&json!("running"), &json!("ada")));
        assert_eq!(reply(RunCommand::Cancel).await, RunReply::Done);
        assert!(cancel.is_cancelled());
        run.cancel();
        run.finished().await;
        assert!(matches!(reply(message("late".into())).await, RunReply::Refused { .. }));
    }
}
