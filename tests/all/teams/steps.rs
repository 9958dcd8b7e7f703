//! Steps of a team: which messages each member sees, when it works, and what becomes of a step in which a member fails.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use shelly_host::{
    agent::{AfterRunDecision, BeforeRunDecision, RunError, RunMiddleware, RunOutcome, Runner},
    capability::Budget,
    chat::{Chat, Message, Role},
    error::{Fault, OnFailure},
    event::{Event, EventSink, RunCx},
    limits,
    team::{CoordinatorAction, CoordinatorInput, JoinError, Member, MemberAssignment, SequenceCoordinator, Team},
};

use super::{Plan, agent, go, lines, plan, run, says};
use crate::script::{Mind, act, text, tool};

#[tokio::test]
async fn members_see_replies_as_user_messages_without_tool_calls() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = |name: &str| {
        let (heard, of) = (Arc::clone(&heard), name.to_owned());
        let look = tool("look", |_| async { Ok("found".to_owned()) });
        let mind = Mind::new(move |asked| {
            let new = asked.request.messages.iter().filter(|entry| entry.message.role != Role::System);
            let new: Vec<_> = new.map(|entry| format!("{:?} {}", entry.message.role, entry.message.sender)).collect();
            heard.lock().unwrap().push(format!("{of}: {}", new.join(", ")));
            match asked.heard.as_str() {
                said if said.contains("found") => text(&format!("{of} has looked")),
                _ => act("look", serde_json::json!({})),
            }
        });
        agent(name, mind).with_tool(look)
    };
    let team = Team::new("desk", plan(&[&["ada"], &["bob"], &["ada"]]))
        .with_member(Member::new(hears("ada")).with_role("research"))
        .with_member(Member::new(hears("bob")));
    let chat = Chat::new();
    let mut first = Message::user("go");
    first.sender = "eve".into();
    first.meta = vec![("channel".into(), "mail".into())];
    let answer = Runner::run(&team, &RunCx::new("desk"), &chat, vec![first]).await.unwrap();
    assert_eq!(answer.message.text_content(), "ada has looked");
    assert_eq!(answer.iterations, 3);
    assert_eq!(
        lines(&chat),
        [
            "user eve: go",
            "assistant ada: ada has looked",
            "assistant bob: bob has looked",
            "assistant ada: ada has looked",
        ]
    );
    let heard = heard.lock().unwrap().clone();
    let first = |at: usize| heard[at].as_str();
    assert_eq!(first(0), "ada: User eve");
    assert_eq!(first(2), "bob: User eve, User ada");
    let own = "User eve, Assistant desk/ada, Tool desk/ada, Assistant desk/ada, User bob";
    assert!(
        first(4) == format!("ada: {own}")
            || first(4) == "ada: User eve, Assistant desk/ada, Tool , Assistant desk/ada, User bob",
        "{}",
        first(4)
    );
    // Usage is counted once, for whoever used it and for the team.
    assert_eq!(answer.usage.total(), 0);
    assert!(answer.account.of_children.usage.total() > 0);
}

#[tokio::test]
async fn team_message_keeps_its_media_and_meta() {
    let seen = Arc::new(Mutex::new(None));
    let look = Arc::clone(&seen);
    let mind = Mind::new(move |asked| {
        *look.lock().unwrap() = asked.request.messages.last().map(|entry| Message::clone(&entry.message));
        text("yes")
    });
    let team = Team::new("desk", SequenceCoordinator).with_member(Member::new(agent("ada", mind)));
    let mut message = Message::user("look at this");
    message.meta = vec![("k".into(), "v".into())];
    Runner::run(&team, &RunCx::new("desk"), &Chat::new(), vec![message.clone()]).await.unwrap();
    assert_eq!(seen.lock().unwrap().clone(), Some(message));
}

