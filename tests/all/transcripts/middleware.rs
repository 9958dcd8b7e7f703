//! Runs of an agent with middleware around them, as transcripts.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use insta::assert_snapshot;
use shelly_host::{
    agent::{
        AfterRunDecision, Agent, BeforeRunDecision, EffectAction, EffectPhase, EffectStep, RunMiddleware, RunOutcome,
    },
    chat::{Chat, Message, Part, Role},
    error::Fault,
    event::RunCx,
    limits,
};

use super::{ALL, agent, cx, effect, run, with};
use crate::script::text;

type After = dyn Fn(&RunOutcome) -> Result<AfterRunDecision, Fault> + Send + Sync;

struct TestMiddleware {
    name: &'static str,
    before: fn(&[Message]) -> Result<BeforeRunDecision, Fault>,
    after: Box<After>,
    log: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl RunMiddleware for TestMiddleware {
    fn name(&self) -> &str {
        self.name
    }
    async fn before(&self, _: &RunCx, input: &[Message]) -> Result<BeforeRunDecision, Fault> {
        let input_text: Vec<_> = input.iter().map(Message::text_content).collect();
        self.log.lock().unwrap().push(format!("{} before {}", self.name, input_text.join("|")));
        (self.before)(input)
    }
    async fn after(&self, _: &RunCx, outcome: &RunOutcome, _: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        let reply = outcome.reply.as_ref().map_or_else(ToString::to_string, Message::text_content);
        self.log.lock().unwrap().push(format!("{} after {reply} ({})", self.name, outcome.attempt));
        (self.after)(outcome)
    }
}

fn proceed(_: &[Message]) -> Result<BeforeRunDecision, Fault> {
    Ok(BeforeRunDecision::Proceed { input: None, state: vec![] })
}

fn around(
    agent: &mut Agent,
    name: &'static str,
    before: fn(&[Message]) -> Result<BeforeRunDecision, Fault>,
    after: impl Fn(&RunOutcome) -> Result<AfterRunDecision, Fault> + Send + Sync + 'static,
) -> Arc<Mutex<Vec<String>>> {
    let log = Arc::new(Mutex::new(Vec::new()));
    agent.middleware.push(Arc::new(TestMiddleware { name, before, after: Box::new(after), log: log.clone() }));
    log
}

fn accept(_: &RunOutcome) -> Result<AfterRunDecision, Fault> {
    Ok(AfterRunDecision::Accept)
}

#[tokio::test]
async fn middleware_order_is_outermost_first() {
    let mut agent = agent([text("done")]);
    let outer = around(
        &mut agent,
        "outer",
        |_| Ok(BeforeRunDecision::Proceed { input: Some(vec![Message::user("go gently")]), state: vec![] }),
        accept,
    );
    let inner = around(&mut agent, "inner", proceed, |outcome| {
        let mut message = outcome.reply.clone()?;
        message.parts = vec![Part::Text("polished".into())];
        Ok(AfterRunDecision::Replace(message))
    });
    assert_snapshot!(run(agent).await, @r"
    user: go gently
    assistant: done
    => answer: polished
    ");
    assert_eq!(*outer.lock().unwrap(), ["outer before go", "outer after polished (0)"]);
    assert_eq!(*inner.lock().unwrap(), ["inner before go gently", "inner after done (0)"]);
}

#[tokio::test]
async fn middleware_may_answer_or_reject_without_a_run() {
    let mut first = agent([]);
    around(
        &mut first,
        "cache",
        |_| Ok(BeforeRunDecision::Answer(Message::text(Role::Assistant, "cache", "known"))),
        accept,
    );
    let inner = around(&mut first, "inner", proceed, accept);
    assert_snapshot!(run(first).await, @"
    => answer: known
    ");
    assert!(inner.lock().unwrap().is_empty());
    let mut second = agent([]);
    around(
        &mut second,
        "guard",
        |_| Ok(BeforeRunDecision::Reject(Fault::Denied { message: "not that".into() })),
        accept,
    );
    assert_snapshot!(run(second).await, @"
    => failed: rejected by middleware `guard`: not that
    ");
}

#[tokio::test]
async fn middleware_retry_continues_the_chat_with_feedback() {
    let mut agent = agent([text("prose"), text("{}")]);
    let log = around(&mut agent, "json", proceed, |outcome| match outcome.reply.clone()?.text_content() {
        text if text.starts_with('{') => Ok(AfterRunDecision::Accept),
        _ => {
            let feedback = Some("answer in JSON".into());
            Ok(AfterRunDecision::Retry { feedback, delay: Duration::ZERO, state: vec![] })
        }
    });
    assert_snapshot!(run(agent).await, @r"
    user: go
    assistant: prose
    user: answer in JSON
    assistant: {}
    => answer: {}
    ");
    assert_eq!(*log.lock().unwrap(), ["json before go", "json after prose (0)", "json after {} (1)"]);
}

#[tokio::test]
async fn middleware_retries_are_bounded() {
    let mut agent = agent((0..9).map(|_| text("no")).collect::<Vec<_>>());
    around(&mut agent, "never", proceed, |_| {
        Ok(AfterRunDecision::Retry { feedback: Some("again".into()), delay: Duration::ZERO, state: vec![] })
    });
    assert_snapshot!(run(agent).await, @r"
    user: go
    assistant: no
    user: again
    assistant: no
    user: again
    assistant: no
    user: again
    assistant: no
    user: again
    assistant: no
    user: again
    assistant: no
    user: again
    assistant: no
    user: again
    assistant: no
    user: again
    assistant: no
    => failed: rejected by middleware `never`: the middleware asked for more than 8 retries
    ");
}

#[tokio::test]
async fn middleware_state_is_bounded() {
    let much = |_: &[Message]| Ok(BeforeRunDecision::Proceed { input: None, state: vec![0; limits::STATE_BYTES + 1] });
    let mut agent = agent([text("done")]);
    around(&mut agent, "hoarder", much, accept);
    assert_snapshot!(run(agent).await, @"
    => failed: middleware `hoarder` failed: the returned state has 65537 bytes, the maximum is 65536
    ");
}

#[tokio::test]
async fn failed_middleware_fails_the_run() {
    let mut agent = agent([text("done")]);
    around(&mut agent, "broken", proceed, |_| Err(Fault::other("out of ideas")));
    assert_snapshot!(run(agent).await, @r"
    user: go
    assistant: done
    => failed: middleware `broken` failed: out of ideas
    ");
}

#[tokio::test]
async fn middleware_attempts_are_one_run() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let counter = effect(EffectPhase::BeforeModel, &ALL, move |moment, _, mut state| {
        sees.lock().unwrap().push((moment.iteration, state.len()));
        state.push(0);
        Ok(EffectStep { state, action: EffectAction::Edits(vec![]), wake: None })
    });
    let mut agent = with(counter, [text("one"), text("two"), text("three")]);
    agent.options.max_iterations = 2;
    around(&mut agent, "never", proceed, |outcome| match outcome.attempt {
        0 | 1 => Ok(AfterRunDecision::Retry { feedback: Some("again".into()), delay: Duration::ZERO, state: vec![] }),
        _ => Ok(AfterRunDecision::Accept),
    });
    assert_snapshot!(run(agent).await, @r"
    user: go
    assistant: one
    user: again
    assistant: two
    user: again
    => failed: no answer after 2 turns
    ");
    assert_eq!(*seen.lock().unwrap(), [(0, 0), (1, 1)], "effects keep their state, turns go on");
}

#[tokio::test]
async fn middleware_feedback_is_a_note() {
    let mut agent = agent([text("one"), text("two")]);
    around(&mut agent, "once", proceed, |outcome| match outcome.attempt {
        0 => Ok(AfterRunDecision::Retry { feedback: Some("again".into()), delay: Duration::ZERO, state: vec![] }),
        _ => Ok(AfterRunDecision::Accept),
    });
    let chat = Chat::new();
    agent.run(&cx(), &chat, vec![Message::user("go")]).await.unwrap();
    let notes: Vec<_> = chat.snapshot().iter().map(|entry| entry.note).collect();
    assert_eq!(notes, [false, false, false, true, false]);
}
