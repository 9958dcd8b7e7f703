//! A run middleware that rejects an answer that breaks rules. Before that, the agent is told what is wrong and may try
//! again.
//!
//! Params, of which at least one rule must be set:
//!
//! | key | rule |
//! |---|---|
//! | `deny` | regular expressions that must not match anywhere in the answer |
//! | `require` | regular expressions that must each match somewhere |
//! | `min_length`, `max_length` | bounds in characters |
//! | `json_schema` | the answer must be JSON that fits this schema; a Markdown code fence around it is ignored |
//! | `retries` | the number of further attempts of the agent: 0 to 8, by default 2 |
//!
//! The module `schema` lists the supported keywords of JSON Schema; a schema with any other keyword is refused. The text
//! parts of the answer are checked as one text. A failed run stays unchanged. The message of an agent that hands over, or
//! whose task has failed, is not an answer: only `deny` applies to it.

use guest_kit::{Pattern, at_most, bad};
use serde::Deserialize;
use serde_json::Value;
use shelly_plugin::{
    Error, Message, config,
    run_middleware::{AfterDecision, Again, BeforeDecision, Outcome, Pass, RunMiddleware},
    text,
    types::RunContext,
};

mod schema;

use schema::Schema;

shelly_plugin::export!(run_middleware: OutputGuardrail);

/// The maximum number of patterns in a list: each takes time for each answer.
const MOST_PATTERNS: usize = 64;

/// The maximum number of times that the host repeats a run.
const MOST_RETRIES: u32 = 8;

/// The maximum number of characters of a match that are shown.
const MAX_SHOWN: usize = 80;

struct OutputGuardrail;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    deny: Vec<Pattern>,
    require: Vec<Pattern>,
    min_length: Option<usize>,
    max_length: Option<usize>,
    json_schema: Option<Value>,
    retries: u32,
}

impl Default for Params {
    fn default() -> Params {
        let (deny, require) = Default::default();
        Params { deny, require, min_length: None, max_length: None, json_schema: None, retries: 2 }
    }
}

/// The rules for an answer.
struct Rules {
    deny: Vec<Pattern>,
    require: Vec<Pattern>,
    min_length: usize,
    max_length: Option<usize>,
    schema: Option<Schema>,
    retries: u32,
}

/// A rule that an answer breaks.
struct Breach {
    /// The name of the rule in the params.
    rule: String,
    /// The feedback to the agent.
    feedback: String,
}

impl Params {
    fn check(self) -> Result<Rules, Error> {
        let Params { deny, require, min_length, max_length, json_schema, retries } = self;
        at_most("deny", deny.len(), MOST_PATTERNS)?;
        at_most("require", require.len(), MOST_PATTERNS)?;
        if retries > MOST_RETRIES {
            return Err(bad(format_args!("`retries` is {retries}; use 0 to {MOST_RETRIES}")));
        }
        let min = min_length.unwrap_or(0);
        if max_length.is_some_and(|max| max == 0 || max < min) {
            return Err(bad("`max_length` must be at least 1 and not less than `min_length`"));
        }
        let says_nothing =
            deny.is_empty() && require.is_empty() && min == 0 && max_length.is_none() && json_schema.is_none();
        if says_nothing {
            return Err(bad("there is no rule; set `deny`, `require`, `min_length`, `max_length` or `json_schema`"));
        }
        let schema = json_schema.map(Schema::new).transpose().map_err(|why| bad(format_args!("`json_schema`{why}")))?;
        Ok(Rules { deny, require, min_length: min, max_length, schema, retries })
    }
}

impl RunMiddleware for OutputGuardrail {
    fn before(_cx: RunContext, _input: Vec<Message>) -> Result<BeforeDecision, Error> {
        // Invalid params are reported before an answer costs anything.
        config::<Params>()?.check()?;
        Ok(BeforeDecision::Proceed(Pass { input: None, state: Vec::new() }))
    }

    fn after(_cx: RunContext, outcome: Outcome, state: Vec<u8>) -> Result<AfterDecision, Error> {
        let Ok(answer) = outcome.reply else { return Ok(AfterDecision::Accept) };
        let rules = config::<Params>()?.check()?;
        let rules = if answer.is_answer() { rules } else { rules.of_all_words() };
        Ok(rules.decide(&answer.text(), outcome.attempt, state))
    }
}

impl Rules {
    /// Returns the rules that apply to everything that leaves the agent, and not only to answers.
    fn of_all_words(self) -> Rules {
        Rules {
            deny: self.deny,
            retries: self.retries,
            require: Vec::new(),
            min_length: 0,
            max_length: None,
            schema: None,
        }
    }

    fn decide(&self, answer: &str, attempt: u32, state: Vec<u8>) -> AfterDecision {
        let breaches = self.breaches(answer);
        if breaches.is_empty() {
            return AfterDecision::Accept;
        }
        if attempt < self.retries {
            let wrong: Vec<String> = breaches.iter().map(|breach| format!("- {}", breach.feedback)).collect();
            let feedback =
                format!("Your answer was not accepted:\n{}\nGive the whole answer again, corrected.", wrong.join("\n"));
            return AfterDecision::Retry(Again { feedback: Some(feedback), delay_ms: 0, state });
        }
        // The reader of the error must not see the content of the answer.
        let rules: Vec<String> = breaches.iter().map(|breach| format!("`{}`", breach.rule)).collect();
        let tries = if attempt == 0 { String::new() } else { format!(" after {} attempts", attempt + 1) };
        AfterDecision::Reject(Error::Denied(format!("the answer breaks {}{tries}", rules.join(", "))))
    }

