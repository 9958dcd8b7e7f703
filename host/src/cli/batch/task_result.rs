use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};
use serde_json::Value;

use crate::{
    agent::{RunAnswer, RunEnding, RunError},
    capability::Usd,
    cli::render::{json_line, shown_answer},
    error::Report,
    model::{Usage, UsageTally},
    tool::CompletionStatus,
};

/// The result of one task, as a line of the results file. Its keys stand in the order in which a person reads them.
#[derive(Debug, Serialize)]
pub(super) struct TaskResult<'a> {
    pub id: &'a str,
    /// The text of the answer; `None` if the task has failed.
    pub answer: Option<String>,
    /// The answer as JSON, for a task with a schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The way in which the run ended.
    pub stop: &'static str,
    /// The failure.
    pub error: Option<&'a Report>,
    pub agent: Option<&'a str>,
    /// The vendor's name for the model.
    pub model: Option<&'a str>,
    pub turns: u32,
    /// The tokens of all agents that worked on the task.
    pub usage: Usage,
    /// The cost of these tokens; `None` if no price is known.
    pub cost_usd: Option<Usd>,
    /// The time that the task took in this process.
    pub duration_ms: f64,
    /// The session in which the run is recorded.
    pub session: Option<&'a str>,
}

/// A result of an earlier start, as far as it decides what is left to do.
#[derive(Debug, Deserialize)]
pub(super) struct PastResult {
    pub id: String,
    /// Required, so that a line of another file is not taken for a result.
    #[serde(deserialize_with = "required")]
    error: Option<IgnoredAny>,
    #[serde(default)]
    pub usage: Usage,
    #[serde(default)]
    pub cost_usd: Option<Usd>,
}

impl TaskResult<'_> {
    /// Returns the line, without credentials and with its line break.
    pub fn line(&self) -> String {
        let mut line = json_line(self);
        line.push('\n');
        line
    }
}

impl PastResult {
    pub fn is_answered(&self) -> bool {
        self.error.is_none()
    }
}

/// Reads a value that may be null and must be there.
fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IgnoredAny>, D::Error> {
    Option::deserialize(deserializer)
}

/// Returns the text of an answer.
pub(super) fn answer_text(answer: &RunAnswer) -> String {
    shown_answer(&answer.message)
}

/// Returns the cost of a task; `None` if tokens were used at no known price.
pub(super) fn cost(tally: &UsageTally) -> Option<Usd> {
    (tally.usd != Usd::ZERO || tally.usage.total() == 0).then_some(tally.usd)
}

/// Returns a duration in milliseconds.
pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1_000.0
}

/// Returns the word for the way in which a run ended.
pub(super) fn stop_word(outcome: Result<&RunEnding, &RunError>) -> &'static str {
    match outcome {
        Ok(RunEnding::Answered) => "answered",
        Ok(RunEnding::Completed(completed)) if completed.status == CompletionStatus::Failed => "gave_up",
        Ok(RunEnding::Completed(_)) => "completed",
        Ok(RunEnding::HandedOver(_)) => "handed_over",
        Err(RunError::Model(_)) => "model_failed",
        Err(RunError::MaxIterations(_)) => "max_iterations",
        Err(RunError::Budget(_)) => "budget",
        Err(RunError::Window(_) | RunError::ChatFull | RunError::ConversationsFull(_)) => "too_long",
        Err(RunError::Cut) => "cut",
        Err(RunError::Empty) => "empty",
        Err(RunError::Refused(_)) => "refused",
        Err(RunError::Stopped { .. }) => "stopped",
        Err(RunError::Rejected { .. }) => "rejected",
        Err(RunError::Cancelled) => "cancelled",
        Err(_) => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const USAGE: Usage = Usage { input_tokens: 7, output_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0 };

    fn result(error: Option<&Report>) -> TaskResult<'_> {
        TaskResult {
            id: "a\u{202e}",
            answer: error.is_none().then(|| "Four.\n\u{9b}31m".to_owned()),
            value: None,
            stop: "answered",
            error,
            agent: Some("ada"),
            model: Some("m"),
            turns: 1,
            usage: USAGE,
            cost_usd: None,
            duration_ms: 1.5,
            session: None,
        }
    }

    #[test]
    fn result_line_is_read_back() {
        let report = Report::new(ErrorKind::Provider, "down").hint("try again");
        for (error, is_answered) in [(None, true), (Some(&report), false)] {
            let line = result(error).line();
            assert!(line.ends_with("}\n") && line.matches('\n').count() == 1, "{line}");
            assert!(!line.trim_end().contains(crate::error::acts_on_terminal), "{line}");
            let past: PastResult = serde_json::from_str(&line).unwrap();
            assert_eq!((past.id.as_str(), past.is_answered(), past.usage), ("a\u{202e}", is_answered, USAGE));
        }
        let error = r#""error":{"kind":"provider","message":"down","causes":[],"hint":"try again"}"#;
        assert!(result(Some(&report)).line().contains(error), "{}", result(Some(&report)).line());
        let begins = r#"{"id":"a\u202e","answer":"Four."#;
        assert!(result(None).line().starts_with(begins), "{}", result(None).line());
        for line in ["{\"id\": \"a\", \"task\": \"x\"}", "{\"error\": null}", "[]", "{\"id\": \"a\", \"err"] {
            assert!(serde_json::from_str::<PastResult>(line).is_err(), "{line}");
        }
    }

    #[test]
    fn cost_without_a_price_is_unknown() {
        let tally = |tokens, pico| UsageTally {
            completions: 1,
            usage: Usage { input_tokens: tokens, ..Usage::default() },
            usd: Usd::from_pico(pico),
        };
        assert_eq!(
            [cost(&tally(7, 0)), cost(&tally(7, 1)), cost(&tally(0, 0))],
            [None, Some(Usd::from_pico(1)), Some(Usd::ZERO)]
        );
    }
}
