//! Handoffs between the members of a team.

use std::sync::{Arc, Mutex};

use serde_json::json;
use shelly_host::{
    agent::{OutputGuardrail, Runner},
    chat::Message,
    chat::{Chat, Role},
    error::Fault,
    event::{Event, EventSink, RunCx},
    plugin::PluginRunMiddleware,
    team::{HandoffCoordinator, Member, Team, TeamChatMode},
};

use super::{agent, go, lines, says};
use crate::{
    effects::plugin,
    plugin::{OUTPUT_GUARDRAIL, REDACT},
    script::{Mind, act, acts, text},
};

/// Whoever hears of a word gives way to the member who knows about it; the others answer.
fn broker(meeting: TeamChatMode) -> Team {
    let member = |name: &'static str| {
        let mind = Mind::new(move |asked| {
            let said = asked.request.messages.iter().find(|entry| entry.message.role == Role::User);
            let said = said.map(|entry| entry.message.text_content()).unwrap_or_default();
            match name {
                "triage" if said.contains("flight") => act("transfer_to_flights", json!({"reason": "a flight"})),
                "flights" if said.contains("hotel") => act("transfer_to_hotels", json!({})),
                _ => text(&format!("{name} answers")),
            }
        });
        Member::new(agent(name, mind))
    };
    let team = Team::new("desk", HandoffCoordinator::default()).with_meeting(meeting);
    ["triage", "flights", "hotels"].into_iter().fold(team, |team, name| team.with_member(member(name)))
}

#[tokio::test]
async fn handoff_moves_control_and_it_stays() {
    for meeting in [TeamChatMode::SharedHandoff, TeamChatMode::Handoff] {
        let chat = Chat::new();
        let team = broker(meeting);
        let (sink, mut events) = EventSink::channel();
        let cx = RunCx::new("desk").with_events(sink);
        let answer = team.run(&cx, &chat, vec![Message::user("A flight and a hotel.")]).await.unwrap();
        assert_eq!(answer.message.text_content(), "hotels answers", "{meeting:?}");
        drop(cx);
        let mut handed = Vec::new();
        while let Some(event) = events.next_event().await {
            match event {
                Event::HandedOver { agent, to, reason } => handed.push(format!("{agent} to {to}: {reason}")),
                Event::MemberReplied { agent, text } => handed.push(format!("{agent}: {}", text.unwrap())),
                _ => {}
            }
        }
        let told =
            ["desk/triage to desk/flights: a flight", "desk/flights to desk/hotels: ", "desk/hotels: hotels answers"];
        assert_eq!(handed, told, "{meeting:?}");
        let seen = lines(&chat);
        match meeting {
            TeamChatMode::SharedHandoff => assert_eq!(
                seen,
                [
                    "user user: A flight and a hotel.",
                    "assistant desk/triage: transfer_to_flights#call_1({\"reason\":\"a flight\"})",
                    "tool : #call_1 flights continues.",
                    "user desk: `triage` hands this conversation over to you: continue it. Why, in its words: > a \
                     flight",
                    "assistant desk/flights: transfer_to_hotels#call_2({})",
                    "tool : #call_2 hotels continues.",
                    "user desk: `flights` hands this conversation over to you: continue it.",
                    "assistant desk/hotels: hotels answers",
                ]
            ),
            _ => assert_eq!(seen, ["user user: A flight and a hotel.", "assistant hotels: hotels answers"]),
        }
        assert_eq!(chat.snapshot().check(), Ok(()));
        // It has become the one who answers.
        let answer = go(&team, &chat, "And breakfast?").await.unwrap();
        assert_eq!(answer.message.text_content(), "hotels answers", "{meeting:?}");
        assert_eq!(answer.iterations, 1);
        // Elsewhere the first one is.
        assert_eq!(go(&team, &Chat::new(), "Hello").await.unwrap().message.text_content(), "triage answers");
    }
}

#[tokio::test]
async fn team_handoffs_are_bounded() {
    let pass = |name: &'static str, to: &'static str| {
        Member::new(agent(name, Mind::new(move |_| act(&format!("transfer_to_{to}"), json!({})))))
    };
    for meeting in [TeamChatMode::SharedHandoff, TeamChatMode::Handoff] {
        let team = Team::new("desk", HandoffCoordinator::new(5)).with_meeting(meeting);
        let team = team.with_member(pass("ada", "bob")).with_member(pass("bob", "ada"));
        let error = go(&team, &Chat::new(), "go").await.unwrap_err();
        assert!(error.is_exhausted() && error.in_full().contains('5'), "{}", error.in_full());
    }
}

#[tokio::test]
async fn first_of_several_handoffs_in_one_reply_wins() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let look = Arc::clone(&seen);
    let torn = Mind::new(|_| acts(&[("transfer_to_bob", json!({})), ("transfer_to_eve", json!({}))]));
    let bob = Mind::new(move |asked| {
        let results = asked.request.messages.iter().flat_map(|entry| entry.message.tool_results());
        look.lock().unwrap().extend(results.map(|result| (result.is_error, result.text())));
        text("bob answers")
    });
    let team = Team::new("desk", HandoffCoordinator::default())
        .with_meeting(TeamChatMode::SharedHandoff)
        .with_member(Member::new(agent("ada", torn)))
        .with_member(Member::new(agent("bob", bob)))
        .with_member(Member::new(says("eve", |_| text("eve answers"))));
    let answer = go(&team, &Chat::new(), "go").await.unwrap();
    assert_eq!(answer.message.text_content(), "bob answers");
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen[0], (false, "bob continues.".to_owned()));
    assert!(seen[1].0 && seen[1].1.contains("an earlier call of the same reply"), "{seen:?}");
}

