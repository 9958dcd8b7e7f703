use serde_json::{Map, Value, json};

use super::{fixture::FaultFixture, record::TrialRecord};
use crate::{
    error::{ErrorKind, Fault, Report},
    plugin::{Plugin, PluginKind},
};

/// The outcome of one step of an effect, a middleware or a coordinator.
#[derive(Debug)]
pub struct StepTrial {
    /// The decision, in the form of fixtures; of a middleware the decisions `before` and `after`. Empty if the step failed
    /// first.
    pub decision: Map<String, Value>,
    /// The queries to models that were answered, each with its reply.
    pub asked: Vec<Value>,
    /// The failure of the step.
    pub fault: Option<Fault>,
    /// The unified diff of what the step changes, for people: of the conversation, the task, the request, the reply or the
    /// result. `None` if it changes nothing.
    pub difference: Option<String>,
    /// The log and the figures.
    pub record: TrialRecord,
}

impl StepTrial {
    /// Returns the outcome as JSON: `decision`, `asked`, `difference`, `error`, and the record.
    pub fn to_json(&self) -> Value {
        let mut json = json!(self.record);
        json["decision"] = json!(self.decision);
        json["asked"] = json!(self.asked);
        json["difference"] = json!(self.difference);
        json["error"] = json!(self.fault.as_ref().map(FaultFixture::from));
        json
    }
}

/// Reports that a plugin is not of the kind that an input is for.
pub(super) fn not_of_kind(plugin: &Plugin, kind: PluginKind) -> Report {
    Report::new(ErrorKind::Usage, format!("plugin `{}` is not of kind `{kind}`", plugin.id()))
}
