use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{
    super::{Coordinator, CoordinatorAction, CoordinatorInput, CoordinatorStep, MemberAssignment},
    OnRoundsEnd,
    step_checks::{check_members, check_steps, exhausted},
    stored_state::{read, write},
};
use crate::{error::Fault, event::RunCx, limits};

/// A coordinator that runs one role after the other, in cycles; all members of a role work side by side. A role without
/// members is skipped and takes no step. If no member has any of the roles, the run fails, since silence would look like an
/// answer.
///
/// ```
/// use std::sync::Arc;
/// use shelly_core::{
///     agent::{Agent, Runner},
///     chat::{Chat, Message},
///     event::RunCx,
///     model::ScriptedCompleter,
///     team::{Member, RoleRoundRobin, SequenceCoordinator, Team},
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let says = |name: &str, text: &str| {
///     Agent::new(name, "", Arc::new(ScriptedCompleter::new([ScriptedCompleter::text(text)])))
/// };
/// // Two members work at once, then one has the replies of both.
/// let research = Team::new("research", RoleRoundRobin::new(1, ["find", "sum up"]))
///     .with_member(Member::new(says("us", "A law on chips.")).with_role("find"))
///     .with_member(Member::new(says("eu", "A law on AI.")).with_role("find"))
///     .with_member(Member::new(says("editor", "Two laws.")).with_role("sum up"));
/// // A team can be a member of another team.
/// let report = Team::new("report", SequenceCoordinator)
///     .with_member(Member::new(research))
///     .with_member(Member::new(says("writer", "There are two new laws.")));
/// let chat = Chat::new();
/// let answer = report.run(&RunCx::new("report"), &chat, vec![Message::user("What is new?")]).await?;
/// assert_eq!(answer.message.text_content(), "There are two new laws.");
/// // The outer team sees only the answer of the inner team.
/// let said: Vec<_> = chat.snapshot().iter().map(|entry| entry.message.text_content()).collect();
/// assert_eq!(said, ["What is new?", "Two laws.", "There are two new laws."]);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct RoleRoundRobin {
    /// The roles in order; a role may occur several times.
    pub roles: Vec<Arc<str>>,
    /// The number of cycles; 0: as many as [`limits::TEAM_STEPS`] allow.
    pub max_cycles: u32,
    /// The meaning of the end of the last cycle. Beyond [`limits::TEAM_STEPS`] the run fails in any case.
    pub at_end: OnRoundsEnd,
}

