use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{
    super::{Coordinator, CoordinatorAction, CoordinatorInput, CoordinatorStep, MemberAssignment, MemberProfile},
    OnRoundsEnd,
    step_checks::{check, check_members, check_steps, exhausted},
    stored_state::{read, write},
};
use crate::{digest::Sha256Digest, error::Fault, event::RunCx};

/// A coordinator that runs each member once, in order; then the team is done. A member that joins later takes its position
/// among those whose turn is still to come, a member that has left is skipped, and no member runs twice. A failed member
/// has had its turn.
///
/// The state holds some 3,000 different members of one run, three times the maximum team size; with more members that come
/// and go, the run fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct SequenceCoordinator;

#[async_trait]
impl Coordinator for SequenceCoordinator {
    fn name(&self) -> &str {
        "sequence"
    }

    async fn next(&self, _: &RunCx, moment: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault> {
        let mut rounds: RoundState = read(&state)?;
        if moment.step == 0 || !moment.members.is_empty() {
            check(moment)?;
        }
        let action = match rounds.next(moment.members) {
            Some(member) => CoordinatorAction::Run(vec![MemberAssignment::of(member)]),
            None => CoordinatorAction::Done(None),
        };
        Ok(CoordinatorStep::new(write(&rounds)?, action))
    }
}

/// A coordinator that runs one member after the other, in rounds. In each round every member has one turn, as in a
/// [`SequenceCoordinator`]: rounds follow members that come and go.
#[derive(Debug, Clone, Copy)]
pub struct LoopCoordinator {
    /// The number of rounds of one run; 0: as many as [`limits::TEAM_STEPS`](crate::limits::TEAM_STEPS) allow.
    pub max_rounds: u32,
    /// The meaning of the end of the last round. Beyond [`limits::TEAM_STEPS`](crate::limits::TEAM_STEPS) the run fails in
    /// any case.
    pub at_end: OnRoundsEnd,
}

impl LoopCoordinator {
    /// Creates a coordinator that fails with [`Fault::Exhausted`] after this many rounds.
    pub fn new(max_rounds: u32) -> Self {
        Self { max_rounds, at_end: OnRoundsEnd::Fail }
    }

    /// Creates a coordinator that is done after this many rounds.
    pub fn times(rounds: u32) -> Self {
        Self { max_rounds: rounds, at_end: OnRoundsEnd::Done }
    }
}

#[async_trait]
impl Coordinator for LoopCoordinator {
    fn name(&self) -> &str {
        "loop"
    }

    async fn next(&self, _: &RunCx, moment: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault> {
        let mut rounds: RoundState = read(&state)?;
        check_members(moment)?;
        let action = match rounds.next_of(moment.members, self.max_rounds) {
            Some(member) => {
                check_steps(moment)?;
                CoordinatorAction::Run(vec![MemberAssignment::of(member)])
            }
            None if self.at_end == OnRoundsEnd::Done => CoordinatorAction::Done(None),
            None => return Err(too_many_rounds(self.max_rounds)),
        };
        Ok(CoordinatorStep::new(write(&rounds)?, action))
    }
}

pub(super) fn too_many_rounds(max: u32) -> Fault {
    exhausted(format!("the team has reached its maximum number of rounds (`max_rounds`: {max}) and is not done"))
}

/// The members that have had their turn.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RoundState {
    /// The number of complete rounds before this one.
    round: u32,
    /// Hashes of the members that have had their turn in this round: a thousand long names would exceed the state limit.
    had: BTreeSet<u64>,
}

impl RoundState {
    /// Returns the first member whose turn in this round is still to come.
    fn next(&mut self, members: &[MemberProfile]) -> Option<Arc<str>> {
        let next = members.iter().find(|member| !self.had.contains(&mark(&member.name)))?;
        self.had.insert(mark(&next.name));
        Some(Arc::clone(&next.name))
    }

