use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use regex::{Regex, RegexBuilder};

use super::{
    super::{Coordinator, CoordinatorAction, CoordinatorInput, CoordinatorStep, MemberAssignment},
    rounds::{RoundState, too_many_rounds},
    step_checks::check,
    stored_state::{bounded, read, unreadable, write},
};
use crate::{
    capability::NameSet,
    chat::{ChatEntry, Role},
    error::{Fault, cut},
    event::RunCx,
    limits,
};

/// A coordinator that runs one member after the other, as [`LoopCoordinator`](super::LoopCoordinator) does, until a
/// condition holds. The condition is checked before each step, also before the first one and after the last: a team may be
/// done although no member has worked.
#[derive(Clone)]
pub struct RoundRobinUntil {
    /// The number of rounds of one run; 0: as many as [`limits::TEAM_STEPS`] allow. After them the run fails with
    /// [`Fault::Exhausted`].
    pub max_rounds: u32,
    /// The condition that ends the run.
    pub until: StopCondition,
}

impl RoundRobinUntil {
    /// Creates a coordinator that ends after at most this many rounds, or when the condition holds.
    pub fn new(max_rounds: u32, until: StopCondition) -> Self {
        Self { max_rounds, until }
    }
}

/// The condition under which a team is done.
#[derive(Clone)]
pub enum StopCondition {
    /// The regular expression matches the text of the newest message, and a member wrote that. A person's message never
    /// matches, so an older answer before it does not end a new run. Notes are skipped.
    Text(Regex),
    /// This coordinator returns [`CoordinatorAction::Done`], with the answer that it gives. Its [`CoordinatorAction::Run`]
    /// means that the team continues, whichever members it names. Its questions are asked, and its models are those of the
    /// whole coordinator. Its state and the rounds together must fit into [`limits::STATE_BYTES`].
    Coordinator(Arc<dyn Coordinator>),
}

impl StopCondition {
    /// Returns the condition that this regular expression matches the text of the newest message, see
    /// [`StopCondition::Text`]. Matching takes time linear in the text.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the pattern is not valid, or takes more than [`limits::UNTIL_PATTERN_BYTES`] of memory.
    pub fn text(pattern: &str) -> Result<Self, Fault> {
        let regex = RegexBuilder::new(pattern).size_limit(limits::UNTIL_PATTERN_BYTES).build();
        let shown = cut(pattern, limits::NAME_SHOWN_CHARS);
        regex.map(Self::Text).map_err(|error| match error {
            regex::Error::CompiledTooBig(most) => {
                let message =
                    format!("the regular expression `{shown}` takes more than {most} bytes of memory; simplify it");
                Fault::invalid(message)
            }
            error => Fault::invalid(format!("invalid regular expression `{shown}`: {error}")),
        })
    }
}

#[async_trait]
impl Coordinator for RoundRobinUntil {
    fn name(&self) -> &str {
        "round-robin-until"
    }

    fn models(&self) -> &NameSet {
        static NONE: LazyLock<NameSet> = LazyLock::new(NameSet::default);
        match &self.until {
            StopCondition::Text(_) => &NONE,
            StopCondition::Coordinator(until) => until.models(),
        }
    }

    async fn next(&self, cx: &RunCx, moment: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault> {
        let RoundRobinUntilState { rounds, until } = RoundRobinUntilState::read(&state)?;
        let mut rounds: RoundState = read(rounds)?;
        let (mut until, mut reasoning) = (until.to_vec(), None);
        match &self.until {
            StopCondition::Text(pattern) => {
                if newest_of_members(moment).is_some_and(|entry| pattern.is_match(&entry.message.text_content())) {
                    return Ok(CoordinatorStep::new(state, CoordinatorAction::Done(None)));
                }
            }
            StopCondition::Coordinator(coordinator) => {
                let step = coordinator.next(cx, moment, until).await?;
                (until, reasoning) = (step.state, step.reasoning);
                if let action @ (CoordinatorAction::Done(_) | CoordinatorAction::Ask(_)) = step.action {
                    let state = RoundRobinUntilState { rounds: &write(&rounds)?, until: &until }.write()?;
                    return Ok(CoordinatorStep { state, action, reasoning });
                }
            }
        }
        check(moment)?;
        let member = rounds.next_of(moment.members, self.max_rounds);
        let member = member.ok_or_else(|| too_many_rounds(self.max_rounds))?;
        let state = RoundRobinUntilState { rounds: &write(&rounds)?, until: &until }.write()?;
        Ok(CoordinatorStep { state, action: CoordinatorAction::Run(vec![MemberAssignment::of(member)]), reasoning })
    }
}

/// Returns the newest message that is no note, if a member wrote it; the member may have left since.
fn newest_of_members<'a>(moment: &CoordinatorInput<'a>) -> Option<&'a ChatEntry> {
    let newest = moment.shared.iter().rev().find(|entry| !entry.note)?;
    (newest.message.role == Role::Assistant).then_some(newest)
}

