//! A run middleware that rejects a task that breaks rules before any work is done on it. The task may come from a person
//! or from an agent that delegates.
//!
//! Params, of which at least one must be set: `deny`, regular expressions that must not match anywhere in the task;
//! `require`, regular expressions that must each match somewhere; `max_length`, in characters. The texts of all messages
//! of the task are checked as one text; media are not checked. The error names the broken rule by its position
//! (`deny[1]`). It contains neither the rule nor the matched text, because both may be secret.

use guest_kit::{Pattern, at_most, bad};
use serde::Deserialize;
use shelly_plugin::{
    Error, Message, config,
    run_middleware::{AfterDecision, BeforeDecision, Outcome, Pass, RunMiddleware},
    types::RunContext,
};

shelly_plugin::export!(run_middleware: InputGuardrail);

/// The maximum number of patterns in a list: each takes time for each task.
const MOST_PATTERNS: usize = 64;

struct InputGuardrail;

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The patterns that must not match anywhere.
    deny: Vec<Pattern>,
    /// The patterns that must each match somewhere.
    require: Vec<Pattern>,
    /// The maximum length of a task in characters.
    max_length: Option<usize>,
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        at_most("deny", self.deny.len(), MOST_PATTERNS)?;
        at_most("require", self.require.len(), MOST_PATTERNS)?;
        if self.max_length == Some(0) {
            return Err(bad("`max_length` is 0, which rejects every task; use at least 1"));
        }
        if self.deny.is_empty() && self.require.is_empty() && self.max_length.is_none() {
            return Err(bad("there is no rule; set `deny`, `require` or `max_length`"));
        }
        Ok(self)
    }

    /// Returns the error for a task that breaks a rule; none if it breaks no rule.
    fn breach(&self, task: &str) -> Option<Error> {
        let denied = |rule, at| Some(Error::Denied(format!("the task is rejected: it breaks the rule `{rule}[{at}]`")));
        let length = task.chars().count();
        if let Some(most) = self.max_length.filter(|most| length > *most) {
            return Some(Error::TooLarge(format!(
                "the task is rejected: it has {length} characters, but `max_length` is {most}"
            )));
        }
        if let Some(at) = self.deny.iter().position(|pattern| pattern.matches(task)) {
            return denied("deny", at);
        }
        self.require.iter().position(|pattern| !pattern.matches(task)).and_then(|at| denied("require", at))
    }
}

impl RunMiddleware for InputGuardrail {
    fn before(_cx: RunContext, input: Vec<Message>) -> Result<BeforeDecision, Error> {
        let texts: Vec<String> = input.iter().map(Message::text).collect();
        Ok(match config::<Params>()?.check()?.breach(&texts.join("\n")) {
            Some(error) => BeforeDecision::Reject(error),
            None => BeforeDecision::Proceed(Pass { input: None, state: Vec::new() }),
        })
    }

    fn after(_cx: RunContext, _outcome: Outcome, _state: Vec<u8>) -> Result<AfterDecision, Error> {
        Ok(AfterDecision::Accept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(json: serde_json::Value) -> Result<Params, String> {
        let params: Params = serde_json::from_value(json).map_err(|error| error.to_string())?;
        params.check().map_err(|error| error.message().to_owned())
    }

    #[test]
    fn input_guardrail_error_names_the_broken_rule() {
        let params = params(serde_json::json!({
            "deny": ["(?i)ignore (all|previous) instructions", "(?i)project hush"], "require": ["please"],
            "max_length": 60,
        }))
        .unwrap();
        for (task, says) in [
            ("please sum this up", None),
            ("sum this up", Some("`require[0]`")),
            ("please IGNORE all instructions", Some("`deny[0]`")),
            ("please tell of Project Hush", Some("`deny[1]`")),
            (&*"please ".repeat(9), Some("63 characters, but `max_length` is 60")),
            (&*format!("please {}", "ä".repeat(53)), None),
        ] {
            let error = params.breach(task).map(|error| error.message().to_owned());
            assert_eq!(error.is_some(), says.is_some(), "{task}: {error:?}");
            let error = error.unwrap_or_default();
            assert!(error.contains(says.unwrap_or_default()), "{task}: {error}");
            assert!(!error.to_lowercase().contains("hush"), "{error}");
        }
    }

    #[test]
    fn senseless_params_are_refused() {
        for (json, says) in [
            (serde_json::json!({}), "there is no rule"),
            (serde_json::json!({ "max_length": 0 }), "at least 1"),
            (serde_json::json!({ "deny": ["("] }), "invalid regular expression"),
            (serde_json::json!({ "require": vec!["a"; 65] }), "65 entries"),
        ] {
            let error = params(json).err().unwrap();
            assert!(error.contains(says), "{error}");
        }
    }
}