#[tokio::test(start_paused = true)]
async fn team_step_replies_keep_the_chosen_order() {
    for seed in 0..20_u64 {
        let member = |name: &'static str, at: u64| {
            let delay = Duration::from_millis((seed * 7 + at * 13) % 10 + 1);
            let mind = Mind::new(move |asked| text(&format!("{name} heard {}", asked.heard))).slow(delay);
            Member::new(agent(name, mind))
        };
        let team = Team::new("desk", plan(&[&["c", "a", "b"], &["b", "c"]]));
        let team = team.with_member(member("a", 1)).with_member(member("b", 2)).with_member(member("c", 3));
        let chat = Chat::new();
        go(&team, &chat, "go").await.unwrap();
        assert_eq!(
            lines(&chat),
            [
                "user user: go",
                "assistant c: c heard go",
                "assistant a: a heard go",
                "assistant b: b heard go",
                // Of what it has not heard the last.
                "assistant b: b heard a heard go",
                "assistant c: c heard b heard go",
            ],
            "{seed}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn first_member_failure_stops_the_step_and_keeps_replies() {
    let stopped = Arc::new(AtomicU32::new(0));
    let slow = {
        let stopped = Arc::clone(&stopped);
        let never = tool("wait", move |_| {
            let stopped = Arc::clone(&stopped);
            async move {
                struct Told(Arc<AtomicU32>);
                impl Drop for Told {
                    fn drop(&mut self) {
                        self.0.fetch_add(1, Ordering::Relaxed);
                    }
                }
                let _told = Told(stopped);
                std::future::pending().await
            }
        });
        agent("slow", Mind::new(|_| act("wait", serde_json::json!({})))).with_tool(never)
    };
    let quick = says("quick", |_| text("done"));
    let fails = agent("fails", Mind::new(|_| Err(Fault::other("out of paper"))).slow(Duration::from_millis(20)));
    let team = Team::new("desk", plan(&[&["slow", "fails", "quick"]]));
    let team = team.with_member(Member::new(slow)).with_member(Member::new(quick)).with_member(Member::new(fails));
    let chat = Chat::new();
    let error = go(&team, &chat, "go").await.unwrap_err();
    assert_eq!(error.in_full(), "member `fails` failed: the request to the model failed: out of paper");
    assert_eq!(lines(&chat), ["user user: go", "assistant quick: done"]);
    assert_eq!(stopped.load(Ordering::Relaxed), 1, "nobody goes on working");
    // It goes on with what there is.
    assert_eq!(
        go(&team, &chat, "again").await.unwrap_err().in_full(),
        "member `fails` failed: the request to the model failed: out of paper"
    );
    assert_eq!(lines(&chat)[2..], ["user user: again", "assistant quick: done"]);
}

#[tokio::test]
async fn failed_member_is_retried_and_may_be_skipped() {
    let fails = |times: u32| {
        let asked = AtomicU32::new(0);
        says("ada", move |_| match asked.fetch_add(1, Ordering::Relaxed) < times {
            true => Err(Fault::other("no luck")),
            false => text("found"),
        })
    };
    let with = |member: Member| {
        Team::new("desk", SequenceCoordinator)
            .with_member(member)
            .with_member(Member::new(says("bob", |heard| text(&format!("after: {heard}")))))
    };
    for (times, retries, on_failure, said) in [
        (2, 2, OnFailure::Stop, Ok("after: found")),
        (3, 2, OnFailure::Stop, Err("member `ada` failed: the request to the model failed: no luck")),
        (3, 2, OnFailure::Skip, Ok("after: go")),
        (1, 0, OnFailure::Skip, Ok("after: go")),
    ] {
        let member = Member::new(fails(times)).with_retries(retries).with_on_failure(on_failure);
        let done = go(&with(member), &Chat::new(), "go").await;
        let done = done.map(|answer| answer.message.text_content()).map_err(|error| error.in_full());
        assert_eq!(done.as_deref().map_err(String::as_str), said, "{times} {retries}");
    }
    let bound = Member::new(fails(99)).with_retries(1_000);
    assert_eq!(bound.retries, limits::MEMBER_RETRIES);
}

/// Fails in its first run, before the agent has its input.
#[derive(Default)]
struct FailsFirst(AtomicU32);

#[async_trait]
impl RunMiddleware for FailsFirst {
    fn name(&self) -> &str {
        "fails-first"
    }

    async fn before(&self, _: &RunCx, _: &[Message]) -> Result<BeforeRunDecision, Fault> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Err(Fault::other("not ready yet")),
            _ => Ok(BeforeRunDecision::Proceed { input: None, state: Vec::new() }),
        }
    }
}

#[tokio::test]
async fn retried_member_has_the_input_that_never_arrived() {
    let ada = says("ada", |heard| text(&format!("I heard: {heard}"))).with_middleware(FailsFirst::default());
    let team = Team::new("desk", SequenceCoordinator).with_member(Member::new(ada).with_retries(1));
    let answer = go(&team, &Chat::new(), "count to three").await.unwrap();
    assert_eq!(answer.message.text_content(), "I heard: count to three");
}

