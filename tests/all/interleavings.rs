//! Random interleavings of events in a run. The conversation stays one that every vendor accepts, no agent keeps working,
//! and every token is counted.

mod found;
mod world;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use proptest::{collection::vec, prelude::*};
use shelly_host::{
    agent::{RunAnswer, RunError},
    capability::{Budget, BudgetAccount, Usd},
    chat::{Chat, Message},
    event::{EffectEditKind, Event, EventSink, RunCx},
    model::Usage,
};
use tokio::{runtime, task, time};

use crate::vendors::{check_messages, check_transcript};
use world::World;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_interleaving_leaves_an_invalid_transcript(tape in vec(any::<u8>(), 0..1500)) {
        play(tape);
    }
}

/// The observations of a run that is over.
struct Seen {
    world: Arc<World>,
    chat: Chat,
    budget_account: Arc<BudgetAccount>,
    budget: Budget,
    events: Vec<Event>,
    /// None: its future was dropped.
    outcome: Option<Result<RunAnswer, RunError>>,
}

/// Runs what the tape says, and looks at what came of it.
fn play(tape: Vec<u8>) {
    let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let seen = run(tape).await;
        seen.check_chats();
        seen.check_sums();
        seen.check_ends();
        seen.check_that_it_can_go_on().await;
    });
}

async fn run(tape: Vec<u8>) -> Seen {
    let world = World::new(tape);
    let agent = World::agent(&world, "ada");
    let (chat, budget) = (Chat::new(), agent.budget);
    let budget_account = BudgetAccount::new(&budget, time::Instant::now());
    let (sink, mut stream) = EventSink::channel();
    let cx = RunCx::new("ada").with_events(sink);
    let events = task::spawn(async move {
        let mut events = Vec::new();
        while let Some(event) = stream.next_event().await {
            events.push(event);
        }
        events
    });
    let run = agent.run_on(&cx, &chat, vec![Message::user("Go.")], &budget_account);
    let outcome = tokio::select! {
        biased;
        outcome = time::timeout(Duration::from_secs(30 * 24 * 3_600), run) => Some(outcome.expect("it hangs")),
        () = world.disturb() => None,
    };
    if outcome.is_none() {
        // What was dropped goes away as soon as it is looked at.
        for _ in 0..100 {
            task::yield_now().await;
        }
    }
    assert_eq!(world.alive(), 0, "something goes on");
    assert_eq!(world.agent_group.working(), Vec::<Arc<str>>::new(), "somebody works on");
    drop((cx, agent));
    let events = time::timeout(Duration::from_secs(1), events).await.expect("somebody has events to tell").unwrap();
    Seen { world, chat, budget_account, budget, events, outcome }
}

impl Seen {
    /// Its own conversation, every request, and those of the others as far as events tell of them.
    fn check_chats(&self) {
        check_transcript(&self.chat.snapshot());
        let refused = self.world.refused.lock().unwrap();
        assert!(refused.is_empty(), "{}", refused.join("\n"));
        let mut chats: HashMap<&str, Vec<&Message>> = HashMap::new();
        let mut rewritten = HashSet::new();
        for event in &self.events {
            match event {
                Event::MessageAdded { agent, message: Some(message), .. } => {
                    chats.entry(agent).or_default().push(message);
                }
                Event::MessageAdded { agent, message: None, .. } => drop(rewritten.insert(&**agent)),
                Event::EffectEdited { agent, edit: EffectEditKind::Replace, .. } => drop(rewritten.insert(&**agent)),
                _ => {}
            }
        }
        for event in &self.events {
            // Only of one that has ended everything is told.
            let Event::RunFinished { agent, .. } = event else { continue };
            if let Some(messages) = chats.get(&**agent).filter(|_| !rewritten.contains(&**agent)) {
                check_messages(messages).unwrap_or_else(|broken| panic!("{agent}: {broken}\n{messages:#?}"));
            }
        }
    }

    /// Asserts that the reported usage is the counted one, everywhere.
    fn check_sums(&self) {
        let (usage, usd) = self.world.charged();
        let spent = self.budget_account.spent();
        assert_eq!(spent.total().usage, usage);
        assert_eq!(spent.total().usd, usd);
        let called = self.world.called.load(Ordering::Relaxed);
        assert!(spent.total().tool_calls >= called, "{} calls were taken, {called} made", spent.total().tool_calls);
        if let Some(bound) = self.budget.tool_calls {
            assert!(spent.total().tool_calls <= bound, "{} of {bound}", spent.total().tool_calls);
        }
        let over = |spent, bound: Option<u64>| bound.is_some_and(|bound| spent > bound);
        let overspent = over(usage.total(), self.budget.tokens) || over(usd.pico(), self.budget.usd.map(Usd::pico));
        assert_eq!(self.budget_account.overshoot().is_some(), overspent);
        if self.outcome.is_some() {
            let told = |event: &Event| matches!(event, Event::Overspent { agent, .. } if **agent == *"ada");
            assert_eq!(self.events.iter().any(told), overspent, "{:?}", self.budget_account.overshoot());
        }
        if let Some(Ok(answer)) = &self.outcome {
            assert_eq!(answer.account, spent, "something was counted after the end");
            assert_eq!(answer.usage, spent.own.usage);
        }
        let left = self.budget_account.left();
        assert_eq!(left.tokens, self.budget.tokens.map(|bound| bound.saturating_sub(usage.total())), "reserved");
    }

    /// Every run that began has ended, and what they say they used is what was used.
    fn check_ends(&self) {
        let mut open = HashSet::new();
        let mut sum = Usage::default();
        for event in &self.events {
            match event {
                Event::RunStarted { agent, .. } => assert!(open.insert(agent), "{agent} begins twice"),
                Event::RunFinished { agent, usage, .. } => {
                    assert!(open.remove(agent), "{agent} ends, and did not begin or ended before");
                    sum += *usage;
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "{open:?} did not end");
        assert_eq!(sum, self.world.charged().0);
    }

    /// The conversation that is left can be gone on with.
    async fn check_that_it_can_go_on(self) {
        self.world.calm_down();
        let agent = World::agent(&self.world, "ada");
        let answer = agent.run(&RunCx::new("ada"), &self.chat, vec![Message::user("And now?")]).await.unwrap();
        assert_eq!(answer.message.text_content(), "done");
        check_transcript(&self.chat.snapshot());
        let refused = self.world.refused.lock().unwrap();
        assert!(refused.is_empty(), "{}", refused.join("\n"));
    }
}
