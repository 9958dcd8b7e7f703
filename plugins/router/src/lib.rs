//! A model middleware that chooses the model of each request by rules. The first rule that matches decides; if none
//! matches, the model stays.
//!
//! Params: `{"rules": [{"model": "small", "max_tokens": 4000, "agent": "worker-*"}]}`, with 1 to 64 rules. `model` is the
//! name of a model in the config that is granted under `models`, or the agent's own model. A rule matches if all of its
//! conditions hold:
//!
//! | key | condition |
//! |---|---|
//! | `min_tokens`, `max_tokens` | the estimated tokens of the request are at least, or at most, this many |
//! | `agent` | the agent's name matches, with `*` and `?` |
//! | `depth` | the agent's distance from a person: 0 for an agent that a person started |
//! | `matches` | a regular expression matches anywhere in the newest message of a person or another agent |
//!
//! `matches` needs the power `see-messages`; the other conditions read nothing. A rule without conditions always matches,
//! and can only be the last.

use guest_kit::{Glob, Pattern, at_most, bad};
use serde::Deserialize;
use shelly_plugin::{
    Error, Message, config,
    model_middleware::{AfterDecision, BeforeDecision, ModelMiddleware, Pass, Sending},
    outgoing,
    types::{Completion, Role, RunContext},
};

shelly_plugin::export!(model_middleware: Router);

const MOST_RULES: usize = 64;

/// The key of the fact with which the host marks messages that are not a task from a person.
const NOTE: &str = "shelly.note";

struct Router;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    /// The rules, in order: the first that matches decides.
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// The model that the request is sent to.
    model: String,
    min_tokens: Option<u64>,
    max_tokens: Option<u64>,
    agent: Option<Glob>,
    depth: Option<u32>,
    matches: Option<Pattern>,
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        at_most("rules", self.rules.len(), MOST_RULES)?;
        if self.rules.is_empty() {
            return Err(bad("`rules` is empty; write at least one, or leave the router out"));
        }
        let last = self.rules.len() - 1;
        for (at, rule) in self.rules.iter().enumerate() {
            if rule.model.is_empty() {
                return Err(bad(format_args!("`rules[{at}].model` is empty; name a model of the config")));
            }
            if rule.min_tokens.zip(rule.max_tokens).is_some_and(|(min, max)| min > max) {
                return Err(bad(format_args!("`rules[{at}]` matches nothing: `min_tokens` is more than `max_tokens`")));
            }
            if at < last && rule.fits_always() {
                return Err(bad(format_args!("`rules[{at}]` always matches, so no rule after it is ever used")));
            }
        }
        Ok(self)
    }

    /// Returns the model of the first rule that matches. `newest` is called at most once, with the index of the rule, and
    /// only if a rule depends on it.
    fn choose(
        &self,
        cx: &RunContext,
        tokens: u64,
        newest: impl FnOnce(usize) -> Result<String, Error>,
    ) -> Result<Option<&str>, Error> {
        let (mut newest, mut text) = (Some(newest), None);
        for (at, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.fits_around(cx, tokens)) {
            let Some(pattern) = &rule.matches else { return Ok(Some(&rule.model)) };
            if let Some(newest) = newest.take() {
                text = Some(newest(at)?);
            }
            if text.as_deref().is_some_and(|text| pattern.matches(text)) {
                return Ok(Some(&rule.model));
            }
        }
        Ok(None)
    }
}

impl Rule {
    fn fits_always(&self) -> bool {
        let Rule { model: _, min_tokens, max_tokens, agent, depth, matches } = self;
        min_tokens.or(*max_tokens).is_none() && agent.is_none() && depth.is_none() && matches.is_none()
    }

    /// Returns `true` if all conditions hold that do not depend on the content of the request.
    fn fits_around(&self, cx: &RunContext, tokens: u64) -> bool {
        self.min_tokens.is_none_or(|min| tokens >= min)
            && self.max_tokens.is_none_or(|max| tokens <= max)
            && self.agent.as_ref().is_none_or(|agent| agent.matches(&cx.agent))
            && self.depth.is_none_or(|depth| depth == cx.depth)
    }
}

impl ModelMiddleware for Router {
    fn before(cx: RunContext, sending: Sending) -> Result<BeforeDecision, Error> {
        let params = config::<Params>()?.check()?;
        let newest = |rule| newest(&outgoing::get().messages, rule);
        let model = params.choose(&cx, sending.tokens, newest)?.map(str::to_owned);
        Ok(BeforeDecision::Proceed(Pass { model, request: None, state: Vec::new() }))
    }

