use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    fixture::{BytesFixture, ContentFixture, FaultFixture, MessageFixture},
    record::TrialRecord,
    step_outcome::StepTrial,
};
use crate::{
    change::text_difference,
    chat::{Message, ToolResultContent},
    error::{ErrorKind, Fault, Report},
};

/// The decisions of a step so far, and the text that it changes.
#[derive(Default)]
pub(super) struct StepLog {
    decision: Map<String, Value>,
    /// The name of the text, the text before, and the text after.
    changed: Option<(&'static str, String, String)>,
    /// The queries to models, with their replies.
    pub asked: Vec<Value>,
}

impl StepLog {
    /// Adds a fact of the decision.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.decision.insert(key.to_owned(), value.into());
    }

    /// Notes how a text has changed.
    pub fn changed(&mut self, name: &'static str, before: String, after: String) {
        self.changed = Some((name, before, after));
    }

    /// Ends the step.
    pub fn end(self, fault: Option<Fault>, record: TrialRecord) -> StepTrial {
        let changed = self.changed.filter(|(_, before, after)| before != after);
        let difference = changed.map(|(name, before, after)| text_difference(name, Some(&before), &after));
        StepTrial { decision: self.decision, asked: self.asked, fault, difference, record }
    }
}

/// Returns a decision with this name and these facts.
pub(super) fn decision(name: &str, facts: Value) -> Map<String, Value> {
    let mut decision = Map::from_iter([("decision".to_owned(), name.into())]);
    if let Value::Object(facts) = facts {
        decision.extend(facts.into_iter().filter(|(_, value)| !value.is_null()));
    }
    decision
}

/// Returns a decision that fails with this fault.
pub(super) fn rejection(fault: &Fault) -> Map<String, Value> {
    decision("reject", json!({ "error": FaultFixture::from(fault) }))
}

/// Returns a time in milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a state in the form of a fixture.
pub(super) fn state_json(state: &[u8]) -> Value {
    json!(BytesFixture(state.to_vec()))
}

/// Returns messages in the form of fixtures.
pub(super) fn messages_json(messages: &[Message]) -> Value {
    json!(messages.iter().map(MessageFixture::from).collect::<Vec<_>>())
}

/// Returns the content of a result in the form of fixtures.
pub(super) fn contents_json(content: &[ToolResultContent]) -> Value {
    json!(content.iter().map(ContentFixture::from).collect::<Vec<_>>())
}

/// Returns the one of `reply` and `error` that an input has; `None` if it has neither.
pub(super) fn reply_or_error<T>(
    reply: Option<Result<T, Report>>,
    error: Option<FaultFixture>,
) -> Result<Option<Result<T, Fault>>, Report> {
    match (reply, error) {
        (Some(reply), None) => Ok(Some(Ok(reply?))),
        (None, Some(error)) => Ok(Some(Err(error.into()))),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(Report::new(ErrorKind::Usage, "`reply` and `error` are both set").hint("remove one of them"))
        }
    }
}

/// Refuses a state for `after` without anything that `after` could be called with.
pub(super) fn check_after(has_state: bool, has_outcome: bool, outcome: &str) -> Result<(), Report> {
    match has_state && !has_outcome {
        false => Ok(()),
        true => Err(Report::new(ErrorKind::Usage, format!("`state` is for `after`, which is called with {outcome}"))
            .hint(format!("add {outcome}, or remove `state` to call `before`"))),
    }
}