#[tokio::test]
async fn coordinator_actions_are_validated() {
    let with = |action: fn(&CoordinatorInput<'_>) -> Result<CoordinatorAction, Fault>| {
        Team::new("desk", Plan(action)).with_member(Member::new(says("ada", |_| text("yes"))))
    };
    let long = |_: &CoordinatorInput<'_>| {
        let task = Some("x".repeat(limits::ASSIGNMENT_CHARS + 1));
        Ok(CoordinatorAction::Run(vec![MemberAssignment { member: "ada".into(), task }]))
    };
    let twice_nobody = |moment: &CoordinatorInput<'_>| Ok(if moment.step == 1 { run(&["ada"]) } else { run(&[]) });
    for (action, said) in [
        ((|_| Ok(run(&[]))) as fn(&CoordinatorInput<'_>) -> _, "the coordinator chose no member twice in a row"),
        (twice_nobody, "the coordinator chose no member twice in a row"),
        (|_| Ok(run(&["bob\u{1b}[2J"])), "there is no member `bob\\u{1b}[2J`; members: ada"),
        (|_| Ok(run(&["ada", "ada"])), "member `ada` is chosen twice in one step"),
        (|_| Err(Fault::other("lost")), "lost"),
        (long, "a task exceeds the maximum of 32000 characters"),
    ] {
        let error = go(&with(action), &Chat::new(), "go").await.unwrap_err();
        assert_eq!(error.in_full(), format!("coordinator `plan` failed: {said}"));
    }
    // Once is no harm.
    let once = Plan(|moment: &CoordinatorInput<'_>| {
        Ok(match moment.step {
            0 | 2 => run(&[]),
            1 => run(&["ada"]),
            _ => CoordinatorAction::Done(None),
        })
    });
    let team = Team::new("desk", once).with_member(Member::new(says("ada", |_| text("yes"))));
    assert_eq!(go(&team, &Chat::new(), "go").await.unwrap().message.text_content(), "yes");
    // A team in which nobody has ever said anything has no answer.
    let team = with(|_| Ok(CoordinatorAction::Done(None)));
    assert!(matches!(go(&team, &Chat::new(), "go").await, Err(RunError::Empty)));
    // What it says itself is one.
    let team = with(|_| Ok(CoordinatorAction::Done(Some(vec![shelly_host::chat::Part::Text("enough".into())]))));
    let chat = Chat::new();
    assert_eq!(go(&team, &chat, "go").await.unwrap().message.text_content(), "enough");
    assert_eq!(lines(&chat), ["user user: go", "assistant desk: enough"]);
    // A coordinator that never ends is ended.
    let team = Team::new("desk", Plan(|_: &CoordinatorInput<'_>| Ok(run(&["ada"]))));
    let team = team.with_member(Member::new(says("ada", |_| text("more"))));
    let budget = Budget { tokens: Some(100), ..Budget::default() };
    let error = go(&team.with_budget(budget), &Chat::new(), "go").await.unwrap_err();
    assert!(error.is_exhausted(), "{}", error.in_full());
}

#[tokio::test]
async fn assignment_task_is_shown_only_to_its_member() {
    let tasks = Plan(|moment: &CoordinatorInput<'_>| {
        let task = |member: &str, task: &str| MemberAssignment { member: member.into(), task: Some(task.into()) };
        Ok(match moment.step {
            0 => CoordinatorAction::Run(vec![task("ada", "count"), task("bob", "weigh")]),
            _ => CoordinatorAction::Done(None),
        })
    });
    let hears = |name: &str| Member::new(says(name, |heard| text(&format!("told to {heard}"))));
    let team = Team::new("desk", tasks).with_member(hears("ada")).with_member(hears("bob"));
    let chat = Chat::new();
    go(&team, &chat, "go").await.unwrap();
    assert_eq!(lines(&chat), ["user user: go", "assistant ada: told to count", "assistant bob: told to weigh"]);
}

#[tokio::test]
async fn members_join_and_leave_between_steps() {
    let says_own = |name: &'static str| Member::new(says(name, move |heard| text(&format!("{name} after {heard}"))));
    let all = Plan(|moment: &CoordinatorInput<'_>| {
        let names: Vec<_> = moment.members.iter().map(|member| &*member.name).collect();
        Ok(if moment.step < 2 { run(&names) } else { CoordinatorAction::Done(None) })
    });
    let team = Team::new("desk", all).with_member(says_own("ada"));
    let members = team.members.clone();
    let changes = tool("change", move |_| {
        members.join(says_own("eve")).unwrap();
        assert!(members.leave("bob") && !members.leave("bob"));
        async { Ok("changed".to_owned()) }
    });
    let mind = Mind::new(|asked| match asked.heard.contains("changed") {
        true => text("bob leaves"),
        false => act("change", serde_json::json!({})),
    });
    let team = team.with_member(Member::new(agent("bob", mind).with_tool(changes)));
    let chat = Chat::new();
    go(&team, &chat, "go").await.unwrap();
    assert_eq!(
        lines(&chat),
        [
            "user user: go",
            "assistant ada: ada after go",
            "assistant bob: bob leaves",
            "assistant ada: ada after bob leaves",
            "assistant eve: eve after bob leaves",
        ]
    );
    assert_eq!(team.members.join(says_own("ada")), Err(JoinError::Taken("ada".into())));
    assert_eq!(team.members.join(says_own("x").with_name(" ")), Err(JoinError::Nameless));
    for at in team.members.now().len()..limits::TEAM_MEMBERS {
        team.members.join(says_own("ada").with_name(format!("ada-{at}"))).unwrap();
    }
    assert_eq!(team.members.join(says_own("zoe")), Err(JoinError::Full));
}

