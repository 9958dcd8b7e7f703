//! Members with the name of somebody else: the author of a message is who wrote it, whatever its name.

use std::sync::{Arc, Mutex};

use shelly_host::{
    agent::{
        Agent, AgentEntry, AgentGroup, AgentRegistry, Runner,
        journal::{JournalRecord, JournalState},
    },
    chat::{Chat, Message, Role},
    event::RunCx,
    model::Completer,
    team::{
        Member, ModelCoordinator, ModelCoordinatorOptions, RoundRobinUntil, SequenceCoordinator, StopCondition, Team,
    },
};

use super::{agent, go, lines, plan};
use crate::{
    script::{Mind, said, text},
    sessions::memory,
};

/// The request of each member, as `instance: sender: text | …` without its system prompt.
type Heard = Arc<Mutex<Vec<String>>>;

/// A member that says `NAME says` with the number of its reply, and notes all that it hears.
fn listens(name: &'static str, heard: &Heard) -> Agent {
    let heard = Arc::clone(heard);
    let mind = Mind::new(move |asked| {
        let messages = asked.request.messages.iter().filter(|entry| entry.message.role != Role::System);
        let lines: Vec<_> =
            messages.map(|entry| format!("{}: {}", entry.message.sender, said(&entry.message))).collect();
        heard.lock().unwrap().push(format!("{} <- {}", asked.agent, lines.join(" | ")));
        text(&format!("{name} says {}", asked.turn + 1))
    });
    agent(name, mind)
}

fn nested(heard: &Heard) -> Team {
    let broker = Team::new("desk", SequenceCoordinator)
        .with_member(Member::new(listens("researcher", heard)))
        .with_member(Member::new(listens("writer", heard)));
    Team::new("outer", plan(&[&["researcher"], &["desk"], &["researcher"], &["desk"]]))
        .with_member(Member::new(listens("researcher", heard)))
        .with_member(Member::new(broker))
}

const NESTED: [&str; 6] = [
    "outer/researcher <- user: go",
    "outer/desk/researcher <- user: go | researcher: researcher says 1",
    "outer/desk/writer <- user: go | researcher: researcher says 1 | researcher: researcher says 1",
    "outer/researcher <- user: go | outer/researcher: researcher says 1 | desk: writer says 1",
    "outer/desk/researcher <- user: go | researcher: researcher says 1 | outer/desk/researcher: researcher says 1 | \
     writer: writer says 1 | researcher: researcher says 2",
    "outer/desk/writer <- user: go | researcher: researcher says 1 | researcher: researcher says 1 | \
     outer/desk/writer: writer says 1 | researcher: researcher says 2 | researcher: researcher says 2",
];

#[tokio::test]
async fn inner_member_sees_replies_of_its_outer_namesake() {
    let (heard, chat) = (Heard::default(), Chat::new());
    let answer = go(&nested(&heard), &chat, "go").await.unwrap();
    assert_eq!(*heard.lock().unwrap(), NESTED);
    assert!(answer.message.meta.is_empty(), "{:?}", answer.message);
    assert_eq!(
        lines(&chat),
        [
            "user user: go",
            "assistant researcher: researcher says 1",
            "assistant desk: writer says 1",
            "assistant researcher: researcher says 2",
            "assistant desk: writer says 2",
        ]
    );
}

/// Sessions that were written down before members were noted with their replies go on in the same way.
#[tokio::test]
async fn resumed_members_see_the_same_in_old_sessions() {
    let (heard, written) = (Heard::default(), memory());
    let agent_group = Arc::new(AgentGroup::new(AgentRegistry::new()).with_recorder(written.clone()));
    let cx = RunCx::new("outer");
    nested(&heard).with_agent_group(agent_group).run(&cx, &Chat::recorded(), vec![Message::user("go")]).await.unwrap();
    let records = written.records();
    let without_notes = |(run, record): &(u64, JournalRecord)| {
        let mut json = serde_json::to_value(record).unwrap();
        drop_notes(&mut json);
        (*run, serde_json::from_value(json).unwrap())
    };
    let old: Vec<(u64, JournalRecord)> = records.iter().map(without_notes).collect();
    assert_ne!(serde_json::to_string(&old).unwrap(), serde_json::to_string(&records).unwrap());
    for records in [records, old] {
        for cut in 1..records.len() {
            let past = JournalState::of(records[..cut].iter().cloned()).unwrap();
            let (heard, written, chat) = (Heard::default(), memory(), past.chat().unwrap());
            let agent_group = Arc::new(AgentGroup::new(AgentRegistry::new()).resuming(written, past, &chat));
            let answer =
                nested(&heard).with_agent_group(agent_group).resume(&cx, &chat, Vec::new()).await.unwrap().unwrap();
            assert_eq!(answer.message.text_content(), "writer says 2", "{cut}");
            let heard = heard.lock().unwrap().clone();
            assert_eq!(heard, NESTED[NESTED.len() - heard.len()..], "{cut}");
        }
    }
}

fn drop_notes(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::Array(items) => {
            items.retain(|item| item[0] != "shelly.member");
            items.iter_mut().for_each(drop_notes);
        }
        serde_json::Value::Object(fields) => fields.values_mut().for_each(drop_notes),
        _ => {}
    }
}

