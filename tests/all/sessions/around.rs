//! Middleware around runs and requests after a crash: its cost is known, and it goes on where it was, also if the list of
//! middleware has changed.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use shelly_host::{
    agent::{
        AfterRunDecision, Agent, AgentGroup, BeforeRunDecision, RunMiddleware, RunOutcome, TimeoutMiddleware,
        journal::JournalState,
    },
    capability::{NameSet, Price},
    chat::{Chat, Message},
    error::Fault,
    event::RunCx,
    model::{Completion, ModelMiddleware, ModelRequestAttempt, ReplyVerdict, RequestVerdict},
};

use super::memory;
use crate::script::{Mind, text};

/// The fate of the first reply.
#[derive(Clone, Copy, Debug)]
enum First {
    Fails,
    Rejected,
    Repeated,
    LookedAtForEver,
}

#[async_trait]
impl ModelMiddleware for First {
    fn name(&self) -> &str {
        "first"
    }

    fn models(&self) -> &NameSet {
        static NONE: std::sync::LazyLock<NameSet> = std::sync::LazyLock::new(NameSet::default);
        &NONE
    }

    async fn before(&self, _: &RunCx, _: &ModelRequestAttempt<'_>) -> Result<RequestVerdict, Fault> {
        Ok(RequestVerdict::Proceed { model: None, request: None, state: vec![] })
    }

    async fn after(
        &self,
        _: &RunCx,
        sending: &ModelRequestAttempt<'_>,
        _: Result<&Completion, &Fault>,
        state: Vec<u8>,
    ) -> Result<ReplyVerdict, Fault> {
        match self {
            Self::Fails => Err(Fault::other("broken")),
            Self::Rejected => Ok(ReplyVerdict::Reject(Fault::other("bad"))),
            Self::Repeated if sending.attempt == 0 => {
                Ok(ReplyVerdict::Retry { model: None, delay: Duration::ZERO, state })
            }
            Self::Repeated => Ok(ReplyVerdict::Accept),
            Self::LookedAtForEver => std::future::pending().await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn discarded_reply_is_recorded_as_charged() {
    for first in [First::Fails, First::Rejected, First::Repeated, First::LookedAtForEver] {
        let recorder = memory();
        let agent_group = Arc::new(AgentGroup::default().with_recorder(recorder.clone()));
        let usd = |text: &str| text.parse().unwrap();
        let price = Price { input: usd("1"), output: usd("2"), cache_read: usd("1"), cache_write: usd("1") };
        let lead = Agent::new("lead", "", Arc::new(Mind::new(|_| text("so")).priced(price)))
            .with_model_middleware(first)
            .with_middleware(TimeoutMiddleware(Duration::from_millis(5)))
            .with_agent_group(Arc::clone(&agent_group), 0);
        let _ = lead.run(&RunCx::new("lead"), &Chat::recorded(), vec![Message::user("go")]).await;
        let past = JournalState::of(recorder.records()).unwrap();
        let paid = serde_json::to_string(&agent_group.ledger()).unwrap();
        assert!(paid.contains("lead"), "{first:?}: {paid}");
        assert_eq!(serde_json::to_string(past.ledger()).unwrap(), paid, "{first:?}");
    }
}

/// Wants a second attempt, and tells when it is called.
#[derive(Clone)]
struct Twice {
    name: &'static str,
    told: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl RunMiddleware for Twice {
    fn name(&self) -> &str {
        self.name
    }

    async fn before(&self, _: &RunCx, _: &[Message]) -> Result<BeforeRunDecision, Fault> {
        self.told.lock().unwrap().push(format!("{} before", self.name));
        Ok(BeforeRunDecision::Proceed { input: None, state: vec![] })
    }

    async fn after(&self, _: &RunCx, outcome: &RunOutcome, state: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        self.told.lock().unwrap().push(format!("{} {}", self.name, outcome.attempt));
        match outcome.attempt {
            0 => Ok(AfterRunDecision::Retry { feedback: None, delay: Duration::ZERO, state }),
            _ => Ok(AfterRunDecision::Accept),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn resumed_middleware_keeps_state_after_the_list_changed() {
    let lead = |agent_group: AgentGroup, names: &[&'static str], told: &Arc<Mutex<Vec<String>>>| {
        let lead = Agent::new("lead", "", Arc::new(Mind::new(|_| text("so"))));
        let lead = names.iter().fold(lead, |lead, name| lead.with_middleware(Twice { name, told: Arc::clone(told) }));
        lead.with_agent_group(Arc::new(agent_group), 0)
    };
    let recorder = memory();
    let agent_group = AgentGroup::default().with_recorder(recorder.clone());
    let task = vec![Message::user("go")];
    lead(agent_group, &["a", "b"], &Arc::default()).run(&RunCx::new("lead"), &Chat::recorded(), task).await.unwrap();
    let records = recorder.records();
    let is_repeated = |json: &str| json.contains("\"retried\"");
    let second = records.iter().position(|(_, record)| is_repeated(&serde_json::to_string(record).unwrap())).unwrap();
    for (names, expected) in [
        (&["a", "b"][..], "b 1, a 0, b before, b 0, b 1, a 1"),
        (&["b"], "b 1"),
        (&["b", "a"], "a 0, a 1, b 1"),
        (&["x", "a", "b"], "x before, b 1, a 0, b before, b 0, b 1, a 1, x 0, a before, b before"),
    ] {
        let past = JournalState::of(records[..=second].iter().cloned()).unwrap();
        let (chat, told) = (past.chat().unwrap(), Arc::default());
        let more = memory();
        let lead = lead(AgentGroup::default().resuming(more.clone(), past, &chat), names, &told);
        lead.resume(&RunCx::new("lead"), &chat, vec![]).await.unwrap().unwrap();
        let told = told.lock().unwrap().join(", ");
        assert!(told.starts_with(expected), "{names:?}: {told}");
        // What the resumed run has added can be resumed again, from wherever it is cut off.
        let more = more.records();
        for end in 0..=more.len() {
            let records = records[..=second].iter().chain(&more[..end]).cloned();
            JournalState::of(records).unwrap_or_else(|error| panic!("{names:?}, {end} records: {error}"));
        }
    }
}