#[tokio::test]
async fn nested_team_failure_names_its_path() {
    let deep = |says_what: Result<&'static str, &'static str>| {
        let bottom = says("ada", move |_| says_what.map_or_else(|why| Err(Fault::other(why)), text));
        let inner = Team::new("inner", SequenceCoordinator).with_member(Member::new(bottom));
        let middle = Team::new("middle", SequenceCoordinator).with_member(Member::new(inner));
        Team::new("outer", SequenceCoordinator)
            .with_member(Member::new(middle))
            .with_member(Member::new(says("bob", |heard| text(&format!("bob heard {heard}")))))
    };
    let chat = Chat::new();
    let (sink, mut events) = EventSink::channel();
    let cx = RunCx::new("outer").with_events(sink.clone());
    let answer = Runner::run(&deep(Ok("fine")), &cx, &chat, vec![Message::user("go")]).await.unwrap();
    assert_eq!(answer.message.text_content(), "bob heard fine");
    assert_eq!(lines(&chat), ["user user: go", "assistant middle: fine", "assistant bob: bob heard fine"]);
    drop((sink, cx));
    let (mut began, mut steps) = (Vec::new(), Vec::new());
    while let Some(event) = events.next_event().await {
        match event {
            Event::RunStarted { agent, parent_agent: parent, .. } => {
                began.push(format!("{agent} for {}", parent.as_deref().unwrap_or("-")))
            }
            Event::TeamStep { agent, step, members, done, .. } => {
                steps.push(format!("{agent} {step} {} {done}", members.join("+")))
            }
            _ => {}
        }
    }
    assert_eq!(
        began,
        [
            "outer for -",
            "outer/middle for outer",
            "outer/middle/inner for outer/middle",
            "outer/middle/inner/ada for outer/middle/inner",
            "outer/bob for outer",
        ]
    );
    assert_eq!(steps[0], "outer 0 middle false");
    assert_eq!(steps.last().unwrap(), "outer 2  true");
    let error = go(&deep(Err("out of paper")), &Chat::new(), "go").await.unwrap_err();
    assert_eq!(
        error.in_full(),
        "member `middle` failed: member `inner` failed: member `ada` failed: the request to the model failed: out of \
         paper"
    );
}

#[tokio::test]
async fn rerun_team_restarts_its_plan_and_members_keep_memory() {
    let counts =
        |name: &'static str| Member::new(agent(name, Mind::new(move |asked| text(&format!("{name} {}", asked.turn)))));
    let inner = Team::new("inner", SequenceCoordinator).with_member(counts("ada")).with_member(counts("bob"));
    let outer = Team::new("outer", plan(&[&["inner"], &["inner"]])).with_member(Member::new(inner));
    let chat = Chat::new();
    go(&outer, &chat, "one").await.unwrap();
    assert_eq!(lines(&chat), ["user user: one", "assistant inner: bob 0", "assistant inner: bob 1"]);
    go(&outer, &chat, "two").await.unwrap();
    assert_eq!(lines(&chat)[3..], ["user user: two", "assistant inner: bob 2", "assistant inner: bob 3"]);
    // Elsewhere they have never worked.
    let other = Chat::new();
    go(&outer, &other, "one").await.unwrap();
    assert_eq!(lines(&other), ["user user: one", "assistant inner: bob 0", "assistant inner: bob 1"]);
}

