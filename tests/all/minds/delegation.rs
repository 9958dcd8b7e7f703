//! Delegated tasks: which agent is asked, what it is given, and what the caller is told of the result.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use insta::assert_snapshot;
use serde_json::{Value, json};
use shelly_host::{
    agent::{
        AfterRunDecision, Agent, AgentEntry, AgentGroup, AgentRegistry, CostTier, OutputGuardrail, RunLimits,
        RunMiddleware, RunOutcome,
    },
    chat::{Chat, Message, Role},
    error::Fault,
    event::RunCx,
    limits,
    state::ReflectionStore,
};

use super::{agent, agent_group, delegate, done, failed, lead, lead_of, order, orders, register, with, with_steps};
use crate::script::{Mind, Ran, act, hangs, run, text, tool};

/// Returns the result that `lead` receives when it calls this tool once.
async fn answer_of(agent_group: AgentGroup, tool: &str, arguments: Value) -> String {
    run(&lead(agent_group, [act(tool, arguments), text("done")]), "go").await.results().remove(0)
}

#[tokio::test(start_paused = true)]
async fn delegation_transcript_from_task_to_report() {
    let worker = with_steps("worker", [act("look", json!({"at": "parser.rs"})), done("The parser is fine.")])
        .with_tool(tool("look", async |_| Ok("fn parse() {}".into())));
    let ran =
        run(&lead(agent_group([worker]), [delegate(&[("worker", "Check the parser")]), text("All is well.")]), "go")
            .await;
    assert_snapshot!(ran.talk(), @r#"
    -- lead
    user: go
    assistant: delegate#call_1({"tasks":[{"agent":"worker","context":"know this","task":"Check the parser"}]})
    tool: #call_1 [{"agent":"worker","result":"The parser is fine.","completion":{"status":"completed"}}]
    assistant: All is well.
    -- worker-check-1
    user: <delegation_context> know this </delegation_context>
    user: Check the parser
    assistant: look#call_1({"at":"parser.rs"})
    tool: #call_1 fn parse() {}
    assistant: task_complete#call_2({"status":"completed","summary":"The parser is fine."})
    tool: #call_2 The completion of your task is recorded.
    "#);
}

/// A middleware that only looks at how a run ended.
struct Afterwards<F>(F);

#[async_trait]
impl<F: Fn(&RunOutcome) -> Result<AfterRunDecision, Fault> + Send + Sync> RunMiddleware for Afterwards<F> {
    fn name(&self) -> &str {
        "afterwards"
    }
    async fn after(&self, _: &RunCx, outcome: &RunOutcome, _: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        (self.0)(outcome)
    }
}

#[tokio::test(start_paused = true)]
async fn sub_run_report_passes_middleware() {
    let leaky = |summary: &str, caveats: &str| {
        let report = json!({"status": "completed", "summary": summary, "caveats": caveats});
        with_steps("worker", [act("task_complete", report), done("The code is 1234, says the second try.")])
    };
    let secretive =
        OutputGuardrail::new("secretive", |report: &Message| match report.text_content().contains("1234") {
            true => Err(Fault::other("it holds the code")),
            false => Ok(()),
        });
    let order = || [delegate(&[("worker", "find the code")]), text("done")];
    let ran = run(&lead(agent_group([leaky("The code is 1234.", "").with_middleware(secretive)]), order()), "go").await;
    assert_snapshot!(ran.results()[0], @r#"[{"agent":"worker","error":"rejected by middleware `secretive`: it holds the code"}]"#);

    let blot = || {
        Afterwards(|outcome: &RunOutcome| {
            let said = outcome.reply.as_ref().map_err(Clone::clone)?.text_content();
            let blotted = said.replace("1234", "****");
            Ok(match blotted == said {
                true => AfterRunDecision::Accept,
                false => AfterRunDecision::Replace(Message::text(Role::Assistant, "blot", blotted)),
            })
        })
    };
    // What it would take out of the caveats is taken out as well.
    for summary in ["The code is 1234.", "There is none."] {
        let ran = run(&lead(agent_group([leaky(summary, "1234?").with_middleware(blot())]), order()), "go").await;
        let told = format!("{}\n\nCaveats: ****?", summary.replace("1234", "****"));
        let entry = json!({"agent": "worker", "result": told, "completion": {"status": "completed"}});
        assert_eq!(ran.entries(), json!([entry]));
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_handoff_starts_no_agent() {
    let sorry = |_: &RunOutcome| Ok(AfterRunDecision::Replace(Message::text(Role::Assistant, "sorry", "I could not.")));
    let handoff = json!({"target_agent": "other", "reason": "hard", "context": "the code is 1234"});
    let mut worker = with_steps("worker", [act("handoff", handoff)])
        .with_middleware(Afterwards(sorry))
        .with_middleware(OutputGuardrail::new("nothing", |_: &Message| Err(Fault::other("no"))).with_handoffs());
    worker.options.max_handoffs = 1;
    let other = with_steps("other", [done("I did it.")]);
    let ran = run(&lead(agent_group([worker, other]), [delegate(&[("worker", "go")]), text("done")]), "go").await;
    assert_eq!(ran.entries(), json!([{"agent": "worker", "result": "I could not."}]));
    assert!(!ran.talk().contains("-- other"), "{}", ran.talk());
}

#[tokio::test(start_paused = true)]
async fn delegation_results_keep_the_order_of_the_tasks() {
    let late = agent("late", Arc::new(Mind::steps([done("late")]).slow(Duration::from_secs(5))));
    let soon = with_steps("soon", [done("soon")]);
    let steps = [delegate(&[("late", "a1"), ("soon", "b1"), ("late", "c1")]), text("done")];
    let ran = run(&lead(agent_group([late, soon]), steps), "go").await;
    let results: Vec<_> = ran.entries().as_array().unwrap().iter().map(|entry| entry["result"].clone()).collect();
    assert_eq!(results, ["late", "soon", "late"]);
}

#[tokio::test(start_paused = true)]
async fn failed_sub_run_does_not_affect_its_siblings() {
    let agent_group = agent_group([
        with_steps("good", [done("fine")]),
        with_steps("bad", [failed("could not")]),
        with_steps("dumb", [Err(Fault::other("no model"))]),
        agent("mad", Arc::new(Mind::new(|_| panic!("out of its mind")))),
    ]);
    agent_group.registry.register(AgentEntry::new("unmade", ""), || -> Agent { panic!("cannot be made") });
    // Nobody is told to delegate to itself.
    register(&agent_group.registry, with_steps("Lead", []));
    let names = ["good", "bad", "dumb", "mad", "unmade", "nobody", "good"];
    let ran = run(&lead(agent_group, [delegate(&names.map(|name| (name, "try"))), text("done")]), "go").await;
    assert_eq!(
        ran.entries(),
        json!([
            {"agent": "good", "result": "fine", "completion": {"status": "completed"}},
            {"agent": "bad", "result": "could not", "completion": {"status": "failed"}},
            {"agent": "dumb", "error": "the request to the model failed: no model"},
            {"agent": "mad", "error": "the run crashed: out of its mind"},
            {"agent": "unmade", "error": "the agent crashed"},
            {"agent": "nobody", "error": "unknown agent `nobody`; available agents: bad, dumb, good, mad, unmade"},
            {"agent": "good", "result": "fine", "completion": {"status": "completed"}},
        ])
    );
    assert_eq!(ran.told(), "done");
}

#[tokio::test(start_paused = true)]
async fn fail_fast_stops_siblings_of_a_failed_sub_run() {
    let agent_group = || {
        agent_group([
            with_steps("bad", [failed("could not")]),
            with_steps("slow", [act("wait", json!({})), done("slow but good")])
                .with_tool(hangs("wait", Duration::from_secs(30))),
            with_steps("quick", [done("quick")]),
        ])
    };
    let tasks = || ["quick", "bad", "slow"].map(|name| order(name, "try"));
    let ran = run(&lead(agent_group(), [orders(tasks()), text("done")]), "go").await;
    assert_eq!(ran.entries()[2]["result"], "slow but good", "nobody asked for it");
    let together = act("delegate", json!({"tasks": tasks(), "fail_fast": true}));
    let ran = run(&lead(agent_group(), [together, text("done")]), "go").await;
    assert_eq!(
        ran.entries(),
        json!([
            {"agent": "quick", "result": "quick", "completion": {"status": "completed"}},
            {"agent": "bad", "result": "could not", "completion": {"status": "failed"}},
            {"agent": "slow", "error": "stopped: another task of the same call failed"},
        ])
    );
    assert!(ran.talk().contains("failed: the run was cancelled"), "the one that was stopped tells of its end");
}

#[tokio::test(start_paused = true)]
async fn invalid_delegation_is_refused_before_any_model_request() {
    let too_many = vec![order("worker", "go"); limits::TASKS_PER_DELEGATION + 1];
    for (tasks, told) in [
        (json!([]), "[]"),
        (json!([order("Lead", "go")]), "tasks[0]: you are lead and cannot delegate to yourself; choose another agent"),
        (
            json!([order("worker", "go"), order("LEAD", "go")]),
            "tasks[1]: you are lead and cannot delegate to yourself; choose another agent",
        ),
        (json!([with(order("worker", "go"), "context", " ")]), "tasks[0]: `context` is empty"),
        (json!([order("worker", "")]), "tasks[0]: `task` is empty"),
        (json!([order(" ", "go")]), "tasks[0]: `agent` is empty"),
        (json!([{"agent": "worker", "task": "go"}]), "the arguments do not match the schema: missing field `context`"),
        (json!(too_many), "1025 tasks in one call, the maximum is 1024"),
    ] {
        let model = Arc::new(Mind::steps([done("done")]));
        let agent_group = agent_group([agent("worker", model.clone())]);
        assert_eq!(answer_of(agent_group, "delegate", json!({"tasks": tasks})).await, told);
        assert!(model.asked().is_empty(), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn maximum_number_of_delegated_tasks_is_run() {
    let tasks: Vec<_> = (0..limits::TASKS_PER_DELEGATION).map(|n| order("worker", &format!("item{n}"))).collect();
    let worker = agent("worker", Arc::new(Mind::steps([done("ok")]).slow(Duration::from_millis(10))));
    let ran = run(&lead(agent_group([worker]), [orders(tasks), text("done")]), "go").await;
    let entries = ran.entries();
    let entries = entries.as_array().unwrap();
    assert_eq!(entries.len(), limits::TASKS_PER_DELEGATION);
    assert!(entries.iter().all(|entry| entry["result"] == "ok"));
}

#[tokio::test(start_paused = true)]
async fn agent_list_omits_the_caller_and_may_be_empty() {
    let registry = AgentRegistry::new();
    for name in ["writer", "Lead"] {
        registry.register(AgentEntry::new(name, "helps"), || with_steps("x", []));
    }
    let tester = AgentEntry {
        skills: vec!["fuzzing".into()],
        estimated_cost: Some(CostTier::Expensive),
        max_concurrency: Some(2),
        ..AgentEntry::new("tester", "tests")
    };
    registry.register(tester, || with_steps("x", []));
    assert_eq!(
        answer_of(AgentGroup::new(registry), "list_agents", json!({})).await,
        r#"[{"name":"tester","description":"tests","skills":["fuzzing"],"estimated_cost":"expensive"},{"name":"writer","description":"helps"}]"#
    );
    assert_eq!(answer_of(agent_group([]), "list_agents", json!({})).await, "[]");
    assert_eq!(answer_of(agent_group([with_steps("LEAD", [])]), "list_agents", json!({})).await, "[]");
}

#[tokio::test(start_paused = true)]
async fn sub_run_has_own_tools_and_depth_and_its_parents_group() {
    // Names its tools, and whether those of delegation are among them.
    let names = || {
        Mind::new(|asked| {
            let names: Vec<_> = asked.request.tools.iter().map(|tool| tool.name.as_str()).collect();
            done(&names.join(" "))
        })
    };
    let own = |name: &str, depth| {
        let mut agent = agent(name, Arc::new(names())).with_tool(tool("own", async |_| Ok(String::new())));
        agent.options.max_delegation_depth = depth;
        agent
    };
    let agent_group = agent_group([own("flat", 0), own("one", 1), own("two", 2)]);
    let lead = lead(agent_group, [delegate(&[("flat", "x"), ("one", "x"), ("two", "x")]), text("done")])
        .with_tool(tool("of_lead", async |_| Ok(String::new())));
    let entries = run(&lead, "go").await.entries();
    assert_eq!(entries[0]["result"], "own task_complete request_input");
    assert_eq!(entries[1]["result"], "own task_complete request_input", "it stands at depth 1 already");
    assert_eq!(entries[2]["result"], "own list_agents delegate task_complete request_input");
}

#[tokio::test(start_paused = true)]
async fn delegation_depth_is_bounded_by_each_agents_own_limit() {
    let agent_group = Arc::new(agent_group([]));
    for (name, next) in [("one", Some("two")), ("two", Some("three")), ("three", None)] {
        let mind = Mind::new(move |asked| match next {
            Some(next) if asked.turn == 0 => delegate(&[(next, "dig")]),
            _ => done(&format!("{name} of {}: {}", asked.agent, asked.heard.contains("three of three-dig-1"))),
        });
        let mut agent = agent(name, Arc::new(mind));
        agent.options.max_delegation_depth = 3;
        register(&agent_group.registry, agent);
    }
    let ran = run(&lead_of(&agent_group, [delegate(&[("one", "dig")]), text("done")]), "go").await;
    assert_snapshot!(ran.talk(), @r#"
    -- lead
    user: go
    assistant: delegate#call_1({"tasks":[{"agent":"one","context":"know this","task":"dig"}]})
    tool: #call_1 [{"agent":"one","result":"one of one-dig-1: false","completion":{"status":"completed"}}]
    assistant: done
    -- one-dig-1
    user: <delegation_context> know this </delegation_context>
    user: dig
    assistant: delegate#call_1({"tasks":[{"agent":"two","context":"know this","task":"dig"}]})
    tool: #call_1 [{"agent":"two","result":"two of two-dig-1: true","completion":{"status":"completed"}}]
    assistant: task_complete#call_2({"status":"completed","summary":"one of one-dig-1: false"})
    tool: #call_2 The completion of your task is recorded.
    -- two-dig-1
    user: <delegation_context> know this </delegation_context>
    user: dig
    assistant: delegate#call_1({"tasks":[{"agent":"three","context":"know this","task":"dig"}]})
    tool: #call_1 [{"agent":"three","result":"three of three-dig-1: false","completion":{"status":"completed"}}]
    assistant: task_complete#call_2({"status":"completed","summary":"two of two-dig-1: true"})
    tool: #call_2 The completion of your task is recorded.
    -- three-dig-1
    user: <delegation_context> know this </delegation_context>
    user: dig
    assistant: task_complete#call_1({"status":"completed","summary":"three of three-dig-1: false"})
    tool: #call_1 The completion of your task is recorded.
    "#);
}

#[tokio::test(start_paused = true)]
async fn instances_are_named_by_task_and_number() {
    let agent_group = agent_group([agent("worker", Arc::new(Mind::new(|asked| done(asked.agent))))]);
    let tasks = ["the and for with", "Refactor everything", "refactor more", "Über-Mut!"].map(|task| ("worker", task));
    let ran = run(&lead(agent_group, [delegate(&tasks), text("done")]), "go").await;
    let entries = ran.entries();
    let names: Vec<_> = (0..4).map(|at| entries[at]["result"].as_str().unwrap()).collect();
    assert_eq!(names, ["worker-task-1", "worker-refactor-2", "worker-refactor-3", "worker-über_mut-4"]);
}

#[tokio::test(start_paused = true)]
async fn instance_names_of_similar_agents_are_distinct() {
    let says = |name: &str| agent(name, Arc::new(Mind::new(|asked| done(asked.agent))));
    let tasks = [("a", "foo-bar"), ("a-foo", "bar")];
    let ran = run(&lead(agent_group([says("a"), says("a-foo")]), [delegate(&tasks), text("done")]), "go").await;
    let entries = ran.entries();
    assert_eq!((&entries[0]["result"], &entries[1]["result"]), (&json!("a-foo_bar-1"), &json!("a-foo-bar-1")));
}

#[tokio::test(start_paused = true)]
async fn delegation_context_is_cut_with_a_note() {
    for (chars, mark) in [
        (limits::DELEGATION_CONTEXT_CHARS, "é\n</delegation_context>"),
        (limits::DELEGATION_CONTEXT_CHARS + 5, "é… [5 more characters were cut]\n</delegation_context>"),
    ] {
        let model = Arc::new(Mind::steps([done("done")]));
        let task = with(order("worker", "go"), "context", "é".repeat(chars));
        run(&lead(agent_group([agent("worker", model.clone())]), [orders([task]), text("done")]), "go").await;
        let first = model.asked()[0].1.messages.iter().nth(1).unwrap().message.clone();
        assert!(first.text_content().ends_with(mark) && first.is_note(), "{chars}");
    }
}

#[tokio::test(start_paused = true)]
async fn delegation_answers_and_names_are_cut() {
    let long = limits::DELEGATION_ANSWER_CHARS + 1;
    let files: Vec<_> = (0..100).map(|n| format!("src/a/long/path/to/file_{n:03}.rs")).collect();
    let report = json!({"status": "completed", "summary": "é".repeat(long), "files_modified": files, "tests_run": []});
    let worker = with_steps("worker", [act("task_complete", report)]);
    let name = "x".repeat(500_000);
    let ran =
        run(&lead(agent_group([worker]), [delegate(&[(&name, "go"), ("worker", "go")]), text("done")]), "go").await;
    let entries = ran.entries();
    assert!(entries[0]["agent"].as_str().unwrap().ends_with("xx… [499900 more characters were cut]"));
    assert!(entries[1]["result"].as_str().unwrap().ends_with("é… [1 more characters were cut]"));
    let told = entries[1]["completion"]["files_modified"].as_array().unwrap().clone();
    let left_out = format!("[{} more omitted]", 100 - (told.len() - 1));
    assert!(told.len() > 50 && told.last().unwrap() == &left_out, "{told:?}");
}

/// An agent group that stores reflections on failures in this folder.
fn learning(folder: &std::path::Path, members: impl IntoIterator<Item = Agent>) -> AgentGroup {
    agent_group(members).with_reflections(ReflectionStore::new(folder))
}

#[tokio::test]
async fn failure_reflection_is_stored_and_shown_to_the_next_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let mut worker = with_steps("worker", [act("look", json!({}))]).with_tool(tool("look", async |_| Ok("?".into())));
    worker.options.max_iterations = 1;
    let tries = |task: &'static str, worker: Agent| {
        let agent_group = learning(folder.path(), [worker]);
        async move { run(&lead(agent_group, [delegate(&[("worker", task)]), text("done")]), "go").await }
    };
    tries("Port the tokenizer module", worker).await;
    let gave_up = with_steps("worker", [failed("The grammar is ambiguous.")]);
    tries("Mend the tokenizer module tests", gave_up).await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    let prior = |ran: &Ran| {
        let talk = ran.talk();
        let told: Vec<_> = talk.lines().filter(|line| line.contains("<prior_reflections>")).collect();
        assert!(told.len() <= 1);
        told.first().map(ToString::to_string)
    };
    let ran = tries("Try the tokenizer module again", with_steps("worker", [done("done")])).await;
    let told = prior(&ran).expect("both are about it");
    assert!(told.contains("no answer after 1 turn") && told.contains("The grammar is ambiguous."), "{told}");
    assert!(told.starts_with("user: <prior_reflections> # worker: failed ## Task "), "{told}");
    let ran = tries("Bake some bread", with_steps("worker", [done("done")])).await;
    assert_eq!(prior(&ran), None);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "what was done teaches nothing");
}

#[tokio::test]
async fn unwritable_reflection_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let agent_group = learning(&file, [with_steps("worker", [failed("could not")])]);
    let ran = run(&lead(agent_group, [delegate(&[("worker", "go")]), text("done")]), "go").await;
    let warning = ran.entries()[0]["warning"].as_str().unwrap().to_owned();
    assert!(warning.starts_with("cannot write the reflection: "), "{warning}");
    assert_eq!(ran.entries()[0]["result"], "could not");
}

#[tokio::test(start_paused = true)]
async fn agent_group_size_is_bounded_by_the_ceiling() {
    let agent_group = agent_group([with_steps("worker", [text("ok")])]);
    let agent_group = Arc::new(agent_group.with_limits(RunLimits { agents: usize::MAX, ..RunLimits::default() }));
    let batch = || delegate(&vec![("worker", "go"); 1_000]);
    let mut steps: Vec<_> = (0..limits::AGENTS_PER_RUN_CEILING / 1_000).map(|_| batch()).collect();
    steps.extend([delegate(&[("worker", "go")]), text("done")]);
    let (chat, input) = (Chat::new(), vec![Message::user("go")]);
    lead_of(&agent_group, steps).run(&RunCx::new("lead"), &chat, input).await.unwrap();
    let last = chat.snapshot().iter().rev().nth(1).unwrap().message.tool_results().next().unwrap().text();
    let says = "this run has started its maximum of 10000 agents (limit `runs.agents`)";
    assert!(last.contains(says), "{last}");
}
