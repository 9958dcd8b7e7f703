//! Teams that plugins lead: what a coordinator in its sandbox sees, what it decides, and what becomes of one that fails.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use shelly_host::{
    agent::{RunError, Runner},
    capability::{Budget, Grant, Power},
    chat::{Chat, ChatSnapshot, Message, Part, Role, ToolCall, ToolResult},
    error::{Fault, OnFailure},
    event::{Event, EventSink, RunCx},
    limits,
    model::Completer,
    plugin::{Limits, Plugin, PluginCoordinator, PluginEngine, PluginPackage, PluginSettings},
    team::{Coordinator, CoordinatorInput, Member, MemberOutcome, MemberReport, Team, TeamChatMode},
};

use super::{go, lines, says};
use crate::{
    effects::{granted, plugin},
    guest::PROBE_TEAM,
    plugin::STATE_MACHINE,
    script::{Mind, text},
};

fn led_by(plugin: &Arc<Plugin>) -> Team {
    Team::new("desk", PluginCoordinator::new(plugin).unwrap())
}

/// A team of ada and bob, who say what they heard last.
async fn probe(params: Value) -> Team {
    two(led_by(&plugin(PROBE_TEAM, params).await))
}

fn two(team: Team) -> Team {
    let hears = |name: &str| Member::new(says(name, |heard| text(&format!("heard {heard}"))));
    team.with_member(hears("ada").with_role("reader")).with_member(hears("bob"))
}

/// Returns the error of the run of a team.
async fn failure(team: &Team) -> String {
    go(team, &Chat::new(), "go").await.unwrap_err().in_full()
}

/// A team that a plugin leads runs to its answer, and its state begins anew in each run.
pub async fn probe_team() {
    let team = probe(json!({"does": "in-turn"})).await;
    assert_eq!(team.coordinator.name(), "probe-team");
    let (chat, sink) = (Chat::new(), EventSink::channel());
    let cx = RunCx::new("desk").with_events(sink.0);
    let mut events = sink.1;
    let answer = Runner::run(&team, &cx, &chat, vec![Message::user("go")]).await.unwrap();
    assert_eq!(answer.iterations, 2);
    let first = [
        "user user: go",
        "assistant ada: heard call 1, step 0, run desk",
        "assistant bob: heard call 2, step 1, run desk",
    ];
    assert_eq!(lines(&chat), first);
    // The same again: neither its state nor its steps go on from the first run.
    go(&team, &chat, "once more").await.unwrap();
    let again = first.map(|line| line.replace("user: go", "user: once more"));
    assert_eq!(lines(&chat), [first.map(str::to_owned), again].concat());
    drop(cx);
    let (mut steps, mut calls) = (Vec::new(), 0);
    while let Some(event) = events.next_event().await {
        match event {
            Event::TeamStep { step, members, reasoning, done, .. } => {
                steps.push((step, members.len(), reasoning, done))
            }
            Event::PluginCall { plugin, function, outcome, .. } => {
                assert_eq!((&*plugin, function.name(), outcome.name()), ("probe-team", "coordinator.next", "ok"));
                calls += 1;
            }
            _ => {}
        }
    }
    assert_eq!((steps, calls), (vec![(0, 1, None, false), (1, 1, None, false), (2, 0, None, true)], 3));
}

