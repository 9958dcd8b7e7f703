//! Property tests: no coordinator panics, asks or runs without end, or names an unknown member, on any input.

use std::{collections::HashSet, sync::Arc};

use proptest::{collection::vec, prelude::*};

use super::{
    super::{Coordinator, CoordinatorAction, CoordinatorInput, MemberOutcome, MemberProfile, MemberReport},
    testing::{cx, profiles},
    *,
};
use crate::{
    chat::{ChatSnapshot, Message, Part, Role, ToolCall},
    error::Fault,
    limits,
    model::{Completion, StopReason, Usage},
    tool::TaskHandoff,
};

/// Returns all coordinators. None takes more than 100 steps with ten members, but for the one without a maximum.
fn coordinators() -> Vec<Arc<dyn Coordinator>> {
    let model = |summary, tools| {
        let options =
            ModelCoordinatorOptions { max_rounds: 3, window: 3, summary, tools, ..ModelCoordinatorOptions::default() };
        Arc::new(ModelCoordinator::new(options))
    };
    vec![
        Arc::new(SequenceCoordinator),
        Arc::new(LoopCoordinator::new(3)),
        Arc::new(LoopCoordinator::times(3)),
        Arc::new(RoundRobinUntil::new(3, StopCondition::text("done").unwrap())),
        Arc::new(RoundRobinUntil::new(3, StopCondition::Coordinator(model(false, false)))),
        Arc::new(RoleRoundRobin::new(3, ["r0", "r1", "r2", "r1"])),
        Arc::new(RoleRoundRobin { at_end: OnRoundsEnd::Fail, ..RoleRoundRobin::new(0, ["r1", "r3"]) }),
        Arc::new(HandoffCoordinator::new(5)),
        model(false, false),
        model(true, false),
        model(false, true),
        model(true, true),
    ]
}

fn members() -> impl Strategy<Value = Vec<MemberProfile>> {
    let one = (0..10_u8, 0..4_u8);
    vec(one, 0..10).prop_map(|all| {
        let mut seen = HashSet::new();
        let new: Vec<_> = all.into_iter().filter(|(name, _)| seen.insert(*name)).collect();
        profiles(&new.iter().map(|(name, role)| format!("m{name}:r{role}")).collect::<Vec<_>>().join(" "))
    })
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let text = prop_oneof![any::<String>(), Just("done".to_owned()), "[a-z\n>\\[\\]]{1,40}"];
    let one = (text, "m[0-9]|user|", any::<bool>()).prop_map(|(text, sender, is_reply)| {
        // No message is empty.
        Message::text(if is_reply { Role::Assistant } else { Role::User }, sender, format!("{text}."))
    });
    vec(one, 0..10)
}

/// Generates replies of a model, many of them nearly valid.
fn reply() -> impl Strategy<Value = Result<Completion, Fault>> {
    let named = prop_oneof![(0..12_u8).prop_map(|at| format!("\"m{at}\"")), (-1..12_i8).prop_map(|at| at.to_string())];
    let members = vec(named, 0..4).prop_map(|all| all.join(","));
    let decision = (members.clone(), any::<bool>())
        .prop_map(|(members, done)| format!("{{\"members\":[{members}],\"done\":{done}}}"));
    let text = prop_oneof![decision, any::<String>(), "[{}\\[\\]\",:a-z`]{0,30}"];
    let assign = members.prop_map(|members| {
        let all: Vec<_> = members.split(',').map(|member| format!("{{\"member\":{member}}}")).collect();
        ("assign_task".to_owned(), format!("{{\"assignments\":[{}]}}", all.join(",")))
    });
    let look = prop_oneof![Just("get_team_status"), Just("get_shared_summary"), Just("finish"), Just("other")]
        .prop_flat_map(|name| (Just(name.to_owned()), "|\\{\\}|\\{\"page\":[0-9]{1,9}\\}|x"));
    let calls = vec(prop_oneof![assign, look], 1..4);
    let call = |(name, arguments)| Part::ToolCall(ToolCall { id: String::new(), name, arguments, meta: vec![] });
    let parts = prop_oneof![
        text.prop_map(|text| vec![Part::Text(text)]),
        calls.prop_map(move |calls| calls.into_iter().map(call).collect::<Vec<_>>()),
        Just(Vec::<Part>::new()),
    ];
    let completion = parts.prop_map(|parts| {
        let (stop, usage) = (StopReason::EndTurn, Usage::default());
        Ok::<_, Fault>(Completion { parts, stop, usage, model: String::new(), meta: vec![] })
    });
    let fault = prop_oneof![
        Just(Fault::invalid("no")),
        Just(Fault::Unavailable { message: "off".into(), after: None }),
        Just(Fault::other("broken")),
    ];
    prop_oneof![8 => completion, 2 => fault.prop_map(Err::<Completion, Fault>)]
}