    fn after(
        _cx: RunContext,
        _sending: Sending,
        _reply: Result<Completion, Error>,
        _state: Vec<u8>,
    ) -> Result<AfterDecision, Error> {
        Ok(AfterDecision::Accept)
    }
}

/// Returns the newest message of a person or another agent; empty if there is none.
fn newest(messages: &[Message], rule: usize) -> Result<String, Error> {
    // Every message has parts, unless they are hidden.
    if !messages.is_empty() && messages.iter().all(|message| message.parts.is_empty()) {
        return Err(Error::Denied(format!("`rules[{rule}].matches` reads messages; grant the power `see-messages`")));
    }
    let is_task = |message: &&Message| message.role == Role::User && message.meta.iter().all(|(key, _)| key != NOTE);
    Ok(messages.iter().rev().find(is_task).map(Message::text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(rules: serde_json::Value) -> Result<Params, String> {
        let params: Params =
            serde_json::from_value(serde_json::json!({ "rules": rules })).map_err(|error| error.to_string())?;
        params.check().map_err(|error| error.message().to_owned())
    }

    #[test]
    fn router_applies_the_first_matching_rule() {
        let params = params(serde_json::json!([
            { "model": "code", "matches": "(?i)rust|python", "agent": "coder*" },
            { "model": "large", "min_tokens": 10_000 },
            { "model": "deep", "depth": 2, "max_tokens": 500 },
            { "model": "rest", "depth": 1 },
        ]))
        .unwrap();
        for (agent, depth, tokens, text, expected) in [
            ("coder", 0, 1, "Some Rust please", Some("code")),
            ("coder-2", 0, 20_000, "python", Some("code")),
            ("coder", 0, 20_000, "go", Some("large")),
            ("writer", 0, 10_000, "rust", Some("large")),
            ("writer", 2, 500, "rust", Some("deep")),
            ("writer", 2, 501, "rust", None),
            ("writer", 1, 501, "rust", Some("rest")),
        ] {
            let cx = RunContext { run: "r".into(), agent: agent.into(), depth };
            let newest = |_| Ok(text.to_owned());
            assert_eq!(params.choose(&cx, tokens, newest).unwrap(), expected, "{agent} {depth} {tokens} {text}");
        }
        // The request is not read if no rule depends on it.
        let cx = RunContext { run: "r".into(), agent: "writer".into(), depth: 0 };
        assert_eq!(params.choose(&cx, 1, |_| panic!("it reads")), Ok(None));
    }

    #[test]
    fn router_matches_the_newest_message_of_the_user() {
        let mut note = Message::new(Role::User, "a note");
        note.meta.push((NOTE.into(), String::new()));
        let messages = [
            Message::new(Role::User, "first"),
            Message::new(Role::User, "second"),
            Message::new(Role::Assistant, "reply"),
            note,
        ];
        assert_eq!(newest(&messages, 0).as_deref(), Ok("second"));
        assert_eq!(newest(&[], 0).as_deref(), Ok(""));
        let hidden = Message { parts: Vec::new(), ..Message::new(Role::User, "") };
        assert!(newest(&[hidden], 3).unwrap_err().message().contains("`rules[3].matches` reads messages"));
    }

    #[test]
    fn senseless_params_are_refused() {
        let many: Vec<_> = (0..65).map(|_| serde_json::json!({ "model": "a", "depth": 1 })).collect();
        for (rules, says) in [
            (serde_json::json!([]), "`rules` is empty"),
            (many.into(), "65 entries"),
            (serde_json::json!([{ "model": "" }]), "`rules[0].model` is empty"),
            (serde_json::json!([{ "model": "a", "min_tokens": 2, "max_tokens": 1 }]), "`rules[0]` matches nothing"),
            (serde_json::json!([{ "model": "a" }, { "model": "b" }]), "`rules[0]` always matches"),
            (serde_json::json!([{ "model": "a", "matches": "(" }]), "invalid regular expression"),
            (serde_json::json!([{ "model": "a", "match": "(" }]), "unknown field `match`"),
        ] {
            let error = params(rules).err().unwrap();
            assert!(error.contains(says), "{error}");
        }
    }
}