    fn breaches(&self, answer: &str) -> Vec<Breach> {
        let mut breaches = Vec::new();
        let mut breach = |rule: String, feedback: String| breaches.push(Breach { rule, feedback });
        for (at, pattern) in self.deny.iter().enumerate() {
            if let Some(found) = pattern.find(answer) {
                let found = text::short(found, MAX_SHOWN).replace('`', "'");
                breach(format!("deny[{at}]"), format!("it must not contain `{found}`"));
            }
        }
        for (at, pattern) in self.require.iter().enumerate().filter(|(_, pattern)| !pattern.matches(answer)) {
            breach(format!("require[{at}]"), format!("it must contain a text that matches `{}`", pattern.as_str()));
        }
        let length = answer.chars().count();
        if length < self.min_length {
            let least = self.min_length;
            breach("min_length".into(), format!("it has {length} characters, the minimum is {least}"));
        }
        if let Some(most) = self.max_length.filter(|most| length > *most) {
            breach("max_length".into(), format!("it has {length} characters, the maximum is {most}"));
        }
        if let Some(schema) = &self.schema {
            match serde_json::from_str(unfenced(answer)) {
                Ok(value) => {
                    schema.problems(&value).into_iter().for_each(|why| breach("json_schema".into(), why));
                }
                Err(error) => {
                    let why = format!("it must be one valid JSON value and nothing else: {error}");
                    breach("json_schema".into(), why);
                }
            }
        }
        breaches.dedup_by(|one, other| one.rule == other.rule && one.feedback == other.feedback);
        breaches
    }
}

/// Returns the content of a Markdown code fence around the whole text; the text itself if there is none.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = || {
        let inner = text.strip_prefix("```")?.strip_suffix("```")?;
        // The rest of the first line names the language.
        let (language, body) = inner.split_once('\n')?;
        (!language.contains('`') && !body.contains("\n```")).then(|| body.trim())
    };
    inner().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(params: Value) -> Result<Rules, String> {
        let params: Params = serde_json::from_value(params).map_err(|error| error.to_string())?;
        params.check().map_err(|error| error.message().to_owned())
    }

    #[test]
    fn output_guardrail_lists_every_broken_rule() {
        let rules = rules(serde_json::json!({
            "deny": ["(?i)secret", "x{3}"], "require": ["^Dear", "yours$"], "min_length": 10, "max_length": 30,
            "json_schema": true,
        }))
        .unwrap();
        for (answer, expected) in [
            ("Dear, top Secret yours", "deny[0] json_schema"),
            ("xxx", "deny[1] require[0] require[1] min_length json_schema"),
            ("Dear me, this is by far too long and not yours", "max_length json_schema"),
            ("{\"a\": [\"0123456789\"]}", "require[0] require[1]"),
        ] {
            let broken: Vec<_> = rules.breaches(answer).into_iter().map(|breach| breach.rule).collect();
            assert_eq!(broken.join(" "), expected, "{answer}");
        }
    }

    #[test]
    fn output_guardrail_retries_with_feedback_and_then_denies() {
        let rules = rules(serde_json::json!({ "deny": ["s.cret"], "retries": 1 })).unwrap();
        assert!(matches!(rules.decide("fine", 0, vec![]), AfterDecision::Accept));
        let AfterDecision::Retry(again) = rules.decide("a secret", 0, vec![7]) else { panic!("no retry") };
        assert_eq!(again.state, [7]);
        assert!(again.feedback.unwrap().contains("- it must not contain `secret`\n"));
        let AfterDecision::Reject(error) = rules.decide("a secret", 1, vec![]) else { panic!("no reject") };
        assert_eq!(error, Error::Denied("the answer breaks `deny[0]` after 2 attempts".into()));
    }

    #[test]
    fn output_guardrail_checks_only_deny_rules_in_other_texts() {
        let rules = rules(serde_json::json!({
            "deny": ["secret"], "require": ["^Dear"], "min_length": 10, "max_length": 11, "json_schema": true,
        }));
        let rules = rules.unwrap().of_all_words();
        assert_eq!(rules.retries, 2);
        for (words, expected) in [("I pass.", ""), ("", ""), ("a secret of more than that", "deny[0]")] {
            let broken: Vec<_> = rules.breaches(words).into_iter().map(|breach| breach.rule).collect();
            assert_eq!(broken.join(" "), expected, "{words}");
        }
    }

    #[test]
    fn code_fence_around_the_whole_answer_is_stripped() {
        for (text, inner) in [
            ("{}", "{}"),
            (" {} \n", "{}"),
            ("```json\n{}\n```", "{}"),
            ("```\n{}\n```\n", "{}"),
            ("```json\n{\"a\": \"```\"}\n```", "{\"a\": \"```\"}"),
            ("so: ```json\n{}\n```", "so: ```json\n{}\n```"),
            ("```\n1\n```\n```\n2\n```", "```\n1\n```\n```\n2\n```"),
            ("```", "```"),
            ("``````", "``````"),
        ] {
            assert_eq!(unfenced(text), inner, "{text}");
        }
    }

    #[test]
    fn senseless_params_are_refused() {
        for (params, says) in [
            (serde_json::json!({}), "there is no rule"),
            (serde_json::json!({ "min_length": 0 }), "there is no rule"),
            (serde_json::json!({ "min_length": 1, "retries": 9 }), "`retries` is 9"),
            (serde_json::json!({ "min_length": 2, "max_length": 1 }), "not less than `min_length`"),
            (serde_json::json!({ "max_length": 0 }), "at least 1"),
            (serde_json::json!({ "deny": ["["] }), "invalid regular expression"),
            (serde_json::json!({ "deny": vec!["a"; 65] }), "65 entries"),
            (serde_json::json!({ "json_schema": { "type": "objekt" } }), "`json_schema`"),
        ] {
            let error = rules(params).err().unwrap();
            assert!(error.contains(says), "{error}");
        }
    }
}