    /// Returns the next member of this round or, if `max` allows another round (0: always), of the next.
    pub fn next_of(&mut self, members: &[MemberProfile], max: u32) -> Option<Arc<str>> {
        let is_over = |round| max > 0 && round >= max;
        if is_over(self.round) {
            return None;
        }
        self.next(members).or_else(|| {
            *self = Self { round: self.round.saturating_add(1), had: BTreeSet::new() };
            if is_over(self.round) { None } else { self.next(members) }
        })
    }
}

/// Returns a hash of a name that is the same in every process.
fn mark(name: &str) -> u64 {
    let digest = Sha256Digest::of(name);
    u64::from_be_bytes(*digest.0.first_chunk().expect("a digest has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};
    use crate::limits;

    #[tokio::test]
    async fn sequence() {
        let cases: [(&str, &[&str], &str); 8] = [
            ("each once, in order, then done", &["a b c", "a b c", "a b c", "a b c"], "a, b, c, done"),
            ("one alone", &["a", "a"], "a, done"),
            ("nobody at all is an error", &[""], "error: the team has no members"),
            (
                "who joins later comes at its place",
                &["b d", "a b c d", "a b c d", "a b c d", "a b c d"],
                "b, a, c, d, done",
            ),
            ("who has left is passed over", &["a b c", "a c", "a c"], "a, c, done"),
            ("who comes back does not come twice", &["a b", "b", "a b"], "a, b, done"),
            (
                "another order changes nothing for those who were",
                &["a b c", "c b a", "b a c", "c a b"],
                "a, c, b, done",
            ),
            ("all have left after the first: it was what there was", &["a b", ""], "a, done"),
        ];
        for (case, members, expected) in cases {
            assert_eq!(play(&SequenceCoordinator, members).await, expected, "{case}");
        }
    }

    #[tokio::test]
    async fn loops() {
        let ab = "a b";
        let cases: [(&str, LoopCoordinator, &[&str], &str); 8] = [
            ("round after round, then too many", LoopCoordinator::new(2), &[ab; 5], "a, b, a, b, exhausted"),
            (
                "done after so many rounds, where that is wanted",
                LoopCoordinator::times(2),
                &[ab; 5],
                "a, b, a, b, done",
            ),
            ("zero rounds are any number", LoopCoordinator::new(0), &["a"; 6], "a, a, a, a, a, a"),
            (
                "one who joins in the middle of a round is in it",
                LoopCoordinator::new(1),
                &["a c", "a b c", "a b c", "a b c"],
                "a, b, c, exhausted",
            ),
            (
                "one who has left makes the round shorter",
                LoopCoordinator::new(2),
                &["a b c", "a c", "a c", "a c", "a c"],
                "a, c, a, c, exhausted",
            ),
            ("whoever is left alone goes on", LoopCoordinator::new(3), &[ab, "b", "b", "b"], "a, b, b, b"),
            (
                "nobody is an error, and not a loop without end",
                LoopCoordinator::new(0),
                &[""],
                "error: the team has no members",
            ),
            ("all have left", LoopCoordinator::new(0), &["a", ""], "a, error: the team has no members"),
        ];
        for (case, coordinator, members, expected) in cases {
            assert_eq!(play(&coordinator, members).await, expected, "{case}");
        }
    }

    #[tokio::test]
    async fn largest_team_fits_into_the_round_state() {
        let all: Vec<_> = (0..limits::TEAM_MEMBERS).map(|at| format!("{at:0>64}")).collect();
        let (mut state, members) = (Vec::new(), profiles(&all.join(" ")));
        for step in 0..=limits::TEAM_MEMBERS {
            let moment = CoordinatorInput { step: u32::try_from(step).unwrap(), ..moment(&members) };
            let next = SequenceCoordinator.next(&cx(), &moment, state).await.unwrap();
            assert_eq!(shown(Ok(&next.action)), all.get(step).map_or("done", String::as_str));
            assert!(next.state.len() < limits::STATE_BYTES / 2);
            state = next.state;
        }
    }

    #[tokio::test]
    async fn overfull_round_state_ends_the_run() {
        let before = RoundState { round: 0, had: (0..3_000).map(|at| u64::MAX - at).collect() };
        let mut state = write(&before).unwrap();
        for step in 1..limits::TEAM_STEPS {
            let members = profiles(&format!("m{step}"));
            match SequenceCoordinator.next(&cx(), &CoordinatorInput { step, ..moment(&members) }, state).await {
                Ok(next) => state = next.state,
                Err(fault) => {
                    assert!(matches!(fault, Fault::TooLarge { .. }), "{step}: {fault}");
                    return;
                }
            }
        }
        panic!("the state never was too large");
    }

    #[tokio::test]
    async fn loop_without_maximum_ends_at_the_team_step_limit() {
        let members = profiles("a");
        let last = CoordinatorInput { step: limits::TEAM_STEPS - 1, ..moment(&members) };
        assert!(LoopCoordinator::new(0).next(&cx(), &last, vec![]).await.is_ok());
        let beyond = CoordinatorInput { step: limits::TEAM_STEPS, ..last };
        assert!(matches!(LoopCoordinator::new(0).next(&cx(), &beyond, vec![]).await, Err(Fault::Exhausted { .. })));
        // A coordinator whose rounds are over is done then.
        let over = write(&RoundState { round: 7, had: [mark("a")].into() }).unwrap();
        let step = LoopCoordinator::times(8).next(&cx(), &beyond, over).await.unwrap();
        assert!(matches!(step.action, CoordinatorAction::Done(None)));
    }

    #[tokio::test]
    async fn damaged_round_state_is_an_error() {
        let members = profiles("a");
        for state in ["x", "[-1]", "{\"round\":-1}", "{\"had\":[\"a\"]}", "\u{0}"] {
            let fault = LoopCoordinator::new(1).next(&cx(), &moment(&members), state.into()).await.unwrap_err();
            assert!(fault.to_string().starts_with("cannot read the state of the coordinator: "), "{fault}");
        }
    }
}
