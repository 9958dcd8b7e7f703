//! Replies that break off: what they used is charged, and they are retried a bounded number of times.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use shelly_host::{
    agent::{
        Agent, AgentGroup, AgentRegistry, RunAnswer, RunError,
        journal::{JournalRecord, JournalState},
    },
    capability::{Budget, Price, Usd},
    chat::{Chat, Message},
    error::Fault,
    event::{Event, RunCx},
    limits,
    model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo, ReplyDelta, Usage},
};
use tokio::{sync::Notify, time::Instant};

use super::agent;
use crate::{
    script::{Reply, run, text},
    sessions::{Memory, memory},
};

/// The outcome of one request: pieces of a reply, and how it ends.
type Attempt = (Vec<ReplyDelta>, Reply);

/// A model whose replies come in pieces, and which counts what it used.
pub struct Line {
    info: ModelInfo,
    attempts: Mutex<VecDeque<Attempt>>,
    asked: Mutex<Vec<Question>>,
    used: Mutex<Usage>,
    pub was_asked: Notify,
}

/// A request: the time at which it was sent, and the maximum length of its reply.
#[derive(Clone, Copy)]
struct Question {
    at: Instant,
    tokens: u64,
    longest: Option<u32>,
}

impl Line {
    pub fn new(attempts: impl IntoIterator<Item = Attempt>) -> Arc<Self> {
        let price = Price { input: usd("1"), output: usd("2"), cache_read: usd("1"), cache_write: usd("1") };
        Arc::new(Self {
            info: ModelInfo { price: Some(price), ..ModelInfo::named("line") },
            attempts: Mutex::new(attempts.into_iter().collect()),
            asked: Mutex::default(),
            used: Mutex::default(),
            was_asked: Notify::new(),
        })
    }

    fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }

    /// All that it used, broken replies included.
    fn used(&self) -> Usage {
        *self.used.lock().unwrap()
    }

    fn cost(&self) -> Usd {
        self.info.price.as_ref().unwrap().of(&self.used())
    }
}

