//! The agent loop, turn by turn, as far as the transcripts of single runs do not cover it.

use std::{sync::Arc, time::Duration};

use insta::assert_snapshot;
use serde_json::json;
use shelly_host::{
    agent::{Agent, AgentGroup, EffectEdit, EffectFn, EffectPhase, OutputGuardrail, RunError, TimeoutMiddleware},
    capability::Power,
    error::Fault,
    limits,
    model::StopReason,
};
use tokio::sync::Notify;

use super::{agent, agent_group, delegate, done, failed, lead, with_steps};
use crate::script::{Mind, Reply, act, acts, hangs, run, stopped, text, tool};

fn look() -> Reply {
    act("look", json!({}))
}

fn looks(agent: Agent) -> Agent {
    agent.with_tool(tool("look", async |_| Ok("nothing".into())))
}

#[tokio::test(start_paused = true)]
async fn turn_limit_warning_is_given_once() {
    for (warn, most, at) in
        [(0, 5, None), (1, 5, Some(1)), (3, 5, Some(3)), (4, 5, Some(4)), (5, 5, None), (9, 5, None)]
    {
        let mut ada = looks(with_steps("ada", [look(), look(), look(), look(), text("done")]));
        (ada.options.warn_iterations, ada.options.max_iterations) = (warn, most);
        let ran = run(&ada, "go").await;
        let chat = ran.chat.snapshot();
        let notes: Vec<_> = chat.iter().enumerate().filter(|(_, entry)| entry.note).collect();
        // System prompt and task, then a call and its result a turn.
        let expected: Vec<_> = at.map(|turn| 2 + 2 * turn).into_iter().collect();
        assert_eq!(notes.iter().map(|(at, _)| *at).collect::<Vec<_>>(), expected, "warn {warn} of {most}");
        if let Some((_, note)) = notes.first() {
            let left = format!("You have {} of {most} turns left.", most - warn);
            assert!(note.message.text_content().starts_with(&left));
        }
        assert_eq!(ran.told(), "done");
    }
}

#[tokio::test(start_paused = true)]
async fn tool_results_and_errors_are_cut_at_the_limit() {
    let long = |chars: usize| move |_| async move { Ok("é".repeat(chars)) };
    let ada =
        with_steps("ada", [acts(&[("over", json!({})), ("full", json!({})), ("fails", json!({}))]), text("done")])
            .with_tool(tool("over", long(limits::TOOL_RESULT_CHARS + 3)))
            .with_tool(tool("full", long(limits::TOOL_RESULT_CHARS)))
            .with_tool(tool("fails", async |_| Err(Fault::other("é".repeat(limits::TOOL_RESULT_CHARS + 2)))));
    let results = run(&ada, "go").await.results();
    assert!(results[0].contains("é\n[3 more characters: call read_result with"));
    assert_eq!(results[1], "é".repeat(limits::TOOL_RESULT_CHARS));
    assert!(results[2].contains("é\n[2 more characters: call read_result with"));
}

