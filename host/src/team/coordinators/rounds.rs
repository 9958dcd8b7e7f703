use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    super::{Action, Assignment, Coordinator, Moment, Profile, Step},
    AtEnd, check, check_members, check_steps, exhausted, read, write,
};
use crate::{error::Fault, event::RunCx};

/// Each member once, in order; then the team is done. Who joins later comes at its place among those whose turn is
/// still to come, who has left is passed over, and nobody comes twice. A member that failed has had its turn.
///
/// Some 3,000 different members in one run are remembered, three times as many as can be there at once; with more of
/// them, come and gone, the run fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sequence;

#[async_trait]
impl Coordinator for Sequence {
    fn name(&self) -> &str {
        "sequence"
    }

    async fn next(&self, _: &RunCx, moment: &Moment<'_>, state: Vec<u8>) -> Result<Step, Fault> {
        let mut rounds: Rounds = read(&state)?;
        if moment.step == 0 || !moment.members.is_empty() {
            check(moment)?;
        }
        let action = match rounds.next(moment.members) {
            Some(member) => Action::Run(vec![Assignment::of(member)]),
            None => Action::Done(None),
        };
        Ok(Step::new(write(&rounds)?, action))
    }
}

/// One member after the other, round after round. In each round every member has one turn, as in a [`Sequence`]: rounds
/// follow members that come and go.
#[derive(Debug, Clone, Copy)]
pub struct Loop {
    /// Rounds of one run; 0: as many as [`limits::TEAM_STEPS`](crate::limits::TEAM_STEPS) allow.
    pub max_rounds: u32,
    /// What it means that they are over. Beyond [`limits::TEAM_STEPS`](crate::limits::TEAM_STEPS) the run fails anyway.
    pub at_end: AtEnd,
}

impl Loop {
    /// Fails with [`Fault::Exhausted`] after so many rounds.
    pub fn new(max_rounds: u32) -> Self {
        Self { max_rounds, at_end: AtEnd::Fail }
    }

    /// Is done after so many rounds.
    pub fn times(rounds: u32) -> Self {
        Self { max_rounds: rounds, at_end: AtEnd::Done }
    }
}

#[async_trait]
impl Coordinator for Loop {
    fn name(&self) -> &str {
        "loop"
    }

    async fn next(&self, _: &RunCx, moment: &Moment<'_>, state: Vec<u8>) -> Result<Step, Fault> {
        let mut rounds: Rounds = read(&state)?;
        check_members(moment)?;
        let action = match rounds.next_of(moment.members, self.max_rounds) {
            Some(member) => {
                check_steps(moment)?;
                Action::Run(vec![Assignment::of(member)])
            }
            None if self.at_end == AtEnd::Done => Action::Done(None),
            None => return Err(too_many_rounds(self.max_rounds)),
        };
        Ok(Step::new(write(&rounds)?, action))
    }
}

pub(super) fn too_many_rounds(max: u32) -> Fault {
    exhausted(format!("the team has gone round as often as it may (`max_rounds`: {max}) and is not done"))
}

/// Who has had its turn.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Rounds {
    /// Whole rounds before this one.
    round: u32,
    /// Who has had its turn in this one: not by name, since a thousand long names are more than is kept.
    had: BTreeSet<u64>,
}

impl Rounds {
    /// The first one whose turn in this round is still to come.
    fn next(&mut self, members: &[Profile]) -> Option<Arc<str>> {
        let next = members.iter().find(|member| !self.had.contains(&mark(&member.name)))?;
        self.had.insert(mark(&next.name));
        Some(Arc::clone(&next.name))
    }

    /// The next one in this round or, if there may be one (0: always), in another.
    pub fn next_of(&mut self, members: &[Profile], max: u32) -> Option<Arc<str>> {
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

/// Stands for a name, the same in every process.
fn mark(name: &str) -> u64 {
    let digest = Sha256::digest(name);
    u64::from_be_bytes(*digest.first_chunk().expect("a digest has 32 bytes"))
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
            assert_eq!(play(&Sequence, members).await, expected, "{case}");
        }
    }