#[async_trait]
impl Completer for Line {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn complete(&self, _: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Reply {
        let (tokens, longest) = (request.tokens(), request.max_output_tokens);
        self.asked.lock().unwrap().push(Question { at: Instant::now(), tokens, longest });
        self.was_asked.notify_one();
        let (pieces, end) = self.attempts.lock().unwrap().pop_front().expect("it is asked no more than that");
        let mut used = Usage::default();
        for piece in pieces {
            if let ReplyDelta::Usage(so_far) = &piece {
                used = *so_far;
            }
            sink.emit(piece).await;
        }
        *self.used.lock().unwrap() += end.as_ref().map_or(used, |reply| reply.usage);
        end
    }
}

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

fn usage(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

fn unavailable(after: Option<Duration>) -> Fault {
    Fault::Unavailable { message: "the connection broke".into(), after }
}

fn limited(after: Duration) -> Fault {
    Fault::RateLimited { message: "too many".into(), after: Some(after) }
}

/// A reply that says something, tells of its tokens and breaks off. What was told first counts no more.
pub fn breaks(used: Usage, fault: Fault) -> Attempt {
    (vec![ReplyDelta::Usage(usage(1, 0)), ReplyDelta::Text("Hal".into()), ReplyDelta::Usage(used)], Err(fault))
}

pub fn whole() -> Attempt {
    (vec![ReplyDelta::Text("Done.".into())], text("Done.").map(|reply| Completion { usage: usage(100, 10), ..reply }))
}

fn told_failures(events: &[Event]) -> Vec<(String, bool)> {
    let mut told = Vec::new();
    for event in events {
        if let Event::ModelFailed { agent, model, reason, again } = event {
            assert_eq!((&**agent, model.as_str()), ("ada", "line"));
            told.push((reason.clone(), *again));
        }
    }
    told
}

#[tokio::test(start_paused = true)]
async fn broken_reply_is_retried_a_bounded_number_of_times() {
    let most = limits::BROKEN_REPLIES;
    for (broken, end) in [
        (0, "Done."),
        (1, "Done."),
        (most, "Done."),
        (most + 1, "failed: the request to the model failed: the connection broke"),
    ] {
        let attempts = (0..broken).map(|at| breaks(usage(100, at as u64), unavailable(None))).chain([whole()]);
        let line = Line::new(attempts);
        let ran = run(&agent("ada", line.clone()), "go").await;
        assert_eq!(ran.told(), end, "{broken}");
        assert_eq!(line.asked().len(), broken.min(most) + 1);
        let told: Vec<_> = (0..broken).map(|at| ("the connection broke".to_owned(), at < most)).collect();
        assert_eq!(told_failures(&ran.events), told);
        for (at, pair) in line.asked().windows(2).enumerate() {
            let pause = limits::FIRST_RETRY_PAUSE * (1 << at);
            assert!((pause..=2 * pause).contains(&(pair[1].at - pair[0].at)), "each pause is about twice as long");
        }
        let Some(Event::RunFinished { usage, .. }) = ran.events.last() else { panic!("{:?}", ran.events) };
        assert_eq!(*usage, line.used(), "all of them are paid");
        if let Ok(answer) = &ran.end {
            let RunAnswer { usage, account, .. } = answer;
            assert_eq!((*usage, account.own.usage, account.own.usd), (line.used(), line.used(), line.cost()));
        }
        let chat = ran.chat.snapshot();
        assert!(!chat.iter().any(|entry| entry.message.text_content().contains("Hal")), "half a reply is none");
    }
}

#[tokio::test(start_paused = true)]
async fn only_transient_failures_of_begun_replies_are_retried() {
    let some = || vec![ReplyDelta::Text("Hal".into())];
    let used = || vec![ReplyDelta::Usage(usage(100, 1))];
    let (usual, ceiling) = (Duration::ZERO, limits::RETRY_AFTER_CEILING);
    let (soon, late) = (Duration::from_millis(7), ceiling + Duration::from_millis(1));
    let message = || "no".to_owned();
    for (pieces, fault, pause) in [
        (some(), unavailable(None), Some(usual)),
        (used(), unavailable(None), Some(usual)),
        (vec![ReplyDelta::Thinking("hm".into())], unavailable(None), Some(usual)),
        (vec![ReplyDelta::ToolCall("look".into())], unavailable(Some(soon)), Some(soon)),
        (some(), limited(soon), Some(soon)),
        (some(), limited(ceiling), Some(ceiling)),
        (some(), limited(late), None),
        (some(), unavailable(Some(late)), None),
        // What has not begun is the model's own matter.
        (vec![], unavailable(None), None),
        (vec![], limited(soon), None),
        // Who knows what a reply was worth that took too long; the others come to the same again.
        (some(), Fault::Timeout { message: message() }, None),
        (some(), Fault::other("no"), None),
        (some(), Fault::invalid("no"), None),
        (some(), Fault::Denied { message: message() }, None),
        (some(), Fault::NotFound { message: message() }, None),
        (some(), Fault::TooLarge { message: message() }, None),
        (some(), Fault::Exhausted { message: message() }, None),
    ] {
        let (case, reason) = (format!("{pieces:?} {fault:?}"), fault.to_string());
        let line = Line::new([(pieces, Err(fault)), whole()]);
        let began = Instant::now();
        let ran = run(&agent("ada", line.clone()), "go").await;
        let pauses: Vec<_> = line.asked().windows(2).map(|pair| pair[1].at - pair[0].at).collect();
        assert_eq!(pauses.len(), usize::from(pause.is_some()), "{case}");
        assert_eq!(began.elapsed(), pauses.first().copied().unwrap_or_default(), "{case}");
        if let (Some(asked), [waited]) = (pause, &*pauses) {
            // Not all who were told the same come back in the same moment.
            let first = limits::FIRST_RETRY_PAUSE;
            assert!((asked + first..=asked + 2 * first).contains(waited), "{case}: {waited:?}");
        }
        assert_eq!(ran.end.is_ok(), pause.is_some(), "{case}");
        assert_eq!(told_failures(&ran.events), [(reason, pause.is_some())], "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn broken_reply_pieces_are_emitted_and_then_retracted() {
    let line = Line::new([breaks(usage(100, 1), unavailable(None)), whole()]);
    let ran = run(&agent("ada", line), "go").await;
    let shown = ran.events.iter().filter_map(|event| match event {
        Event::ModelStarted { .. } => Some("started".to_owned()),
        Event::ModelDelta { delta: ReplyDelta::Text(text), .. } => Some(text.clone()),
        Event::ModelFailed { again, .. } => Some(format!("failed, again: {again}")),
        Event::ModelFinished { usage, .. } => Some(format!("finished with {} tokens", usage.total())),
        _ => None,
    });
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown, ["started", "Hal", "failed, again: true", "Done.", "finished with 110 tokens"]);
}

#[tokio::test(start_paused = true)]
async fn retry_of_a_broken_reply_is_bounded_by_the_remaining_budget() {
    let run_with = async |broken: Usage, budget: Budget| {
        let line = Line::new([breaks(broken, unavailable(None)), whole()]);
        let ran = run(&agent("ada", line.clone()).with_budget(budget), "go").await;
        (ran, line)
    };
    let tokens = Budget { tokens: Some(4_000), ..Budget::default() };
    let (ran, line) = run_with(usage(1_000, 500), tokens).await;
    let longest = |left: u64| line.asked().iter().map(|asked| left - asked.tokens).next();
    let bounds: Vec<_> = line.asked().iter().map(|asked| asked.longest.map(u64::from)).collect();
    assert_eq!(bounds, [longest(4_000), longest(2_500)]);
    assert_eq!(ran.told(), "Done.");

    // Two dollars buy a million tokens of a reply.
    let money = Budget { usd: Some(usd("0.004")), ..Budget::default() };
    let (_, line) = run_with(usage(1_000, 500), money).await;
    let bounds: Vec<_> = line.asked().iter().map(|asked| asked.longest.unwrap()).collect();
    assert_eq!(bounds[0] - bounds[1], 1_000, "what cost $0.002 is not there any more");

    for (budget, told) in [
        (tokens, "failed: the budget of 4000 tokens is used up: 4000 spent"),
        (
            Budget { usd: Some(usd("0.007")), ..Budget::default() },
            "failed: the budget of $0.007 is used up: $0.007 spent",
        ),
    ] {
        let (ran, line) = run_with(usage(1_000, 3_000), budget).await;
        assert_eq!((ran.told().as_str(), line.asked().len()), (told, 1));
        assert!(matches!(ran.end, Err(RunError::Budget(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn run_can_end_during_a_retry_pause() {
    let half = limits::FIRST_RETRY_PAUSE / 2;
    for (budget, told) in
        [(None, "failed: the run was cancelled"), (Some(half), "failed: the time budget of 250ms is used up")]
    {
        let line = Line::new([breaks(usage(100, 7), unavailable(None)), whole()]);
        let agent_group = Arc::new(AgentGroup::new(AgentRegistry::new()));
        let ada = agent("ada", line.clone())
            .with_agent_group(Arc::clone(&agent_group), 0)
            .with_budget(Budget { time: budget, ..Budget::default() });
        let cancel = async {
            line.was_asked.notified().await;
            tokio::time::sleep(half).await;
            if budget.is_none() {
                assert!(agent_group.cancel("ada"));
            }
        };
        let began = Instant::now();
        let (ran, ()) = tokio::join!(run(&ada, "go"), cancel);
        assert_eq!((ran.told().as_str(), began.elapsed(), line.asked().len()), (told, half, 1));
        assert_eq!(agent_group.ledger().total().usage, usage(100, 7), "what came was paid");
    }
}

/// An agent of one model, whose runs are written down.
fn recorded(line: &Arc<Line>, agent_group: &Arc<AgentGroup>) -> Agent {
    let budget = Budget { tokens: Some(4_000), ..Budget::default() };
    agent("ada", line.clone()).with_agent_group(Arc::clone(agent_group), 0).with_budget(budget)
}

fn wasted(records: &[(u64, JournalRecord)]) -> Vec<(Usage, Usd)> {
    let wasted = |(_, record): &(u64, JournalRecord)| match record {
        JournalRecord::Wasted { usage, cost } => Some((*usage, *cost)),
        _ => None,
    };
    records.iter().filter_map(wasted).collect()
}

#[tokio::test(start_paused = true)]
async fn wasted_usage_is_recorded_and_counts_after_a_resume() {
    // 0.001 $ and 0.0005 $.
    let costs = [(usage(1_000, 0), usd("0.001")), (usage(300, 100), usd("0.0005"))];
    let line = Line::new(costs.map(|(used, _)| breaks(used, unavailable(None))).into_iter().chain([whole()]));
    let recorder = memory();
    let agent_group = Arc::new(AgentGroup::new(AgentRegistry::new()).with_recorder(recorder.clone()));
    let (cx, chat) = (RunCx::new("ada"), Chat::recorded());
    recorded(&line, &agent_group).run(&cx, &chat, vec![Message::user("go")]).await.unwrap();
    let ledger = agent_group.ledger().total();
    assert_eq!((ledger.usage, ledger.usd, ledger.completions), (line.used(), line.cost(), 3));
    let records = recorder.records();
    assert_eq!(wasted(&records), costs);

    let first = records.iter().position(|(_, record)| matches!(record, JournalRecord::Wasted { .. })).unwrap();
    for (kept, before) in [(first, 0), (first + 1, 1_000), (first + 2, 1_400)] {
        goes_on(&records[..kept], before).await;
    }
}

/// Interrupted after these records, of which so many tokens had been used, it asks again and pays for that alone.
async fn goes_on(records: &[(u64, JournalRecord)], before: u64) {
    let past = JournalState::of(records.iter().cloned()).unwrap();
    let (chat, recorder, line) = (past.chat().unwrap(), memory(), Line::new([whole()]));
    let resumed =
        Arc::new(AgentGroup::new(AgentRegistry::new()).resuming(recorder.clone() as Arc<Memory>, past, &chat));
    assert_eq!(resumed.ledger().total().usage.total(), before);
    let answer = recorded(&line, &resumed).resume(&RunCx::new("ada"), &chat, vec![]).await.unwrap().unwrap();
    let asked = line.asked()[0];
    assert_eq!(asked.longest.map(u64::from), Some(4_000 - before - asked.tokens), "what is left of the budget");
    assert_eq!(resumed.ledger().total().usage.total(), before + 110);
    assert_eq!(answer.account.own.usage.total(), before + 110);
    assert!(wasted(&recorder.records()).is_empty());
}
