use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        Coordinator, CoordinatorAction, CoordinatorInput, CoordinatorStep, MemberAssignment, MemberOutcome,
        MemberReport,
    },
    quote::quoted,
    step_checks::{check, exhausted, names},
    stored_state::{read, write},
};
use crate::{
    error::{Fault, cut},
    event::RunCx,
    limits,
    tool::TaskHandoff,
};

/// A coordinator that lets the active member work until it has replied, which is the team's answer, or hands over to
/// another member, which becomes active. The active member of an earlier run on the same conversation begins, otherwise the
/// first one.
///
/// ```
/// use std::sync::Arc;
/// use shelly_core::{
///     agent::{Agent, Runner},
///     chat::{Chat, Message},
///     event::RunCx,
///     model::ScriptedCompleter,
///     team::{HandoffCoordinator, Member, Team, TeamChatMode},
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let says = |name: &str, reply| Agent::new(name, "", Arc::new(ScriptedCompleter::new([reply])));
/// let transfer = ScriptedCompleter::calls(&[("1", "transfer_to_flights", r#"{"reason":"it is about a flight"}"#)]);
/// let support = Team::new("support", HandoffCoordinator::new(10))
///     // Each member has a tool for each other one.
///     .with_meeting(TeamChatMode::SharedHandoff)
///     .with_member(Member::new(says("triage", transfer)))
///     .with_member(Member::new(says("flights", ScriptedCompleter::text("Your flight is changed."))))
///     .with_member(Member::new(says("hotels", ScriptedCompleter::text("Your room is changed."))));
/// let input = vec![Message::user("Another flight, please.")];
/// let answer = support.run(&RunCx::new("support"), &Chat::new(), input).await?;
/// assert_eq!(answer.message.text_content(), "Your flight is changed.");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct HandoffCoordinator {
    /// The number of handoffs allowed in one run; 0: [`limits::HANDOFFS`]. One more fails with [`Fault::Exhausted`].
    pub max_handoffs: u32,
}

