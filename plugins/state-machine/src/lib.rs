//! A coordinator that leads a team through states. In each state its members work in parallel, and their replies then
//! decide which state is next.
//!
//! ```yaml
//! states:
//!   - {name: draft, members: [writer], default: review}
//!   - name: review
//!     members: [critic]                  # a member's name, or a role: all who have it
//!     task: Say APPROVED, or what is wrong.
//!     transitions: [{matches: APPROVED, by: all, to: done}]
//!     default: draft
//! max_steps: 20
//! ```
//!
//! The team begins in the first state. The optional `task` is given to each of the state's members. When they have
//! replied, the first of the `transitions` that matches names the next state, or `default` if none matches. The state
//! `done`, to which `default` defaults, ends the team's run with the last reply. `matches` is a regular expression that
//! matches anywhere in a reply of this step. With `by: all` every reply must match; without it one matching reply
//! suffices. A member that failed has no reply: if no member has a reply, no transition matches.
//!
//! `max_steps` is 20 by default and at most 10,000; the run fails if the team is not done after that many steps. The
//! first step refuses invalid params: unknown member names, and states that do not exist or that no other state leads to.
//! Transitions need the power `see-messages`.

use std::collections::BTreeSet;

use guest_kit::{Pattern, at_most, bad};
use serde::{Deserialize, Serialize};
use shelly_plugin::{
    Error, Message, chat, config,
    coordinator::{Assignment, Coordinator, CoordinatorInput, Member, Step, remembered, state},
    types::Role,
};

shelly_plugin::export!(coordinator: StateMachine);

/// The state in which the team is done.
const DONE: &str = "done";
/// The version of the state.
const VERSION: u8 = 1;
const MOST_STATES: usize = 64;
const MOST_MEMBERS: usize = 64;
const MOST_TRANSITIONS: usize = 32;
/// The maximum number of steps that the host allows a team.
const MOST_STEPS: u32 = 10_000;

struct StateMachine;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    /// The states; the team begins in the first.
    #[serde(default)]
    states: Vec<State>,
    #[serde(default = "max_steps")]
    max_steps: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    name: String,
    /// The members of the state, as names or roles.
    members: Vec<String>,
    task: Option<String>,
    /// The transitions, in order: the first that matches decides.
    #[serde(default)]
    transitions: Vec<Transition>,
    /// The next state if no transition matches.
    #[serde(default = "done")]
    default: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Transition {
    matches: Pattern,
    #[serde(default)]
    by: By,
    to: String,
}

/// The members whose replies must match.
#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "lowercase")]
enum By {
    #[default]
    Any,
    All,
}

/// The state that the coordinator keeps from step to step.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The name of the state whose members work.
    state: String,
    /// The number of messages in the chat before they worked.
    heard: u32,
}

fn max_steps() -> u32 {
    20
}

fn done() -> String {
    DONE.into()
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        at_most("states", self.states.len(), MOST_STATES)?;
        if self.states.is_empty() {
            return Err(bad("there is no state; write `states`, the first of which is the initial state"));
        }
        if !(1..=MOST_STEPS).contains(&self.max_steps) {
            return Err(bad(format_args!("`max_steps` is {}; use 1 to {MOST_STEPS}", self.max_steps)));
        }
        let mut names = BTreeSet::from([DONE]);
        for (at, state) in self.states.iter().enumerate() {
            at_most(&format!("states[{at}].members"), state.members.len(), MOST_MEMBERS)?;
            at_most(&format!("states[{at}].transitions"), state.transitions.len(), MOST_TRANSITIONS)?;
            if !names.insert(&state.name) {
                let why = if state.name == DONE {
                    "this name is reserved for the end"
                } else {
                    "another state has this name"
                };
                return Err(bad(format_args!("`states[{at}].name` is `{}`: {why}", state.name)));
            }
            if state.members.is_empty() {
                return Err(bad(format_args!("`states[{at}].members` is empty; name at least one member")));
            }
        }
        for (at, state) in self.states.iter().enumerate() {
            if let Some(missing) = state.leads_to().find(|to| !names.contains(to)) {
                let names: Vec<_> = names.iter().copied().collect();
                let names = names.join(", ");
                return Err(bad(format_args!(
                    "`states[{at}]` leads to the unknown state `{missing}`; states: {names}"
                )));
            }
        }
        match self.states.iter().enumerate().skip(1).find(|(_, state)| !self.is_led_to(state)) {
            Some((at, state)) => {
                Err(bad(format_args!("`states[{at}]` (`{}`): no other state leads to it", state.name)))
            }
            None => Ok(self),
        }
    }

    fn is_led_to(&self, state: &State) -> bool {
        let others = self.states.iter().filter(|other| other.name != state.name);
        others.flat_map(State::leads_to).any(|to| to == state.name)
    }

    /// Checks that all named members exist, and that replies are visible.
    fn check_team(&self, members: &[Member], sees: bool) -> Result<(), Error> {
        for state in &self.states {
            state.assignments(members)?;
        }
        match !sees && self.states.iter().any(|state| !state.transitions.is_empty()) {
            true => Err(Error::Denied(
                "the plugin cannot see messages, so no transition would ever match; grant `powers: [see-messages]`"
                    .into(),
            )),
            false => Ok(()),
        }
    }

    fn state(&self, name: &str) -> Option<&State> {
        self.states.iter().find(|state| state.name == name)
    }
}