#[tokio::test]
async fn member_named_like_the_user_or_team_sees_their_messages() {
    let heard = Heard::default();
    let team = Team::new("desk", plan(&[&["user"], &["desk"], &["user"]]))
        .with_member(Member::new(listens("user", &heard)))
        .with_member(Member::new(listens("desk", &heard)));
    let chat = Chat::new();
    go(&team, &chat, "go").await.unwrap();
    go(&team, &chat, "again").await.unwrap();
    assert_eq!(
        heard.lock().unwrap()[..5],
        [
            "desk/user <- user: go",
            "desk/desk <- user: go | user: user says 1",
            "desk/user <- user: go | desk/user: user says 1 | desk: desk says 1",
            "desk/user <- user: go | desk/user: user says 1 | desk: desk says 1 | desk/user: user says 2 | user: again",
            "desk/desk <- user: go | user: user says 1 | desk/desk: desk says 1 | user: user says 2 | user: again | \
             user: user says 3",
        ]
    );
}

#[tokio::test]
async fn member_named_like_its_team_sees_the_coordinator() {
    use shelly_host::{chat::Part, team::CoordinatorAction};
    let heard = Heard::default();
    let sums_up = super::Plan(|moment: &shelly_host::team::CoordinatorInput<'_>| {
        Ok(match moment.step {
            0 => super::run(&["desk"]),
            _ => CoordinatorAction::Done(Some(vec![Part::Text("In short: yes.".into())])),
        })
    });
    let team = Team::new("desk", sums_up).with_member(Member::new(listens("desk", &heard)));
    let chat = Chat::new();
    go(&team, &chat, "go").await.unwrap();
    go(&team, &chat, "again").await.unwrap();
    let heard = heard.lock().unwrap();
    assert_eq!(heard[1], "desk/desk <- user: go | desk/desk: desk says 1 | desk: In short: yes. | user: again");
}

#[tokio::test]
async fn member_named_like_an_earlier_agent_sees_its_messages() {
    let (heard, chat) = (Heard::default(), Chat::new());
    listens("researcher", &heard).run(&RunCx::new("researcher"), &chat, vec![Message::user("go")]).await.unwrap();
    let team = Team::new("desk", SequenceCoordinator).with_member(Member::new(listens("researcher", &heard)));
    go(&team, &chat, "again").await.unwrap();
    assert_eq!(heard.lock().unwrap()[1], "desk/researcher <- user: go | researcher: researcher says 1 | user: again");
}

#[tokio::test]
async fn member_named_like_the_delegating_agent_keeps_its_context() {
    let heard = Heard::default();
    let (registry, of) = (AgentRegistry::new(), Arc::clone(&heard));
    registry.register(AgentEntry::new("desk", ""), move || {
        Team::new("desk", SequenceCoordinator).with_member(Member::new(listens("lead", &of)))
    });
    let order = serde_json::json!({"tasks": [{"agent": "desk", "task": "count", "context": "There are two."}]});
    let lead = Mind::steps([crate::script::act("delegate", order), text("done")]);
    let lead = agent("lead", lead).with_agent_group(Arc::new(AgentGroup::new(registry)), 1);
    lead.run(&RunCx::new("lead"), &Chat::new(), vec![Message::user("go")]).await.unwrap();
    let heard = heard.lock().unwrap().clone();
    let [one] = &heard[..] else { panic!("{heard:?}") };
    assert!(one.contains("lead: <delegation_context> There are two. </delegation_context>"), "{one}");
    assert!(one.ends_with("user: count"), "{one}");
}

#[tokio::test]
async fn outer_namesake_reply_does_not_stop_an_inner_round() {
    let heard = Heard::default();
    let inner = Team::new("desk", RoundRobinUntil::new(1, StopCondition::text("researcher says").unwrap()))
        .with_member(Member::new(listens("researcher", &heard)));
    let outer = Team::new("outer", SequenceCoordinator)
        .with_member(Member::new(listens("researcher", &heard)))
        .with_member(Member::new(inner));
    go(&outer, &Chat::new(), "go").await.unwrap();
    assert_eq!(heard.lock().unwrap().len(), 2, "the inner one has worked");
}

#[tokio::test]
async fn model_coordinator_distinguishes_namesakes() {
    let heard = Heard::default();
    let leads = Arc::new(Mind::new(move |asked| {
        let asked = asked.request.messages.last().unwrap().message.text_content();
        match asked.contains("You decided") {
            false => text(r#"{"members":["researcher"],"done":false,"reasoning":""}"#),
            true => text(r#"{"members":[],"done":true,"reasoning":""}"#),
        }
    }));
    let inner = Team::new("desk", ModelCoordinator::new(ModelCoordinatorOptions::default()))
        .with_completer(Arc::clone(&leads) as Arc<dyn Completer>)
        .with_member(Member::new(listens("researcher", &heard)));
    let outer = Team::new("outer", SequenceCoordinator)
        .with_member(Member::new(listens("researcher", &heard)))
        .with_member(Member::new(inner));
    go(&outer, &Chat::new(), "go").await.unwrap();
    let asked = leads.asked();
    let first = asked[0].1.messages.last().unwrap().message.text_content();
    assert!(first.contains("[researcher, not of the team]\n> researcher says 1"), "{first}");
    let second = asked[1].1.messages.last().unwrap().message.text_content();
    assert!(second.contains("[researcher]\n> researcher says 1"), "{second}");
}