impl HandoffCoordinator {
    /// Allows this many handoffs in one run; 0: [`limits::HANDOFFS`].
    pub fn new(max_handoffs: u32) -> Self {
        Self { max_handoffs }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct HandoffState {
    times: u32,
}

#[async_trait]
impl Coordinator for HandoffCoordinator {
    fn name(&self) -> &str {
        "hand-off"
    }

    async fn next(&self, _: &RunCx, moment: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault> {
        let mut handed: HandoffState = read(&state)?;
        let chosen = match moment.reports.last() {
            Some(MemberReport { fared: MemberOutcome::Replied, .. }) => {
                return Ok(CoordinatorStep::new(state, CoordinatorAction::Done(None)));
            }
            // No other member worked in this step, and its reply would be the answer.
            Some(MemberReport { fared: MemberOutcome::Failed(fault), .. }) => return Err(fault.clone()),
            Some(MemberReport { member, fared: MemberOutcome::HandedOver(to) }) => {
                check(moment)?;
                let most = if self.max_handoffs == 0 { limits::HANDOFFS } else { self.max_handoffs };
                if handed.times >= most {
                    let message = format!(
                        "`{member}` cannot hand over: the team has reached its maximum of {most} handoffs in this run"
                    );
                    return Err(exhausted(message));
                }
                handed.times += 1;
                target(moment, member, to)?
            }
            None => {
                check(moment)?;
                let active = moment.members.iter().find(|member| moment.active == Some(&member.name));
                MemberAssignment::of(Arc::clone(&active.unwrap_or(&moment.members[0]).name))
            }
        };
        Ok(CoordinatorStep::new(write(&handed)?, CoordinatorAction::Run(vec![chosen])))
    }
}

/// Returns the assignment of the next member, with the message of the one that hands over.
fn target(moment: &CoordinatorInput<'_>, from: &str, to: &TaskHandoff) -> Result<MemberAssignment, Fault> {
    let agent = &to.agent;
    let found = moment.members.iter().find(|member| *member.name == **agent).ok_or_else(|| Fault::NotFound {
        message: format!(
            "`{from}` hands over to `{}`, which is not a member of the team; members: {}",
            cut(agent, limits::NAME_SHOWN_CHARS).escape_debug(),
            names(moment.members)
        ),
    })?;
    let task = format!("`{from}` hands this conversation over to you: continue it.{}", words_of(to));
    Ok(MemberAssignment { member: Arc::clone(&found.name), task: Some(cut(&task, limits::ASSIGNMENT_CHARS - 1)) })
}

/// Returns the message of a member that hands over, quoted: a paragraph for each part, or nothing.
pub fn words_of(TaskHandoff { agent: _, reason, context }: &TaskHandoff) -> String {
    // Both parts, their quotation marks and the text around them must fit into one task.
    let chars = limits::ASSIGNMENT_CHARS / 4;
    let said =
        [("Why", reason), ("What you must know", context)].into_iter().filter(|(_, said)| !said.trim().is_empty());
    said.map(|(title, said)| format!("\n{title}, in its words:\n{}", quoted(said, chars))).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    fn to(agent: &str) -> MemberOutcome {
        MemberOutcome::HandedOver(TaskHandoff {
            agent: agent.into(),
            reason: "a flight".into(),
            context: String::new(),
        })
    }

    fn failed() -> MemberOutcome {
        MemberOutcome::Failed(Fault::Timeout { message: "too slow".into() })
    }

    #[tokio::test]
    async fn handoff_coordinator_follows_handoffs() {
        let (replied, to_b, to_c) = (MemberOutcome::Replied, to("b"), to("c"));
        let unknown = "a, error: `a` hands over to `d`, which is not a member of the team; members: `a`, `b`, `c`";
        type Case<'a> = (&'a str, u32, Option<&'a str>, Vec<MemberOutcome>, &'a str);
        let cases: [Case<'_>; 11] = [
            ("the first one begins, and its reply is the answer", 3, None, vec![replied.clone()], "a, done"),
            ("the one that was active begins", 3, Some("b"), vec![replied.clone()], "b, done"),
            ("the active one has left", 3, Some("gone"), vec![replied.clone()], "a, done"),
            ("one hands over, the other one answers", 3, None, vec![to_b.clone(), replied.clone()], "a, b, done"),
            ("and back again", 3, Some("b"), vec![to_c.clone(), to_b.clone(), replied.clone()], "b, c, b, done"),
            ("to itself counts too", 1, None, vec![to("a"), to("a")], "a, a, exhausted"),
            ("as often as it may", 1, None, vec![to_b.clone(), replied.clone()], "a, b, done"),
            ("more often than it may", 1, None, vec![to_b.clone(), to_c.clone()], "a, b, exhausted"),
            (
                "zero is the usual number",
                0,
                None,
                vec![to_b.clone(), to_c.clone(), to_b, to_c],
                "a, b, c, b, exhausted",
            ),
            ("to one who is not there", 3, None, vec![to("d")], unknown),
            ("the one that works fails", 3, None, vec![failed()], "a, error: too slow"),
        ];
        let members = profiles("a b c");
        for (case, max, active, fared, expected) in cases {
            let (mut state, mut told, mut reports) = (Vec::new(), Vec::new(), Vec::new());
            let mut active = active.map(str::to_owned);
            for (step, fared) in (0..).zip(fared.into_iter().map(Some).chain([None])) {
                let moment =
                    CoordinatorInput { step, reports: &reports, active: active.as_deref(), ..moment(&members) };
                let next = HandoffCoordinator::new(max).next(&cx(), &moment, state).await;
                let shown = shown(next.as_ref().map(|step| &step.action));
                told.push(shown.clone());
                let Ok(CoordinatorStep { action: CoordinatorAction::Run(_), state: kept, .. }) = next else { break };
                (state, active) = (kept, Some(shown.clone()));
                reports =
                    fared.map(|fared| MemberReport { member: shown.as_str().into(), fared }).into_iter().collect();
            }
            assert_eq!(told.join(", "), expected, "{case}");
        }
        assert_eq!(play(&HandoffCoordinator::new(1), &[""]).await, "error: the team has no members");
    }

    #[tokio::test]
    async fn handoff_reason_is_quoted_for_the_next_member() {
        let members = profiles("a b");
        let over =
            TaskHandoff { agent: "b".into(), reason: "flights\nYou are free.".into(), context: "x".repeat(100_000) };
        let reports = [MemberReport { member: "a".into(), fared: MemberOutcome::HandedOver(over) }];
        let moment = CoordinatorInput { step: 1, reports: &reports, ..moment(&members) };
        let CoordinatorAction::Run(run) = HandoffCoordinator::new(1).next(&cx(), &moment, vec![]).await.unwrap().action
        else {
            panic!()
        };
        let task = run[0].task.as_deref().unwrap();
        let (before, context) = task.split_once("> xxx").unwrap();
        assert_eq!(
            before,
            "`a` hands this conversation over to you: continue it.\nWhy, in its words:\n> flights\n> You are \
             free.\nWhat you must know, in its words:\n"
        );
        assert!(context.len() > limits::ASSIGNMENT_CHARS / 5 && task.chars().count() <= limits::ASSIGNMENT_CHARS);
    }
}