impl State {
    fn leads_to(&self) -> impl Iterator<Item = &str> {
        let transitions = self.transitions.iter().map(|transition| transition.to.as_str());
        transitions.chain([self.default.as_str()])
    }

    /// Returns the next state after these replies.
    fn next(&self, said: &[String]) -> &str {
        let fits = |transition: &&Transition| {
            let mut said = said.iter().map(|text| transition.matches.matches(text));
            match transition.by {
                By::Any => said.any(|matches| matches),
                By::All => said.len() > 0 && said.all(|matches| matches),
            }
        };
        self.transitions.iter().find(fits).map_or(&self.default, |transition| &transition.to)
    }

    /// Returns an assignment for each member of the state, once each, in the order of the params.
    fn assignments(&self, members: &[Member]) -> Result<Vec<Assignment>, Error> {
        let mut working: Vec<&Member> = Vec::new();
        for named in &self.members {
            let mut found: Vec<_> = members.iter().filter(|member| member.name == *named).collect();
            if found.is_empty() {
                found = members.iter().filter(|member| member.role == *named).collect();
            }
            if found.is_empty() {
                let there: Vec<_> = members.iter().map(|member| format!("{} ({})", member.name, member.role)).collect();
                let (state, there) = (&self.name, there.join(", "));
                return Err(bad(format_args!(
                    "state `{state}`: no member has the name or the role `{named}`; members: {there}"
                )));
            }
            let is_new = |member: &&Member| !working.iter().any(|there| there.name == member.name);
            let new: Vec<_> = found.into_iter().filter(is_new).collect();
            working.extend(new);
        }
        let assignment = |member: &Member| Assignment { member: member.name.clone(), task: self.task.clone() };
        Ok(working.into_iter().map(assignment).collect())
    }
}

impl Coordinator for StateMachine {
    fn next(input: CoordinatorInput, before: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        let now = match remembered::<Option<Kept>>(VERSION, &before) {
            None => {
                let sees = chat::message(0).is_none_or(|message| !message.parts.is_empty());
                params.check_team(&input.members, sees)?;
                params.states.first()
            }
            Some(kept) => match params.state(&kept.state) {
                Some(state) => params.state(state.next(&said_since(kept.heard))),
                // The params have changed since the last step.
                None => {
                    return Err(Error::NotFound(format!(
                        "the team was in the state `{}`, which no longer exists",
                        kept.state
                    )));
                }
            },
        };
        let Some(now) = now else { return Ok(Step::done()) };
        if input.step >= params.max_steps {
            let (most, name) = (params.max_steps, &now.name);
            return Err(Error::Exhausted(format!("not done after {most} steps (`max_steps`); `{name}` would be next")));
        }
        let kept = Kept { state: now.name.clone(), heard: chat::length() };
        Ok(Step::run(state(VERSION, &kept), now.assignments(&input.members)?))
    }
}