    #[tokio::test]
    async fn loops() {
        let ab = "a b";
        let cases: [(&str, Loop, &[&str], &str); 8] = [
            ("round after round, then too many", Loop::new(2), &[ab; 5], "a, b, a, b, exhausted"),
            ("done after so many rounds, where that is wanted", Loop::times(2), &[ab; 5], "a, b, a, b, done"),
            ("zero rounds are any number", Loop::new(0), &["a"; 6], "a, a, a, a, a, a"),
            (
                "one who joins in the middle of a round is in it",
                Loop::new(1),
                &["a c", "a b c", "a b c", "a b c"],
                "a, b, c, exhausted",
            ),
            (
                "one who has left makes the round shorter",
                Loop::new(2),
                &["a b c", "a c", "a c", "a c", "a c"],
                "a, c, a, c, exhausted",
            ),
            ("whoever is left alone goes on", Loop::new(3), &[ab, "b", "b", "b"], "a, b, b, b"),
            ("nobody is an error, and not a loop without end", Loop::new(0), &[""], "error: the team has no members"),
            ("all have left", Loop::new(0), &["a", ""], "a, error: the team has no members"),
        ];
        for (case, coordinator, members, expected) in cases {
            assert_eq!(play(&coordinator, members).await, expected, "{case}");
        }
    }

    #[tokio::test]
    async fn as_many_members_as_there_may_be_fit_into_the_state() {
        let all: Vec<_> = (0..limits::TEAM_MEMBERS).map(|at| format!("{at:0>64}")).collect();
        let (mut state, members) = (Vec::new(), profiles(&all.join(" ")));
        for step in 0..=limits::TEAM_MEMBERS {
            let moment = Moment { step: u32::try_from(step).unwrap(), ..moment(&members) };
            let next = Sequence.next(&cx(), &moment, state).await.unwrap();
            assert_eq!(shown(Ok(&next.action)), all.get(step).map_or("done", String::as_str));
            assert!(next.state.len() < limits::STATE_BYTES / 2);
            state = next.state;
        }
    }

    #[tokio::test]
    async fn more_members_come_and_gone_than_the_state_holds_end_the_run() {
        let before = Rounds { round: 0, had: (0..3_000).map(|at| u64::MAX - at).collect() };
        let mut state = write(&before).unwrap();
        for step in 1..limits::TEAM_STEPS {
            let members = profiles(&format!("m{step}"));
            match Sequence.next(&cx(), &Moment { step, ..moment(&members) }, state).await {
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
    async fn a_loop_without_a_maximum_ends_where_every_team_does() {
        let members = profiles("a");
        let last = Moment { step: limits::TEAM_STEPS - 1, ..moment(&members) };
        assert!(Loop::new(0).next(&cx(), &last, vec![]).await.is_ok());
        let beyond = Moment { step: limits::TEAM_STEPS, ..last };
        assert!(matches!(Loop::new(0).next(&cx(), &beyond, vec![]).await, Err(Fault::Exhausted { .. })));
        // One whose rounds are over then is done.
        let over = write(&Rounds { round: 7, had: [mark("a")].into() }).unwrap();
        let step = Loop::times(8).next(&cx(), &beyond, over).await.unwrap();
        assert!(matches!(step.action, Action::Done(None)));
    }

    #[tokio::test]
    async fn a_state_that_is_none_is_an_error() {
        let members = profiles("a");
        for state in ["x", "[-1]", "{\"round\":-1}", "{\"had\":[\"a\"]}", "\u{0}"] {
            let fault = Loop::new(1).next(&cx(), &moment(&members), state.into()).await.unwrap_err();
            assert!(fault.to_string().starts_with("the state of the coordinator cannot be read: "), "{fault}");
        }
    }
}