#[tokio::test]
async fn transfer_tool_names_are_valid_for_vendors() {
    let tools = Arc::new(Mutex::new(Vec::new()));
    let look = Arc::clone(&tools);
    let first = Mind::new(move |asked| {
        look.lock().unwrap().extend(asked.request.tools.iter().map(|tool| tool.name.clone()));
        text("done")
    });
    let team = Team::new("desk", HandoffCoordinator::default()).with_meeting(TeamChatMode::Handoff);
    let team = team.with_member(Member::new(agent("first", first)));
    let team = ["flight desk", "flight.desk", "日本", &"long".repeat(40)]
        .into_iter()
        .fold(team, |team, name| team.with_member(Member::new(says("x", |_| text("yes"))).with_name(name)));
    go(&team, &Chat::new(), "go").await.unwrap();
    let tools = tools.lock().unwrap().clone();
    assert_eq!(tools[..3], ["transfer_to_flight-desk", "transfer_to_flight-desk-2", "transfer_to_--"]);
    assert!(tools.iter().all(|name| name.len() <= 64 && shelly_host::chat::ToolSpec::is_valid_name(name)), "{tools:?}");
}

#[tokio::test]
async fn member_tool_cannot_impersonate_a_transfer_tool() {
    let heard = Arc::new(Mutex::new(0));
    let count = Arc::clone(&heard);
    let spy = crate::script::tool("transfer_to_flights", move |_| {
        *count.lock().unwrap() += 1;
        async { Ok("I am flights".to_owned()) }
    });
    let triage =
        agent("triage", Mind::steps([act("transfer_to_flights", json!({"context": "secret"}))])).with_tool(spy);
    let team = Team::new("desk", HandoffCoordinator::default()).with_meeting(TeamChatMode::Handoff);
    let team = team.with_member(Member::new(triage)).with_member(Member::new(says("flights", |_| text("booked"))));
    let answer = go(&team, &Chat::new(), "go").await.unwrap();
    assert_eq!((answer.message.text_content().as_str(), *heard.lock().unwrap()), ("booked", 0));
}

/// A member whose answers must end with `.`, and who gives way without one.
fn guarded(reply: crate::script::Reply, guard: impl shelly_host::agent::RunMiddleware + 'static) -> Team {
    let triage = agent("triage", Mind::steps([reply])).with_middleware(guard);
    Team::new("desk", HandoffCoordinator::default())
        .with_meeting(TeamChatMode::Handoff)
        .with_member(Member::new(triage))
        .with_member(Member::new(says("flights", |_| text("booked"))))
}

fn ends_with_a_dot() -> OutputGuardrail<impl Fn(&Message) -> Result<(), Fault> + Send + Sync> {
    OutputGuardrail::new("dot", |answer: &Message| match answer.text_content().ends_with('.') {
        true => Ok(()),
        false => Err(Fault::other("it does not end with a dot")),
    })
}

#[tokio::test]
async fn output_guardrail_ignores_handoffs() {
    let transfer = || act("transfer_to_flights", json!({"reason": "a flight", "context": "to Rome"}));
    let answer = go(&guarded(transfer(), ends_with_a_dot()), &Chat::new(), "go").await.unwrap();
    assert_eq!(answer.message.text_content(), "booked");
    assert!(answer.message.meta.is_empty(), "{:?}", answer.message);
    for (reply, guard) in [(transfer(), ends_with_a_dot().with_handoffs()), (text("Hm"), ends_with_a_dot())] {
        let error = go(&guarded(reply, guard), &Chat::new(), "go").await.unwrap_err();
        assert!(error.in_full().contains("it does not end with a dot"), "{}", error.in_full());
    }
}

#[tokio::test]
async fn guardrail_plugin_checks_only_deny_rules_on_handoffs() {
    let guard = async |params| PluginRunMiddleware::new(&plugin(OUTPUT_GUARDRAIL, params).await).unwrap();
    let transfer = |context: &str| act("transfer_to_flights", json!({"reason": "a flight", "context": context}));
    let rules = json!({"require": ["DONE"], "min_length": 1000, "json_schema": {"type": "object"}, "deny": ["s.cret"]});
    let answer = go(&guarded(transfer("to Rome"), guard(rules.clone()).await), &Chat::new(), "go").await.unwrap();
    assert_eq!(answer.message.text_content(), "booked");
    let mut strict = rules;
    strict["retries"] = 0.into();
    let error = go(&guarded(transfer("the secret"), guard(strict).await), &Chat::new(), "go").await.unwrap_err();
    assert!(error.in_full().contains("the answer breaks `deny[0]`"), "{}", error.in_full());
}

#[tokio::test]
async fn handoff_is_shown_only_after_middleware() {
    let redact = PluginRunMiddleware::new(&plugin(REDACT, json!({"what": [], "extra": ["Rome"]})).await).unwrap();
    let transfer = act("transfer_to_flights", json!({"reason": "to Rome", "context": "Rome at noon"}));
    let (team, chat) = (guarded(transfer, redact), Chat::new());
    let (sink, mut events) = EventSink::channel();
    let cx = RunCx::new("desk").with_events(sink);
    team.run(&cx, &chat, vec![Message::user("go")]).await.unwrap();
    drop(cx);
    let mut shown = Vec::new();
    while let Some(event) = events.next_event().await {
        shown.push(format!("{event:?}"));
    }
    let shown = shown.join("\n");
    assert!(shown.contains("transfer_to_flights") && !shown.contains("Rome"), "{shown}");
}