/// Both states in one: four bytes (little-endian) with the length of the first, the first, the second.
struct RoundRobinUntilState<'a> {
    rounds: &'a [u8],
    until: &'a [u8],
}

impl<'a> RoundRobinUntilState<'a> {
    fn read(state: &'a [u8]) -> Result<Self, Fault> {
        if state.is_empty() {
            return Ok(Self { rounds: &[], until: &[] });
        }
        let parts = state.split_first_chunk().and_then(|(length, rest)| {
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            rest.split_at_checked(length)
        });
        let (rounds, until) = parts.ok_or_else(|| unreadable("it is truncated"))?;
        Ok(Self { rounds, until })
    }

    fn write(&self) -> Result<Vec<u8>, Fault> {
        let length = u32::try_from(self.rounds.len()).expect("the rounds are bounded");
        bounded([&length.to_le_bytes(), self.rounds, self.until].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing::*, *};
    use crate::{
        agent::ModelQuery,
        chat::{ChatSnapshot, Message, Part},
        model::{Completion, CompletionRequest, ScriptedCompleter},
    };

    fn says(sender: &str, text: &str) -> Message {
        Message::text(Role::Assistant, sender, text)
    }

    #[tokio::test]
    async fn matching_text_ends_round_robin() {
        let task = || Message::user("Write. Say DONE at the end.");
        let cases: [(&str, Vec<Message>, &str); 8] = [
            ("a person's words do not", vec![task()], "ann"),
            ("a member's do", vec![task(), says("bob", "It is DONE.")], "done"),
            ("also before anybody has worked in this run", vec![says("bob", "DONE")], "done"),
            ("a member's who has left do", vec![task(), says("gone", "DONE")], "done"),
            (
                "those of somebody else called like a member do not",
                vec![Message::text(Role::User, "bob", "DONE")],
                "ann",
            ),
            ("older ones do not", vec![says("bob", "DONE"), says("ann", "Not yet.")], "ann"),
            ("those before a new task do not", vec![says("bob", "DONE"), task()], "ann"),
            ("a note behind them changes nothing", vec![says("bob", "DONE"), Message::note("host", "Hm.")], "done"),
        ];
        let members = profiles("ann bob");
        let until = RoundRobinUntil::new(0, StopCondition::text("(?i)\\bdone\\b").unwrap());
        for (case, mut messages, expected) in cases {
            if messages[0].role == Role::Assistant {
                messages.insert(0, Message::user("An old task."));
            }
            let shared = ChatSnapshot::from_messages(messages).unwrap();
            let moment = CoordinatorInput { shared: &shared, ..moment(&members) };
            let step = until.next(&cx(), &moment, vec![]).await;
            assert_eq!(shown(step.as_ref().map(|step| &step.action)), expected, "{case}");
        }
    }

    #[tokio::test]
    async fn round_robin_until_counts_rounds() {
        let until = RoundRobinUntil::new(2, StopCondition::text("never").unwrap());
        assert_eq!(play(&until, &["a b"; 5]).await, "a, b, a, b, exhausted");
        assert_eq!(play(&until, &["a b", "b c", "b c", "b c"]).await, "a, b, c, b");
        assert_eq!(play(&until, &[""]).await, "error: the team has no members");
    }

    #[tokio::test]
    async fn reply_of_the_last_round_is_checked() {
        let (members, until) = (profiles("a"), RoundRobinUntil::new(1, StopCondition::text("^ok$").unwrap()));
        let first = until.next(&cx(), &moment(&members), vec![]).await.unwrap();
        for (said, expected) in [("ok", "done"), ("no", "exhausted")] {
            let shared = ChatSnapshot::from_messages(vec![Message::user("?"), says("a", said)]).unwrap();
            let moment = CoordinatorInput { step: 1, shared: &shared, ..moment(&members) };
            let step = until.next(&cx(), &moment, first.state.clone()).await;
            assert_eq!(shown(step.as_ref().map(|step| &step.action)), expected);
        }
    }

    #[test]
    fn patterns() {
        let error = |pattern: &str| StopCondition::text(pattern).err().unwrap().to_string();
        assert!(error("(").starts_with("invalid regular expression `(`: "));
        let most = limits::UNTIL_PATTERN_BYTES;
        let large = "\\w{100}{100}";
        assert_eq!(
            error(large),
            format!("the regular expression `{large}` takes more than {most} bytes of memory; simplify it")
        );
    }

    /// A coordinator that asks a model and obeys its answer: `stop`, or anything else; its state counts the calls.
    struct Judge;

    #[async_trait]
    impl Coordinator for Judge {
        fn name(&self) -> &str {
            "judge"
        }

        fn models(&self) -> &NameSet {
            static SMALL: LazyLock<NameSet> = LazyLock::new(|| ["small".to_owned()].into_iter().collect());
            &SMALL
        }

        async fn next(
            &self,
            _: &RunCx,
            moment: &CoordinatorInput<'_>,
            mut state: Vec<u8>,
        ) -> Result<CoordinatorStep, Fault> {
            state.push(b'x');
            let action = match &moment.reply {
                None => {
                    let request = CompletionRequest::new(ChatSnapshot::default(), [].into());
                    CoordinatorAction::Ask(Box::new(ModelQuery { model: Some("small".into()), request }))
                }
                Some(reply) => match reply.clone()?.into_message("").text_content().as_str() {
                    "stop" => CoordinatorAction::Done(Some(vec![Part::Text("judged".into())])),
                    "grow" => {
                        state.resize(limits::STATE_BYTES, 0);
                        CoordinatorAction::Run(vec![])
                    }
                    _ => CoordinatorAction::Run(vec![MemberAssignment::of("whoever")]),
                },
            };
            Ok(CoordinatorStep { state, action, reasoning: Some("judged".into()) })
        }
    }

    #[tokio::test]
    async fn inner_coordinator_ends_round_robin() {
        let members = profiles("a b");
        let until = RoundRobinUntil::new(1, StopCondition::Coordinator(Arc::new(Judge)));
        assert!(until.models().contains("small") && !until.models().contains("large"));
        let reply = |text| Some(ScriptedCompleter::text(text));
        let unavailable = Some(Err(Fault::Unavailable { message: "off".into(), after: None }));
        type Case<'a> = (&'a str, Vec<Option<Result<Completion, Fault>>>, &'a str);
        let cases: [Case<'_>; 5] = [
            (
                "it goes on, in order and not with whom it names",
                vec![None, reply("on"), None, reply("on")],
                "ask, a, ask, b",
            ),
            ("it stops, with its answer", vec![None, reply("on"), None, reply("stop")], "ask, a, ask, done: judged"),
            ("it stops before anybody has worked", vec![None, reply("stop")], "ask, done: judged"),
            ("it fails", vec![None, unavailable], "ask, error: off"),
            (
                "rounds are counted meanwhile",
                vec![None, reply("on"), None, reply("on"), None, reply("on")],
                "ask, a, ask, b, ask, exhausted",
            ),
        ];
        for (case, replies, expected) in cases {
            let (mut state, mut step, mut told) = (Vec::new(), 0, Vec::new());
            for reply in replies {
                let moment = CoordinatorInput { step, reply, ..moment(&members) };
                let next = until.next(&cx(), &moment, std::mem::take(&mut state)).await;
                told.push(shown(next.as_ref().map(|step| &step.action)));
                let Ok(next) = next else { break };
                step += u32::from(matches!(next.action, CoordinatorAction::Run(_)));
                assert_eq!(next.reasoning.as_deref(), Some("judged"), "{case}");
                state = next.state;
            }
            assert_eq!(told.join(", "), expected, "{case}");
            assert!(state.is_empty() || state.ends_with(&vec![b'x'; told.len()]), "{case}: what it remembers is kept");
        }
    }

    #[tokio::test]
    async fn combined_coordinator_states_are_bounded() {
        let members = profiles("a");
        let until = RoundRobinUntil::new(1, StopCondition::Coordinator(Arc::new(Judge)));
        let moment = CoordinatorInput { reply: Some(ScriptedCompleter::text("grow")), ..moment(&members) };
        assert!(matches!(until.next(&cx(), &moment, vec![]).await, Err(Fault::TooLarge { .. })));
    }

    #[tokio::test]
    async fn a_memory_that_is_none_is_an_error() {
        let members = profiles("a");
        let until = RoundRobinUntil::new(1, StopCondition::text("x").unwrap());
        for state in [&b"x"[..], &[0, 0, 0], &[9, 0, 0, 0, 1], &[255; 8], &[1, 0, 0, 0, b'{']] {
            let fault = until.next(&cx(), &moment(&members), state.into()).await.unwrap_err();
            assert!(fault.to_string().starts_with("cannot read the state of the coordinator: "), "{fault}");
        }
    }
}
