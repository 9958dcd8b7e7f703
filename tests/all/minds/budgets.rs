//! Budgets along delegation: the share of each agent, what comes back, and what happens when a share is used up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::{Value, json};
use shelly_host::{
    agent::{Agent, Effect, EffectAction, EffectInput, EffectPhase, EffectStep, ModelQuery, RunError},
    capability::{Budget, BudgetExhausted, Power, Powers, Price, Usd},
    chat::{ChatSnapshot, Usage},
    error::Fault,
    event::{Event, RunCx},
    limits,
    model::{Completion, CompletionRequest, StopReason},
};

use super::{agent, agent_group, delegate, done, lead, order, orders, with, with_steps};
use crate::script::{Mind, Ran, Reply, act, acts, hangs, run, stopped, text, tool};

/// A reply that uses so many tokens.
fn uses(tokens: u64, reply: Reply) -> Reply {
    reply.map(|reply| Completion { usage: Usage { input_tokens: tokens, ..Usage::default() }, ..reply })
}

/// A reply that costs nothing, so that sums are plain.
fn free(reply: Reply) -> Reply {
    uses(0, reply)
}

fn tokens(tokens: u64) -> Budget {
    Budget { tokens: Some(tokens), ..Budget::default() }
}

fn tool_calls(calls: u64) -> Budget {
    Budget { tool_calls: Some(calls), ..Budget::default() }
}

/// An agent that works on and on, `each` tokens a turn.
fn glutton(name: &str, each: u64) -> Agent {
    agent(name, Arc::new(Mind::new(move |_| uses(each, act("look", json!({}))))))
        .with_tool(tool("look", async |_| Ok("nothing".into())))
}

fn bound_of(entry: &Value) -> &str {
    let told = entry["result"].as_str().unwrap_or_else(|| panic!("{entry}"));
    let (_, bound) = told.split_once("the budget of ").unwrap_or_else(|| panic!("{told}"));
    bound.split_once(" is used up").unwrap().0
}