fn fared() -> impl Strategy<Value = MemberOutcome> {
    let over = (0..12_u8).prop_map(|to| {
        MemberOutcome::HandedOver(TaskHandoff { agent: format!("m{to}"), reason: "why".into(), context: String::new() })
    });
    prop_oneof![2 => Just(MemberOutcome::Replied), 6 => over, 1 => Just(MemberOutcome::Failed(Fault::other("broken")))]
}

/// The events between two calls.
#[derive(Debug, Clone)]
struct Between {
    members: Option<Vec<MemberProfile>>,
    messages: Vec<Message>,
    reply: Result<Completion, Fault>,
    fared: MemberOutcome,
}

fn between() -> impl Strategy<Value = Between> {
    let members = proptest::option::weighted(0.2, members());
    (members, messages(), reply(), fared()).prop_map(|(members, messages, reply, fared)| Between {
        members,
        messages,
        reply,
        fared,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_coordinated_run_ends(first in members(), script in vec(between(), 1..40), which in 0..12_usize) {
        let coordinator = &coordinators()[which];
        let (mut members, mut shared) = (first, vec![Message::user("task")]);
        let (mut state, mut step, mut asks, mut reply, mut reports) = (vec![], 0_u32, 0, None, vec![]);
        // The script is repeated without end.
        for between in script.iter().cycle() {
            let snapshot = ChatSnapshot::from_messages(shared.clone()).unwrap();
            let active = reports.last().map(|report: &MemberReport| Arc::clone(&report.member));
            let moment = CoordinatorInput { step, shared: &snapshot, members: &members, reports: &reports, active: active.as_deref(), reply: reply.take() };
            let Ok(next) = futures_util::FutureExt::now_or_never(coordinator.next(&cx(), &moment, state)).expect("it is pure") else { break };
            prop_assert!(next.state.len() <= limits::STATE_BYTES);
            state = next.state;
            match next.action {
                CoordinatorAction::Done(_) => break,
                CoordinatorAction::Ask(ask) => {
                    asks += 1;
                    prop_assert!(asks <= limits::ASKS_IN_A_ROW);
                    prop_assert!(ask.request.messages.check().is_ok());
                    reply = Some(between.reply.clone());
                }
                CoordinatorAction::Run(run) => {
                    let chosen: HashSet<_> = run.iter().map(|one| &one.member).collect();
                    prop_assert!(!run.is_empty() && chosen.len() == run.len());
                    prop_assert!(chosen.iter().all(|name| members.iter().any(|member| member.name == **name)));
                    reports = run.iter().map(|one| MemberReport { member: Arc::clone(&one.member), fared: between.fared.clone() }).collect();
                    (asks, step) = (0, step + 1);
                    // A coordinator without a maximum ends where every team does.
                    prop_assert!(step <= 100 || which == 6);
                    if which == 6 && step == 100 {
                        step = limits::TEAM_STEPS;
                    }
                    members = between.members.clone().unwrap_or(members);
                    shared.extend(between.messages.iter().cloned());
                    shared.truncate(50);
                }
            }
        }
    }

    #[test]
    fn any_state_and_input_yield_a_bounded_step(
        members in members(),
        messages in messages(),
        reply in proptest::option::of(reply()),
        fared in vec(fared(), 0..3),
        step in prop_oneof![0..5_u32, any::<u32>()],
        state in prop_oneof![
            vec(any::<u8>(), 0..40),
            "\\{\"(round|at|cycle|times|said|asking|had)\":(-1|0|7|[0-9]{1,20}|\\[\\]|\\{\\}|null|\"x\")\\}".prop_map(String::into_bytes),
            Just(br#"{"asking":{"asked":"decision","times":3}}"#.to_vec()),
            Just(br#"{"asking":{"asked":"summary","times":4294967295},"summary":{"through":18446744073709551615,"text":"x"},"said":[{"after":18446744073709551615,"said":"x"}]}"#.to_vec()),
        ],
    ) {
        let shared = [vec![Message::user("task")], messages].concat();
        let shared = ChatSnapshot::from_messages(shared).unwrap();
        let report = |fared| MemberReport { member: "m1".into(), fared };
        let reports: Vec<_> = fared.into_iter().map(report).collect();
        for coordinator in coordinators() {
            let moment = CoordinatorInput { step, shared: &shared, members: &members, reports: &reports, active: Some("m1"), reply: reply.clone() };
            let next = futures_util::FutureExt::now_or_never(coordinator.next(&cx(), &moment, state.clone()));
            if let Ok(next) = next.expect("it is pure") {
                prop_assert!(next.state.len() <= limits::STATE_BYTES);
            }
        }
    }
}