#[tokio::test]
async fn coordinator_plugin_sees_members_and_outcomes() {
    let team = Team::new("desk", PluginCoordinator::new(&plugin(PROBE_TEAM, json!({"does": "who"})).await).unwrap());
    let described = says("ada", |_| text("")).with_description("Reads.");
    let team = team
        .with_member(Member::new(described).with_role("reader"))
        .with_member(Member::new(says("bob", |_| text(""))));
    let answer = go(&team, &Chat::new(), "go").await.unwrap().message;
    assert_eq!(answer.parts, ["ada (reader): Reads.", "bob (bob): "].map(|text| Part::Text(text.into())));
    assert_eq!(answer.sender, "desk");

    let fails = Member::new(says("eve", |_| Err(Fault::other("no luck")))).with_on_failure(OnFailure::Skip);
    let team = probe(json!({"does": "side-by-side"})).await.with_member(fails);
    let answer = go(&team, &Chat::new(), "go").await.unwrap().message.text_content();
    assert!(answer.starts_with("ada: replied; bob: replied; eve: "), "{answer}");
    assert!(answer.ends_with("no luck"), "{answer}");

    // The answer of a team is a message: JSON in it is text.
    let json = probe(json!({"does": "json"})).await;
    assert_eq!(go(&json, &Chat::new(), "go").await.unwrap().message.text_content(), r#"{"a":1}"#);
}

/// A conversation with a call in it, as a team has that works where an agent has worked.
fn with_a_call() -> Chat {
    let chat = Chat::new();
    chat.append(Message::user("a secret")).unwrap();
    let call = ToolCall { id: "c".into(), name: "look".into(), arguments: r#"{"key":"hidden"}"#.into(), meta: vec![] };
    let asked =
        Message { sender: "old".into(), role: Role::Assistant, parts: vec![Part::ToolCall(call)], meta: vec![] };
    let content = vec![shelly_host::chat::ToolResultContent::Text("found".into())];
    chat.reply(asked).answer(vec![ToolResult { call_id: "c".into(), content, is_error: false }]);
    chat
}

#[tokio::test]
async fn coordinator_plugin_sees_the_chat_by_its_powers() {
    for (powers, seen) in [
        (
            &[Power::SeeMessages, Power::SeeArguments, Power::SeeResults][..],
            [
                "Role::User user: text a secret",
                "Role::Assistant old: call look {\"key\":\"hidden\"}",
                "Role::Tool : result found",
            ],
        ),
        (
            &[Power::SeeMessages],
            ["Role::User user: text a secret", "Role::Assistant old: call look {}", "Role::Tool : result "],
        ),
        (&[], ["Role::User user: ", "Role::Assistant old: ", "Role::Tool : "]),
    ] {
        let less = |grant| Grant { powers: powers.iter().copied().collect(), ..grant };
        let team = two(led_by(&granted(PROBE_TEAM, json!({"does": "see"}), less).await));
        let answer = go(&team, &with_a_call(), "go").await.unwrap().message.text_content();
        let mut lines = answer.lines();
        assert_eq!(lines.next(), Some("4 messages in step 0, 0 tools"));
        assert_eq!(lines.take(3).collect::<Vec<_>>(), seen, "{powers:?}");
    }
}

#[tokio::test]
async fn coordinator_plugin_asks_only_granted_models() {
    let mind = |names: [&'static str; 2]| {
        Arc::new(Mind::new(move |asked| text(if asked.heard.contains("after 0") { names[0] } else { names[1] })))
    };
    let (own, other) = (mind(["ada", "own"]), mind(["bob", "other"]));
    let models = || Arc::new(BTreeMap::from([("other".to_owned(), other.clone() as Arc<dyn Completer>)]));
    let team = |plugin: &Arc<Plugin>| {
        let mut team = two(led_by(plugin)).with_completer(own.clone());
        team.models = models();
        team
    };
    let ask = |model: Option<&str>| json!({"does": "ask", "model": model});

    let chat = Chat::new();
    let answer = go(&team(&plugin(PROBE_TEAM, ask(None)).await), &chat, "go").await.unwrap();
    assert_eq!(lines(&chat), ["user user: go", "assistant ada: heard asked ?", "assistant desk: own"]);
    // The team is charged what its coordinator asked, two questions; what its member used is the member's.
    assert_eq!(answer.usage.total(), 2 * 15, "{:?}", answer.usage);

    let of_other = |grant| Grant { models: ["other".to_owned()].into_iter().collect(), ..grant };
    let plugin_of_other = granted(PROBE_TEAM, ask(Some("other")), of_other).await;
    assert_eq!(go(&team(&plugin_of_other), &Chat::new(), "go").await.unwrap().message.text_content(), "other");
    let asked = other.asked().len();

    // What was not granted is not asked.
    let of_none = |grant| Grant { models: Default::default(), ..grant };
    let error = failure(&team(&granted(PROBE_TEAM, ask(Some("other")), of_none).await)).await;
    assert!(error.starts_with("coordinator `probe-team` failed: model `other` is not granted"), "{error}");
    assert_eq!(other.asked().len(), asked);
    let powerless = granted(PROBE_TEAM, ask(None), |grant| Grant { powers: Default::default(), ..grant }).await;
    let before = own.asked().len();
    let error = failure(&team(&powerless)).await;
    assert_eq!(
        error,
        "coordinator `probe-team` failed: power `ask-model` is not granted; add it to `powers` of the plugin's entry \
         in the config"
    );
    assert_eq!(own.asked().len(), before);
    let error = failure(&two(led_by(&plugin(PROBE_TEAM, ask(None)).await))).await;
    assert!(error.contains("team `desk` has no model for its coordinator"), "{error}");
}

#[tokio::test]
async fn failed_coordinator_plugin_ends_the_run_by_name() {
    for (params, says) in [
        (json!({"does": "unknown", "text": "eve\u{1b}[2J"}), "there is no member `eve\\u{1b}[2J`; members: ada, bob"),
        (json!({"does": "twice"}), "member `ada` is chosen twice in one step"),
        (json!({"does": "nobody"}), "the coordinator chose no member twice in a row"),
        (json!({"does": "error", "text": "too many rounds"}), "too many rounds"),
        (
            json!({"does": "task", "size": limits::ASSIGNMENT_CHARS + 1}),
            "a task exceeds the maximum of 32000 characters",
        ),
        (json!({"does": "answer", "size": 0}), "the coordinator ended the team with an empty answer"),
        (json!({"does": "pieces", "size": 0}), "the coordinator ended the team with an empty answer"),
        (
            json!({"does": "pieces", "size": limits::RESULT_PIECES + 1}),
            "the answer of the team has 257 pieces, the maximum is 256",
        ),
        (
            json!({"does": "state", "size": limits::STATE_BYTES + 1}),
            "plugin `probe-team` returned a state of 65537 bytes, the maximum is 65536",
        ),
        (json!({"does": "ask-for-ever"}), "the coordinator called a model more than 8 times in a row"),
        (json!({"does": "panic"}), "plugin `probe-team` crashed: "),
        (json!({"does": "nonsense"}), "probe-team: it cannot `nonsense`"),
        (json!({"typo": 1}), "unknown field `typo`"),
    ] {
        let mind = Arc::new(Mind::new(|_| text("again")));
        let error = failure(&probe(params.clone()).await.with_completer(mind)).await;
        let said = error.strip_prefix("coordinator `probe-team` failed: ");
        assert!(said.is_some_and(|said| said.contains(says)), "{params}: {error}");
        assert!(!error.contains('\u{1b}'), "{error}");
    }
    // What is just within the bounds is taken.
    for params in [json!({"does": "answer", "size": 1}), json!({"does": "pieces", "size": limits::RESULT_PIECES})] {
        assert!(go(&probe(params).await, &Chat::new(), "go").await.is_ok());
    }
    for params in [
        json!({"does": "task", "size": limits::ASSIGNMENT_CHARS}),
        json!({"does": "state", "size": limits::STATE_BYTES}),
        json!({"does": "for-ever"}),
    ] {
        let budget = Budget { tokens: Some(100), ..Budget::default() };
        let error = go(&probe(params).await.with_budget(budget), &Chat::new(), "go").await.unwrap_err();
        assert!(!matches!(error, RunError::Coordinator { .. }) && error.is_exhausted(), "{}", error.in_full());
    }
}

#[tokio::test]
async fn hanging_coordinator_plugin_times_out() {
    let package = Arc::new(PluginPackage::read(std::path::Path::new(PROBE_TEAM).parent().unwrap()).unwrap());
    let limits = Limits { step_time: Duration::from_millis(300), ..Limits::default() };
    let params = serde_json::value::to_raw_value(&json!({"does": "spin"})).unwrap();
    let settings = PluginSettings { params, limits, ..PluginSettings::new("desk", "teams.desk.coordinator") };
    let plugin = Plugin::load(&Arc::new(PluginEngine::new(None).unwrap()), &package, &settings).await.unwrap();
    let error = failure(&two(led_by(&Arc::new(plugin)))).await;
    let took = "coordinator `probe-team` failed: plugin `probe-team` timed out after 0.3 seconds";
    assert!(error.starts_with(took) && error.contains("under teams.desk.coordinator in the config"), "{error}");
    // A second is what the contract says, if the config does not say otherwise.
    assert_eq!(Limits::default().step_time, Duration::from_secs(1));
}

#[tokio::test]
async fn plugin_of_another_kind_cannot_coordinate() {
    assert!(PluginCoordinator::new(&plugin(crate::plugin::REDACT, json!({})).await).is_none());
    assert!(shelly_host::plugin::PluginEffect::new(&plugin(PROBE_TEAM, json!({})).await).is_none());
}

/// Params of a review: a draft, then two who must both say yes.
fn review(more: Value) -> Value {
    let mut params = json!({"states": [
        {"name": "draft", "members": ["writer"], "default": "review"},
        {"name": "review", "members": ["critics"], "task": "Say YES or NO.", "default": "draft",
         "transitions": [{"matches": "^NEVER", "to": "done"}, {"matches": "^YES", "by": "all", "to": "publish"}]},
        {"name": "publish", "members": ["writer"]},
    ]});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

/// A writer, and two critics of whom one is content with the second draft.
fn writers(team: Team) -> Team {
    let critic = |name: &str, says: fn(usize) -> &'static str| {
        Member::new(super::agent(name, Mind::new(move |asked| text(says(asked.turn))))).with_role("critics")
    };
    team.with_member(Member::new(super::agent("writer", Mind::new(|asked| text(&format!("draft {}", asked.turn))))))
        .with_member(critic("ada", |_| "YES"))
        .with_member(critic("bob", |turn| if turn == 0 { "NO" } else { "YES" }))
}

/// A state machine leads a team by what is said.
pub async fn state_machine() {
    let team = writers(led_by(&plugin(STATE_MACHINE, review(json!({}))).await));
    let chat = Chat::new();
    let answer = go(&team, &chat, "write").await.unwrap();
    assert_eq!((answer.message.text_content().as_str(), answer.iterations), ("draft 2", 5));
    assert_eq!(
        lines(&chat),
        [
            "user user: write",
            "assistant writer: draft 0",
            "assistant ada: YES",
            "assistant bob: NO",
            "assistant writer: draft 1",
            "assistant ada: YES",
            "assistant bob: YES",
            "assistant writer: draft 2",
        ]
    );
    // It begins anew, and what was said before does not count.
    assert_eq!(go(&team, &chat, "again").await.unwrap().iterations, 3);

    for (params, says) in [
        (review(json!({"max_steps": 3})), "not done after 3 steps (`max_steps`); `review` would be next"),
        (review(json!({"states": []})), "params: there is no state"),
        (
            json!({"states": [{"name": "a", "members": ["eve"]}]}),
            "params: state `a`: no member has the name or the role `eve`; members: writer (writer), ada (critics), \
             bob (critics)",
        ),
    ] {
        let team = writers(led_by(&plugin(STATE_MACHINE, params).await));
        let error = go(&team, &Chat::new(), "write").await.unwrap_err();
        let full = error.in_full();
        assert_eq!(
            full.strip_prefix("coordinator `state-machine` failed: ").map(|said| said.contains(says)),
            Some(true),
            "{full}"
        );
        assert_eq!(error.is_exhausted(), says.contains("max_steps"));
    }
    let blind = granted(STATE_MACHINE, review(json!({})), |grant| Grant { powers: Default::default(), ..grant }).await;
    let error = failure(&writers(led_by(&blind))).await;
    assert!(error.contains("grant `powers: [see-messages]`"), "{error}");
}

#[tokio::test]
async fn state_machine_plugin_reads_long_replies_whole() {
    let long = |name: &str, says: String| Member::new(says_always(name, says));
    let params = json!({"states": [
        {"name": "a", "members": ["ada", "bob", "eve"], "transitions": [{"matches": "END$", "by": "all", "to": "done"}], "default": "a"},
    ], "max_steps": 1});
    let team = led_by(&plugin(STATE_MACHINE, params).await);
    let team = ["ada", "bob", "eve"].into_iter().fold(team, |team, name| {
        team.with_member(long(name, format!("{} END", "x".repeat(limits::CHAT_READ_BYTES / 2 + 1))))
    });
    go(&team, &Chat::new(), "go").await.unwrap();
}

fn says_always(name: &str, what: String) -> shelly_host::agent::Agent {
    says(name, move |_| text(&what))
}

#[tokio::test]
async fn coordinator_plugin_steps_follow_the_trait() {
    // Without a team around it: the conversation and the members are what it is handed.
    let plugin = plugin(STATE_MACHINE, json!({"states": [{"name": "a", "members": ["ada"]}]})).await;
    let coordinator = PluginCoordinator::new(&plugin).unwrap();
    let members = [shelly_host::team::MemberProfile { name: "ada".into(), role: "ada".into(), description: "".into() }];
    let shared = ChatSnapshot::from_messages(vec![Message::user("go")]).unwrap();
    let reports = [MemberReport { member: "ada".into(), fared: MemberOutcome::Replied }];
    let moment = |step, reports| CoordinatorInput {
        step,
        shared: &shared,
        members: &members,
        reports,
        active: None,
        reply: None,
    };
    let cx = RunCx::new("desk");
    let first = coordinator.next(&cx, &moment(0, &[]), Vec::new()).await.unwrap();
    assert!(
        matches!(&first.action, shelly_host::team::CoordinatorAction::Run(run) if *run[0].member == *"ada"),
        "{first:?}"
    );
    let second = coordinator.next(&cx, &moment(1, &reports), first.state).await.unwrap();
    assert!(matches!(second.action, shelly_host::team::CoordinatorAction::Done(None)), "{second:?}");
    // A state of another version counts as none.
    let odd = coordinator.next(&cx, &moment(1, &reports), vec![9, 9]).await.unwrap();
    assert!(matches!(odd.action, shelly_host::team::CoordinatorAction::Run(_)), "{odd:?}");
}

#[tokio::test]
async fn coordinator_plugin_sees_and_leads_handoffs() {
    for (meeting, at_most, expected) in [
        (TeamChatMode::Handoff, 9, Ok("eve answers")),
        (TeamChatMode::SharedHandoff, 9, Ok("eve answers")),
        (TeamChatMode::Handoff, 0, Ok("it was handed over too often")),
        // Without tools for it nobody can.
        (TeamChatMode::Coordinated, 9, Err("tool not found: transfer_to_bob")),
    ] {
        let passes = |name: &'static str, to: &'static str| {
            Member::new(super::agent(
                name,
                Mind::new(move |asked| match asked.heard.contains("not found") {
                    true => text(&asked.heard),
                    false => crate::script::act(
                        &format!("transfer_to_{to}"),
                        json!({"reason": format!("{to} knows"), "context": "line 1\nline 2"}),
                    ),
                }),
            ))
        };
        let heard = Arc::new(Mutex::new(String::new()));
        let (team, all) =
            (led_by(&plugin(PROBE_TEAM, json!({"does": "hand-over", "size": at_most})).await), Arc::clone(&heard));
        let eve = super::agent(
            "eve",
            Mind::new(move |asked| {
                let said = asked.request.messages.iter().filter(|entry| entry.message.role == Role::User);
                *all.lock().unwrap() = said.map(|entry| entry.message.text_content()).collect::<Vec<_>>().join(" | ");
                text("eve answers")
            }),
        );
        let team = team
            .with_meeting(meeting)
            .with_member(passes("ada", "bob"))
            .with_member(passes("bob", "eve"))
            .with_member(Member::new(eve));
        let chat = Chat::new();
        let answer = go(&team, &chat, "go").await.unwrap().message.text_content();
        match expected {
            Ok(expected) => assert_eq!(answer, expected, "{meeting:?}"),
            Err(expected) => assert!(answer.contains(expected), "{meeting:?}: {answer}"),
        }
        if expected == Ok("eve answers") {
            let heard = heard.lock().unwrap().clone();
            let from = "`bob` hands over to `eve`.\nWhy, in its words:\n> eve knows\nWhat you must know, in its words:\n> line 1\n> line 2";
            assert!(
                heard.starts_with("go | `ada` hands over to `bob`.") && heard.ends_with(from),
                "{meeting:?}: {heard}"
            );
        }
        assert_eq!(chat.snapshot().check(), Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinator_plugin_leads_configured_handoffs() {
    for (hand_over, expected) in [(", hand_over: private", "bob(…)"), (", hand_over: shared", "bob(…)"), ("", "ann(…)")]
    {
        let said = super::configured::handed_over(hand_over).await;
        assert_eq!(said, expected, "{hand_over}");
    }
}