impl RoleRoundRobin {
    /// Creates a coordinator that ends the team after this many cycles through these roles. The end is no error, since
    /// nothing else ends the team.
    pub fn new(max_cycles: u32, roles: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Self {
        Self { roles: roles.into_iter().map(Into::into).collect(), max_cycles, at_end: OnRoundsEnd::Done }
    }

    fn nobody(&self, moment: &CoordinatorInput<'_>) -> Fault {
        let listed = |roles: &mut dyn Iterator<Item = &Arc<str>>| {
            let mut all: Vec<String> = Vec::new();
            for role in roles.map(|role| format!("`{role}`")) {
                if !all.contains(&role) && all.len() < limits::NAMES_SHOWN {
                    all.push(role);
                }
            }
            all.join(", ")
        };
        let there = listed(&mut moment.members.iter().map(|member| &member.role));
        let message = match listed(&mut self.roles.iter()) {
            wanted if wanted.is_empty() => format!("no role is configured; roles of the team: {there}"),
            wanted => format!("no member has one of the roles {wanted}; roles of the team: {there}"),
        };
        Fault::NotFound { message }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct RolePosition {
    /// The number of complete cycles before this one.
    cycle: u32,
    /// The index of the next role.
    at: usize,
}

#[async_trait]
impl Coordinator for RoleRoundRobin {
    fn name(&self) -> &str {
        "role-round-robin"
    }

    async fn next(&self, _: &RunCx, moment: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault> {
        let mut place: RolePosition = read(&state)?;
        check_members(moment)?;
        // Visits each role once, from any start.
        for _ in &self.roles {
            if place.at >= self.roles.len() {
                place = RolePosition { cycle: place.cycle.saturating_add(1), at: 0 };
            }
            if self.max_cycles > 0 && place.cycle >= self.max_cycles {
                break;
            }
            let role = &self.roles[place.at];
            place.at += 1;
            let of_role = moment.members.iter().filter(|member| member.role == *role);
            let chosen: Vec<_> = of_role.map(|member| MemberAssignment::of(Arc::clone(&member.name))).collect();
            if !chosen.is_empty() {
                check_steps(moment)?;
                return Ok(CoordinatorStep::new(write(&place)?, CoordinatorAction::Run(chosen)));
            }
        }
        // All cycles are over, or no member has one of the remaining roles.
        match self.at_end {
            _ if moment.step == 0 || self.max_cycles == 0 => Err(self.nobody(moment)),
            OnRoundsEnd::Done => Ok(CoordinatorStep::new(write(&place)?, CoordinatorAction::Done(None))),
            OnRoundsEnd::Fail => Err(exhausted(format!(
                "the team has reached its maximum number of cycles (`max_cycles`: {}) and is not done",
                self.max_cycles
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};

    fn of(max_cycles: u32, roles: &str) -> RoleRoundRobin {
        RoleRoundRobin::new(max_cycles, roles.split_whitespace())
    }

    #[tokio::test]
    async fn roles() {
        let usual = "us:research eu:research wanda:write";
        let failing = RoleRoundRobin { at_end: OnRoundsEnd::Fail, ..of(1, "research") };
        let nobody = "error: no member has one of the roles `draw`, `sing`; roles of the team: `research`, `write`";
        let cases: [(&str, RoleRoundRobin, &[&str], &str); 13] = [
            (
                "all of a role side by side, then the next role",
                of(1, "research write"),
                &[usual; 3],
                "us+eu, wanda, done",
            ),
            (
                "as many cycles as there may be",
                of(2, "research write"),
                &[usual; 5],
                "us+eu, wanda, us+eu, wanda, done",
            ),
            ("too many cycles, where that is an error", failing, &[usual; 2], "us+eu, exhausted"),
            ("zero cycles are any number", of(0, "write"), &[usual; 4], "wanda, wanda, wanda, wanda"),
            (
                "a role that nobody has takes no step",
                of(1, "draw research sing write"),
                &[usual; 3],
                "us+eu, wanda, done",
            ),
            ("the same role twice", of(1, "write research write"), &[usual; 4], "wanda, us+eu, wanda, done"),
            ("nobody has any of the roles", of(1, "draw sing"), &[usual], nobody),
            ("nor in cycles without end", of(0, "draw sing"), &[usual], nobody),
            ("no roles", of(1, ""), &["a:write"], "error: no role is configured; roles of the team: `write`"),
            ("no members", of(1, "write"), &[""], "error: the team has no members"),
            (
                "who joins is there for the next turn of the role",
                of(2, "write"),
                &["a:write", "a:write b:write", "a:write b:write"],
                "a, a+b, done",
            ),
            (
                "who was to work has left, and what there is was the answer",
                of(3, "research write"),
                &[usual, "us:research", "x:y"],
                "us+eu, us, done",
            ),
            (
                "all have left in cycles without end",
                of(0, "write"),
                &["a:write", "a:rest"],
                "a, error: no member has one of the roles `write`; roles of the team: `rest`",
            ),
        ];
        for (case, coordinator, members, expected) in cases {
            assert_eq!(play(&coordinator, members).await, expected, "{case}");
        }
    }

    #[tokio::test]
    async fn role_index_beyond_the_end_starts_the_next_cycle() {
        let members = profiles("a:write");
        let unreadable = "error: cannot read the state of the coordinator: ";
        for (state, expected) in [
            ("{\"cycle\":1,\"at\":18446744073709551615}", "a"),
            ("{\"cycle\":4294967295,\"at\":7}", "done"),
            ("{\"cycle\":-1}", unreadable),
        ] {
            let moment = CoordinatorInput { step: 1, ..moment(&members) };
            let step = of(3, "write").next(&cx(), &moment, state.into()).await;
            let told = shown(step.as_ref().map(|step| &step.action));
            assert!(told.starts_with(expected), "{state}: {told}");
        }
    }
}