/// Returns the replies from this position of the chat on.
fn said_since(mut position: u32) -> Vec<String> {
    let mut said = Vec::new();
    loop {
        let messages = chat::read(position, u32::MAX);
        if messages.is_empty() {
            return said;
        }
        position = position.saturating_add(u32::try_from(messages.len()).unwrap_or(u32::MAX));
        said.extend(messages.iter().filter(|message| message.role == Role::Assistant).map(Message::text));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn params(json: Value) -> Result<Params, String> {
        let params: Params = serde_json::from_value(json).map_err(|error| error.to_string())?;
        params.check().map_err(|error| error.message().to_owned())
    }

    fn review() -> Params {
        let review = json!({
            "name": "review", "members": ["critics", "tester"], "default": "draft",
            "transitions": [
                {"matches": "(?i)stop", "to": "done"},
                {"matches": "APPROVED", "by": "all", "to": "publish"},
            ],
        });
        let draft = json!({"name": "draft", "members": ["writer"], "task": "Write.", "default": "review"});
        params(json!({"states": [draft, review, {"name": "publish", "members": ["writer"]}]})).unwrap()
    }

    fn member(name: &str, role: &str) -> Member {
        Member { name: name.into(), role: role.into(), description: String::new() }
    }

    #[test]
    fn state_machine_picks_the_next_state_by_the_replies() {
        let params = review();
        assert_eq!(params.max_steps, 20);
        for (state, said, next) in [
            ("draft", &[][..], "review"),
            ("review", &["APPROVED", "not yet"][..], "draft"),
            ("review", &["APPROVED", "It is APPROVED."], "publish"),
            ("review", &["APPROVED", "Stop it"], "done"),
            // No member has replied.
            ("review", &[], "draft"),
            ("publish", &["here"], "done"),
        ] {
            let said: Vec<_> = said.iter().map(ToString::to_string).collect();
            assert_eq!(params.state(state).unwrap().next(&said), next, "{state} {said:?}");
        }
        assert!(params.state(DONE).is_none());
    }

    #[test]
    fn state_machine_finds_members_by_name_and_role_once() {
        let machine = review();
        let members = [
            member("ada", "critics"),
            member("writer", "writer"),
            member("tester", "critics"),
            member("bob", "critics"),
        ];
        let who = |state: &str| {
            let assignments = machine.state(state).unwrap().assignments(&members).unwrap();
            assignments.into_iter().map(|one| (one.member, one.task)).collect::<Vec<_>>()
        };
        assert_eq!(who("draft"), [("writer".to_owned(), Some("Write.".to_owned()))]);
        let names: Vec<_> = who("review").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["ada", "tester", "bob"]);
        assert_eq!(machine.check_team(&members, true), Ok(()));
        let error = machine.check_team(&members[..1], true).unwrap_err();
        assert_eq!(
            error.message(),
            "params: state `draft`: no member has the name or the role `writer`; members: ada (critics)"
        );
        assert!(machine.check_team(&members, false).unwrap_err().message().contains("see-messages"));
        // States without transitions do not need to see messages.
        let blind = params(json!({"states": [{"name": "a", "members": ["ada"]}]})).unwrap();
        assert_eq!(blind.check_team(&members, false), Ok(()));
    }

    #[test]
    fn senseless_params_are_refused() {
        let state = |name: &str, more: Value| {
            let mut state = json!({"name": name, "members": ["ada"]});
            state.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            state
        };
        let to = |to: &str| json!({"transitions": [{"matches": "x", "to": to}]});
        for (json, says) in [
            (json!({}), "there is no state"),
            (json!({"states": vec![state("a", json!({})); 65]}), "`states` has 65 entries"),
            (json!({"states": [state("a", json!({}))], "max_steps": 0}), "`max_steps` is 0; use 1 to 10000"),
            (json!({"states": [state("a", json!({}))], "max_steps": 10_001}), "`max_steps` is 10001"),
            (json!({"states": [state("a", json!({"members": []}))]}), "`states[0].members` is empty"),
            (json!({"states": [state("a", json!({"members": vec!["x"; 65]}))]}), "`states[0].members` has 65 entries"),
            (
                json!({"states": [state("done", json!({}))]}),
                "`states[0].name` is `done`: this name is reserved for the end",
            ),
            (
                json!({"states": [state("a", json!({})), state("a", json!({}))]}),
                "`states[1].name` is `a`: another state",
            ),
            (json!({"states": [state("a", to("b"))]}), "`states[0]` leads to the unknown state `b`; states: a, done"),
            (
                json!({"states": [state("a", json!({"default": "end"}))]}),
                "`states[0]` leads to the unknown state `end`",
            ),
            (
                json!({"states": [state("a", json!({})), state("b", to("b"))]}),
                "`states[1]` (`b`): no other state leads",
            ),
            (json!({"states": [{"name": "a"}]}), "missing field `members`"),
            (json!({"states": [state("a", json!({"next": "b"}))]}), "unknown field `next`"),
            (json!({"states": [state("a", json!({"transitions": [{"to": "done"}]}))]}), "missing field `matches`"),
            (
                json!({"states": [state("a", json!({"transitions": [{"matches": "(", "to": "done"}]}))]}),
                "invalid regular expression",
            ),
            (
                json!({"states": [state("a", json!({"transitions": [{"matches": "a", "by": "most", "to": "done"}]}))]}),
                "unknown variant `most`",
            ),
        ] {
            let error = params(json).err().unwrap();
            assert!(error.contains(says), "{says}: {error}");
        }
    }
}