#[tokio::test(start_paused = true)]
async fn sub_runs_share_the_budget_and_the_parent_keeps_one_share() {
    let named = |tokens: u64| with(order("glutton", "eat"), "budget", json!({"tokens": tokens}));
    let plain = || order("glutton", "eat");
    for (tasks, shares) in [
        (vec![plain()], vec!["4500 tokens"]),
        (vec![plain(), plain()], vec!["3000 tokens", "3000 tokens"]),
        (vec![named(1_000), plain()], vec!["1000 tokens", "4000 tokens"]),
        (vec![plain(), named(8_000)], vec!["500 tokens", "8000 tokens"]),
        (vec![named(7_000), named(7_000)], vec!["7000 tokens", "2000 tokens"]),
        (vec![named(9_000), plain()], vec!["9000 tokens", "0 tokens"]),
    ] {
        let lead = lead(agent_group([glutton("glutton", 10_000)]), [free(orders(tasks)), free(text("done"))]);
        let ran = run(&lead.with_budget(tokens(9_000)), "go").await;
        let entries = ran.entries();
        assert_eq!(entries.as_array().unwrap().iter().map(bound_of).collect::<Vec<_>>(), shares);
        assert!(entries[0]["completion"]["status"] == "failed" && entries[0].get("error").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn own_budget_bounds_a_share_without_affecting_others() {
    let frugal = glutton("frugal", 10_000).with_budget(tokens(600));
    let tasks = [delegate(&[("frugal", "eat"), ("glutton", "eat")])].map(free);
    let lead = lead(agent_group([frugal, glutton("glutton", 10_000)]), tasks.into_iter().chain([free(text("done"))]));
    let entries = run(&lead.with_budget(tokens(9_000)), "go").await.entries();
    assert_eq!([bound_of(&entries[0]), bound_of(&entries[1])], ["600 tokens", "3000 tokens"]);
}

#[tokio::test(start_paused = true)]
async fn unspent_budget_returns_and_spending_is_reported() {
    let modest = with_steps("modest", [uses(1_000, done("done"))]);
    let steps = [
        free(delegate(&[("modest", "eat"), ("modest", "eat")])),
        uses(500, delegate(&[("glutton", "eat")])),
        free(text("done")),
    ];
    let ran =
        run(&lead(agent_group([modest, glutton("glutton", 3_000)]), steps).with_budget(tokens(9_000)), "go").await;
    // 9,000 less twice 1,000 less 500 leaves 6,500, of which a half is kept.
    let second: Value = serde_json::from_str(&ran.results()[1]).unwrap();
    assert_eq!(bound_of(&second[0]), "3250 tokens");
    let account = ran.end.as_ref().unwrap().account;
    let spent = (account.own.usage.total(), account.of_children.usage.total(), account.total().tool_calls);
    assert_eq!(spent, (500, 2_000 + 3_000, 2 + 1), "two delegations, one look; reports are free");
    match ran.events.last() {
        Some(Event::RunFinished { usage, of_children, .. }) => {
            assert_eq!((usage.total(), of_children.total()), (500, 5_000));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn dollar_budget_is_shared_and_spent_at_model_prices() {
    let usd = |text: &str| text.parse::<Usd>().unwrap();
    let price = Price { input: usd("1"), output: usd("1"), cache_read: usd("1"), cache_write: usd("1") };
    let rich = Mind::new(|_| uses(1_000_000, act("look", json!({})))).priced(price);
    let rich = agent("rich", Arc::new(rich)).with_tool(tool("look", async |_| Ok("nothing".into())));
    let budget = Budget { usd: Some(usd("3.5")), ..Budget::default() };
    let half = with(order("rich", "buy"), "budget", json!({"usd": 0.5}));
    let steps = [orders([half, order("rich", "buy")]), text("done")];
    let ran = run(&lead(agent_group([rich]), steps).with_budget(budget), "go").await;
    let entries = ran.entries();
    assert_eq!([bound_of(&entries[0]), bound_of(&entries[1])], ["$0.50", "$1.50"]);
    let account = ran.end.unwrap().account;
    assert_eq!(
        (account.own.usd, account.of_children.usd),
        (Usd::ZERO, usd("3")),
        "$1 and $2: what was spent, not shares"
    );
}

#[tokio::test(start_paused = true)]
async fn task_time_limit_ends_only_its_sub_run() {
    let waits = |name: &str| {
        with_steps(name, [act("wait", json!({})), done("in time")]).with_tool(hangs("wait", Duration::from_secs(20)))
    };
    let hasty = with(order("waits", "go"), "budget", json!({"time": "5s"}));
    let ran =
        run(&lead(agent_group([waits("waits")]), [orders([hasty, order("waits", "go")]), text("done")]), "go").await;
    assert_eq!(
        ran.entries(),
        json!([
            {
                "agent": "waits",
                "result": "waits-task-1 stopped before its task was done: the time budget of 5s is used up",
                "completion": {"status": "failed"},
            },
            {"agent": "waits", "result": "in time", "completion": {"status": "completed"}},
        ])
    );
    let whole = Budget { time: Some(Duration::from_secs(7)), ..Budget::default() };
    let ran = run(&lead(agent_group([waits("waits")]), [delegate(&[("waits", "go")])]).with_budget(whole), "go").await;
    assert_eq!(ran.told(), "failed: the time budget of 7s is used up", "it holds for those below too");
    assert!(
        ran.talk().contains("tool: #call_1 error: The call was not run: the time budget of 7s is used up."),
        "{}",
        ran.talk()
    );
}

#[tokio::test(start_paused = true)]
async fn exhausted_tool_call_budget_still_allows_an_answer() {
    let looks = |n| acts(&vec![("look", json!({})); n]);
    let ada =
        with_steps("ada", [looks(3), looks(1), text("what I know")]).with_tool(tool("look", async |_| Ok("x".into())));
    let ran = run(&ada.with_budget(tool_calls(2)), "go").await;
    let told = "the budget of 2 tool calls is used up: 2 spent; finish with what you have";
    let mut results = ran.results();
    results[..3].sort();
    assert_eq!(results, [told, "x", "x", told]);
    assert_eq!(ran.told(), "what I know");

    let worker = with_steps("worker", [looks(1), done("reported")]).with_tool(tool("look", async |_| Ok("x".into())));
    let lead = lead(agent_group([worker]), [delegate(&[("worker", "go"), ("worker", "go")]), text("done")]);
    let entries = run(&lead.with_budget(tool_calls(3)), "go").await.entries();
    let said = json!({"agent": "worker", "result": "reported", "completion": {"status": "completed"}});
    assert_eq!(entries, json!([said, said]), "who has no call left can still report");
}

#[tokio::test(start_paused = true)]
async fn token_budget_bounds_replies_and_ends_the_run() {
    let model =
        Arc::new(Mind::steps([uses(1_000, act("look", json!({}))), uses(3_000, act("look", json!({}))), text("x")]));
    let ada = agent("ada", model.clone()).with_tool(tool("look", async |_| Ok("x".into())));
    let ran = run(&ada.with_budget(tokens(4_000)), "go").await;
    let spent = BudgetExhausted::Tokens { bound: 4_000, spent: 4_000, set_aside: 0, needed: 0 };
    assert!(matches!(ran.end, Err(RunError::Budget(exhausted)) if exhausted == spent), "{}", ran.told());
    let room = |at: usize, left: u64| {
        let (_, request) = &model.asked()[at];
        let longest = request.max_output_tokens.map(u64::from);
        assert_eq!(longest, Some(left - request.tokens()), "request {at}");
    };
    room(0, 4_000);
    room(1, 3_000);
    assert_eq!(model.asked().len(), 2);

    let roomy = Arc::new(Mind::steps([text("x")]));
    let ada = agent("ada", roomy.clone()).with_budget(tokens(limits::REPLY_TOKENS_OF_ANY_MODEL * 2));
    run(&ada, "go").await.end.unwrap();
    assert_eq!(roomy.asked()[0].1.max_output_tokens, None, "with room for any reply the model's default holds");
}

#[tokio::test(start_paused = true)]
async fn reply_cut_by_the_budget_is_a_budget_error() {
    for (output, told) in
        [(3_990, "failed: the budget of 4000 tokens is used up"), (10, "failed: the model's reply was cut")]
    {
        let mind = Mind::new(move |_| {
            let cut = stopped(text("half"), StopReason::MaxTokens);
            cut.map(|reply| Completion { usage: Usage { output_tokens: output, ..Usage::default() }, ..reply })
        });
        let ran = run(&agent("ada", Arc::new(mind)).with_budget(tokens(4_000)), "go").await;
        assert!(ran.told().starts_with(told), "{}", ran.told());
    }
}

fn overspent(ran: &Ran) -> Vec<(&str, &str)> {
    let mut over = Vec::new();
    for event in &ran.events {
        if let Event::Overspent { agent, message } = event {
            over.push((&**agent, message.as_str()));
        }
    }
    over
}

#[tokio::test(start_paused = true)]
async fn usage_beyond_the_budget_is_charged_and_reported() {
    let ada = with_steps("ada", [uses(5_000, text("dear"))]).with_budget(tokens(4_000));
    let ran = run(&ada, "go").await;
    assert_eq!(ran.told(), "dear", "an answer that is there is not thrown away");
    assert_eq!(overspent(&ran), [("ada", "the charges exceed the budget by 1000 tokens")]);

    let dear = with_steps("dear", [uses(9_000, done("done"))]);
    let lead = lead(agent_group([dear]), [free(delegate(&[("dear", "go")])), free(text("done"))]);
    let ran = run(&lead.with_budget(tokens(8_000)), "go").await;
    assert_eq!(
        overspent(&ran),
        [
            ("dear-task-1", "the charges exceed the budget by 5000 tokens"),
            ("lead", "the charges exceed the budget by 1000 tokens"),
        ]
    );
    assert!(matches!(ran.end, Err(RunError::Budget(BudgetExhausted::Tokens { spent: 9_000, .. }))), "{}", ran.told());
}

/// Asks the model twice in a row before the first turn.
struct Asks(Powers, AtomicUsize);

#[async_trait::async_trait]
impl Effect for Asks {
    fn name(&self) -> &str {
        "asks"
    }
    fn phases(&self) -> &[EffectPhase] {
        &[EffectPhase::BeforeModel]
    }
    fn powers(&self) -> &Powers {
        &self.0
    }
    async fn eval(
        &self,
        _: &RunCx,
        moment: &EffectInput,
        chat: &ChatSnapshot,
        _: &Arc<[Arc<shelly_host::chat::ToolSpec>]>,
        mut state: Vec<u8>,
    ) -> Result<EffectStep, Fault> {
        if moment.reply.as_ref().is_some_and(Result::is_ok) {
            self.1.fetch_add(1, SeqCst);
        }
        if state.len() == 2 {
            return Ok(EffectStep { state, action: EffectAction::Edits(vec![]), wake: None });
        }
        state.push(0);
        let request = CompletionRequest::new(chat.clone(), [].into());
        Ok(EffectStep {
            state,
            action: EffectAction::AskModel(Box::new(ModelQuery { model: None, request })),
            wake: None,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn effect_question_is_charged_before_the_next_one() {
    for (budget, answered, told) in
        [(9_000, 2, "done"), (4_000, 1, "failed: the budget of 4000 tokens is used up: 4000 spent")]
    {
        let mind = Mind::new(|asked| match asked.request.max_output_tokens.is_some() || asked.turn == 0 {
            true => uses(4_000, text("done")),
            false => free(text("done")),
        });
        let asks = Arc::new(Asks([Power::AskModel].into_iter().collect(), AtomicUsize::new(0)));
        let mut ada = agent("ada", Arc::new(mind)).with_budget(tokens(budget));
        ada.effects.push(asks.clone());
        let ran = run(&ada, "go").await;
        assert_eq!((asks.1.load(SeqCst), ran.told().as_str()), (answered, told));
        if let Ok(answer) = ran.end {
            assert_eq!((answer.usage.total(), answer.account.own.usage.total()), (12_000, 12_000));
        }
    }
}