#[tokio::test]
async fn members_share_the_team_budget() {
    let team = Team::new("desk", plan(&[&["ada", "bob"]]));
    let talks = |name: &str| Member::new(says(name, |_| text(&"word ".repeat(200))));
    let budget = Budget { tokens: Some(50), ..Budget::default() };
    let team = team.with_member(talks("ada")).with_member(talks("bob")).with_budget(budget);
    let error = go(&team, &Chat::new(), "go").await.unwrap_err();
    assert!(error.is_exhausted(), "{}", error.in_full());
}

#[tokio::test(start_paused = true)]
async fn dropped_team_leaves_no_member_running() {
    let working = Arc::new(());
    let held = Arc::clone(&working);
    let wait = tool("wait", move |_| {
        let held = Arc::clone(&held);
        async move {
            let _held = held;
            std::future::pending::<Result<String, Fault>>().await
        }
    });
    let member = agent("ada", Mind::steps([act("wait", serde_json::json!({}))])).with_tool(wait);
    let team = Team::new("desk", SequenceCoordinator).with_member(Member::new(member));
    let chat = Chat::new();
    let run = tokio::time::timeout(Duration::from_secs(1), go(&team, &chat, "go")).await;
    assert!(run.is_err());
    drop(team);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(Arc::strong_count(&working), 1);
    assert_eq!(chat.snapshot().check(), Ok(()));
}

#[tokio::test]
async fn what_stands_around_a_team_sees_its_task_and_its_answer() {
    use shelly_host::agent::{InputGuardrail, OutputGuardrail};
    let team = || Team::new("desk", SequenceCoordinator).with_member(Member::new(says("ada", |_| text("a secret"))));
    let guarded = team().with_middleware(InputGuardrail::new("in", |input: &[Message]| {
        match input.iter().any(|message| message.text_content().contains("bomb")) {
            true => Err(Fault::invalid("not that")),
            false => Ok(()),
        }
    }));
    let error = go(&guarded, &Chat::new(), "a bomb").await.unwrap_err();
    assert_eq!(error.in_full(), "rejected by middleware `in`: not that");
    let guarded = team().with_middleware(OutputGuardrail::new("out", |answer: &Message| {
        match answer.text_content().contains("secret") {
            true => Err(Fault::invalid("not that")),
            false => Ok(()),
        }
    }));
    assert_eq!(go(&guarded, &Chat::new(), "go").await.unwrap_err().in_full(), "rejected by middleware `out`: not that");
}

/// Returns the replies of members as the events show them, in order.
async fn replied(team: &Team) -> Vec<String> {
    let (sink, mut events) = EventSink::channel();
    let cx = RunCx::new("desk").with_events(sink);
    Runner::run(team, &cx, &Chat::new(), vec![Message::user("go")]).await.unwrap();
    drop(cx);
    let mut replied = Vec::new();
    while let Some(event) = events.next_event().await {
        if let Event::MemberReplied { agent, text } = event {
            replied.push(format!("{agent}: {}", text.as_deref().unwrap_or("-")));
        }
    }
    replied
}

#[tokio::test]
async fn member_replies_are_emitted_cut_and_only_if_visible() {
    let words = "é".repeat(limits::REPLY_SHOWN_CHARS + 1);
    let long = words.clone();
    let team = || {
        let long = long.clone();
        Team::new("desk", plan(&[&["ada", "bob"], &["eve"]]))
            .with_member(Member::new(says("ada", |_| text("Yes."))))
            .with_member(Member::new(says("bob", |_| Err(Fault::other("no luck")))).with_on_failure(OnFailure::Skip))
            .with_member(Member::new(says("eve", move |_| text(&long))))
    };
    let told = replied(&team()).await;
    assert_eq!((told.len(), &*told[0]), (2, "desk/ada: Yes."), "one that fails has said nothing: {told:?}");
    assert!(told[1].starts_with("desk/eve: éé") && told[1].chars().count() < words.chars().count() + 60, "{told:?}");
    assert!(!told[1].contains(&words));
    // What the team's middleware may still take out of an answer is not seen before it did.
    let mut quiet = team();
    quiet.middleware = vec![Arc::new(Replaces)];
    assert_eq!(replied(&quiet).await, ["desk/ada: -", "desk/eve: -"]);
}

/// May put another answer in place of any.
struct Replaces;

#[async_trait]
impl RunMiddleware for Replaces {
    fn name(&self) -> &str {
        "replaces"
    }

    async fn after(&self, _: &RunCx, _: &RunOutcome, _: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        Ok(AfterRunDecision::Replace(Message::text(Role::Assistant, "desk", "All is well.")))
    }
}