#[tokio::test(start_paused = true)]
async fn slow_tool_fails_alone() {
    let ada = looks(with_steps("ada", [acts(&[("slow", json!({})), ("look", json!({}))]), text("done")]))
        .with_tool(hangs("slow", Duration::from_secs(7)));
    assert_snapshot!(run(&ada, "go").await.talk(), @r"
    -- ada
    user: go
    assistant: slow#call_1({}) | look#call_2({})
    tool: #call_1 error: the call took longer than 7 seconds
    tool: #call_2 nothing
    assistant: done
    ");
}

#[tokio::test(start_paused = true)]
async fn calls_over_the_reply_limit_are_refused() {
    let many = vec![("look", json!({})); limits::CALLS_PER_REPLY + 2];
    let results = run(&looks(with_steps("ada", [acts(&many), text("done")])), "go").await.results();
    let refused = results
        .iter()
        .filter(|text| *text == "not run: a reply can have at most 128 calls; repeat this call in your next reply")
        .count();
    assert_eq!((results.len(), refused), (limits::CALLS_PER_REPLY + 2, 2));
    assert_eq!(results[limits::CALLS_PER_REPLY - 1], "nothing");
}

#[tokio::test(start_paused = true)]
async fn sub_run_entry_reports_how_it_ended() {
    let most = |mut agent: Agent, turns| {
        agent.options.max_iterations = turns;
        agent
    };
    let worker = |steps: Vec<Reply>| looks(with_steps("worker", steps));
    let fault = Fault::Unavailable { message: "overloaded".into(), after: None };
    for (worker, told) in [
        (worker(vec![text("just said")]), json!({"agent": "worker", "result": "just said"})),
        (
            worker(vec![done("all done")]),
            json!({"agent": "worker", "result": "all done", "completion": {"status": "completed"}}),
        ),
        (
            most(worker(vec![look(), look()]), 2),
            json!({
                "agent": "worker",
                "result": "worker-parse-1 stopped before its task was done: no answer after 2 turns",
                "completion": {"status": "failed"},
            }),
        ),
        (
            worker(vec![stopped(text("half"), StopReason::MaxTokens)]),
            json!({"agent": "worker", "error": "the model's reply was cut off at its maximum length"}),
        ),
        (
            worker(vec![stopped(text("no"), StopReason::Refusal)]),
            json!({"agent": "worker", "error": "the model declined to answer: no"}),
        ),
        (worker(vec![text(" ")]), json!({"agent": "worker", "error": "the model returned an empty reply"})),
        (worker(vec![Err(fault)]), json!({"agent": "worker", "error": "the request to the model failed: overloaded"})),
    ] {
        let ran = run(&lead(agent_group([worker]), [delegate(&[("worker", "parse")]), text("done")]), "go").await;
        assert_eq!(ran.entries(), json!([told]));
        assert_eq!(ran.told(), "done");
    }
}

#[tokio::test(start_paused = true)]
async fn first_valid_task_complete_counts() {
    let report = |status: &str, summary: &str| ("task_complete", json!({"status": status, "summary": summary}));
    let bad = [report("done", "x"), ("task_complete", json!({"status": "completed"})), report("completed", " ")];
    let caveats = json!({"status": "failed", "summary": "", "caveats": "no compiler"});
    for (steps, result) in [
        (vec![acts(&[report("completed", "first"), report("failed", "second")])], "first"),
        (vec![acts(&bad), done("at last")], "at last"),
        (vec![act("task_complete", caveats)], "failed: no compiler"),
    ] {
        let worker = with_steps("worker", steps);
        let ran = run(&lead(agent_group([worker]), [delegate(&[("worker", "go")]), text("done")]), "go").await;
        assert_eq!(ran.entries()[0]["result"], result, "{}", ran.talk());
    }
    let worker = with_steps("worker", [acts(&bad), done("at last")]);
    let ran = run(&lead(agent_group([worker]), [delegate(&[("worker", "go")]), text("done")]), "go").await;
    assert_snapshot!(ran.talk(), @r#"
    -- lead
    user: go
    assistant: delegate#call_1({"tasks":[{"agent":"worker","context":"know this","task":"go"}]})
    tool: #call_1 [{"agent":"worker","result":"at last","completion":{"status":"completed"}}]
    assistant: done
    -- worker-task-1
    user: <delegation_context> know this </delegation_context>
    user: go
    assistant: task_complete#call_1({"status":"done","summary":"x"}) | task_complete#call_2({"status":"completed"}) | task_complete#call_3({"status":"completed","summary":" "})
    tool: #call_1 error: the arguments do not match the schema: unknown variant `done`, expected `completed` or `failed`
    tool: #call_2 error: the arguments do not match the schema: missing field `summary`
    tool: #call_3 error: `summary` is empty; say what was done, or why it was not
    assistant: task_complete#call_4({"status":"completed","summary":"at last"})
    tool: #call_4 The completion of your task is recorded.
    "#);
}

#[tokio::test(start_paused = true)]
async fn top_level_run_has_no_task_complete_or_handoff() {
    let names = |agent: Agent| async move {
        let model = Arc::new(Mind::steps([text("done")]));
        run(&Agent { completer: model.clone(), ..agent }, "go").await.end.unwrap();
        model.asked()[0].1.tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()
    };
    let mut ada = agent("ada", Arc::new(Mind::steps([])));
    ada.options.max_handoffs = 3;
    assert!(names(ada.clone()).await.is_empty());
    assert!(names(ada.clone().with_agent_group(Arc::new(AgentGroup::default()), 0)).await.is_empty());
    assert_eq!(names(ada.with_agent_group(Arc::new(AgentGroup::default()), 1)).await, ["list_agents", "delegate"]);
}

#[tokio::test(start_paused = true)]
async fn own_tool_takes_precedence_over_a_host_tool() {
    let agent_group = Arc::new(agent_group([with_steps("worker", [done("done")])]));
    let own = lead_with_own_delegate(&agent_group);
    let ran = run(&own, "go").await;
    assert_eq!(ran.results(), ["mine"]);
    let warned = format!("{:?}", ran.events);
    assert!(
        warned.contains(
            "lead: two tools are called `delegate`: one of `host`, one of `host`; the second tool is left out"
        )
    );
}

fn lead_with_own_delegate(agent_group: &Arc<AgentGroup>) -> Agent {
    super::lead_of(agent_group, [delegate(&[("worker", "go")]), text("done")])
        .with_tool(tool("delegate", async |_| Ok("mine".into())))
}

#[tokio::test(start_paused = true)]
async fn effect_stop_fails_only_its_sub_run() {
    let stop = EffectFn::new("watch", EffectPhase::AfterModel, [Power::Stop], |_, _| {
        Ok(vec![EffectEdit::Stop { code: "stalled".into(), message: "nothing new".into() }])
    });
    let worker = looks(with_steps("worker", [look()])).with_effect(stop);
    let other = with_steps("other", [failed("could not")]);
    let steps = [delegate(&[("worker", "go"), ("other", "go")]), text("done")];
    let ran = run(&lead(agent_group([worker, other]), steps), "go").await;
    assert_eq!(
        ran.entries(),
        json!([
            {"agent": "worker", "error": "`watch` stopped the run (stalled): nothing new"},
            {"agent": "other", "result": "could not", "completion": {"status": "failed"}},
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn middleware_of_a_sub_run_applies_to_it() {
    let check = |answer: &shelly_host::chat::Message| match answer.text_content().contains("secret") {
        true => Err(Fault::other("it tells a secret")),
        false => Ok(()),
    };
    let tells = with_steps("tells", [text("a secret")]).with_middleware(OutputGuardrail::new("guard", check));
    let slow = agent("slow", Arc::new(Mind::steps([text("late")]).slow(Duration::from_secs(9))))
        .with_middleware(TimeoutMiddleware(Duration::from_secs(5)));
    let ran =
        run(&lead(agent_group([tells, slow]), [delegate(&[("tells", "go"), ("slow", "go")]), text("done")]), "go")
            .await;
    assert_eq!(
        ran.entries(),
        json!([
            {"agent": "tells", "error": "rejected by middleware `guard`: it tells a secret"},
            {"agent": "slow", "error": "rejected by middleware `timeout`: the attempt took longer than 5 seconds"},
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_reports_it_and_its_chat_is_valid() {
    let began = Arc::new(Notify::new());
    let begins = Arc::clone(&began);
    let waits = tool("wait", move |_| {
        begins.notify_one();
        std::future::pending()
    });
    let agent_group = Arc::new(AgentGroup::default());
    let ada =
        with_steps("ada", [act("wait", json!({}))]).with_tool(waits).with_agent_group(Arc::clone(&agent_group), 0);
    let cancel = async {
        began.notified().await;
        assert_eq!(agent_group.working().iter().map(|name| &**name).collect::<Vec<_>>(), ["ada"]);
        assert!(agent_group.cancel("ada") && !agent_group.cancel("eve"));
    };
    let (ran, ()) = tokio::join!(run(&ada, "go"), cancel);
    assert!(matches!(ran.end, Err(RunError::Cancelled)));
    assert_snapshot!(ran.talk(), @r"
    -- ada
    user: go
    assistant: wait#call_1({})
    tool: #call_1 error: The call was not run: the run ended first.
    failed: the run was cancelled
    ");
    assert!(agent_group.working().is_empty() && !agent_group.cancel("ada"));
}

#[test]
fn exhaustion_errors_are_told_from_failures() {
    for (error, exhausted) in [
        (RunError::MaxIterations(1), true),
        (RunError::Budget(shelly_host::capability::BudgetExhausted::Settled), true),
        (RunError::Cut, false),
        (RunError::Cancelled, false),
        (RunError::Crashed("x".into()), false),
        (RunError::Stopped { by: "x".into(), code: "y".into(), message: "z".into() }, false),
    ] {
        assert_eq!(error.is_exhausted(), exhausted, "{error}");
    }
}
