//! The result of a run as a line of JSON, with usage and cost.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    capability::{BudgetUsage, Usd},
    chat::Usage,
    error::{ErrorKind, Report},
    model::{Ledger, UsageTally},
};

/// The last line of a run that ended with an answer.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", rename = "result")]
pub struct AnswerLine<'a> {
    /// Always `true`.
    #[schemars(extend("const" = true))]
    pub ok: bool,
    /// The text of the answer.
    pub answer: &'a str,
    /// The answer as JSON, if the run had a schema for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<&'a Value>,
    /// The agent or team that answered.
    pub agent: &'a str,
    /// The name of its model.
    pub model: &'a str,
    /// Turns of an agent, or steps of a team.
    pub iterations: u32,
    /// The tokens of the agent itself.
    pub usage: Usage,
    /// Everything that was spent, with the agents that worked for it.
    pub spent: SpentAmounts,
    /// The usage and cost of each agent.
    pub agents: Vec<AgentAmounts>,
    /// The time from the start of the program to the answer, in milliseconds.
    pub duration_ms: f64,
    /// The session in which the run was recorded.
    pub session: Option<&'a str>,
}

/// The last line of a run without an answer.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", rename = "result")]
pub struct FailureLine<'a> {
    /// Always `false`.
    #[schemars(extend("const" = false))]
    pub ok: bool,
    /// The failure.
    pub error: ResultError<'a>,
    /// The exit code of the program.
    pub exit_code: u8,
    /// The session in which the run was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<&'a str>,
    /// Everything that was spent; absent if no model was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent: Option<SpentAmounts>,
    /// The usage and cost of each agent; absent if no model was asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentAmounts>,
}

/// The failure of a run.
#[derive(Serialize, JsonSchema)]
pub struct ResultError<'a> {
    /// The kind of failure.
    pub kind: ResultErrorKind,
    /// The failure, including the name of its subject.
    pub message: &'a str,
    /// The causes, outermost first.
    pub causes: &'a [String],
    /// A hint how to fix the failure.
    pub hint: Option<&'a str>,
}

/// The kind of a failure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultErrorKind {
    /// The run began and did not reach an answer.
    Run,
    /// The command line, the config or the task is wrong.
    Usage,
    /// A required plugin could not be loaded.
    Plugin,
    /// The model could not be reached or refused the request.
    Provider,
    /// A bug in the host.
    Bug,
    /// A signal has ended the run.
    Cancelled,
}

/// Everything that a run has spent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SpentAmounts {
    /// The tokens.
    pub usage: Usage,
    /// The cost in US dollars; `None` if no price of the model is known, or it is 0.
    pub usd: Option<f64>,
    /// Tool calls; absent for a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Replies of models; absent for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<u64>,
}

/// The usage and cost of one agent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AgentAmounts {
    /// The instance name of the agent.
    pub agent: String,
    /// Replies of models.
    pub completions: u64,
    /// The tokens.
    pub usage: Usage,
    /// The cost in US dollars; `None` if no price of the model is known, or it is 0.
    pub usd: Option<f64>,
}

impl<'a> FailureLine<'a> {
    /// Creates the line of a failure, with what was spent until then.
    pub fn new(error: ResultError<'a>, exit_code: u8, agents: &Ledger, session: Option<&'a str>) -> Self {
        let spent = agents.agents().next().is_some().then(|| SpentAmounts::of_tally(&agents.total()));
        Self { ok: false, error, exit_code, session, spent, agents: AgentAmounts::all(agents) }
    }
}

impl<'a> From<&'a Report> for ResultError<'a> {
    fn from(report: &'a Report) -> Self {
        let kind = match report.kind {
            ErrorKind::Run => ResultErrorKind::Run,
            ErrorKind::Usage => ResultErrorKind::Usage,
            ErrorKind::Plugin => ResultErrorKind::Plugin,
            ErrorKind::Provider => ResultErrorKind::Provider,
            ErrorKind::Bug => ResultErrorKind::Bug,
        };
        Self { kind, message: &report.message, causes: &report.causes, hint: report.hint.as_deref() }
    }
}

impl ResultError<'static> {
    /// The error of a run that a signal has ended.
    pub const CANCELLED: Self =
        Self { kind: ResultErrorKind::Cancelled, message: "cancelled", causes: &[], hint: None };
}

impl SpentAmounts {
    /// Returns the amounts of a run that ended with an answer.
    pub fn of_budget(spent: &BudgetUsage) -> Self {
        let (usage, usd) = (spent.usage, known_cost(spent.usd, &spent.usage));
        Self { usage, usd, tool_calls: Some(spent.tool_calls), completions: None }
    }

    fn of_tally(tally: &UsageTally) -> Self {
        let (usage, usd) = (tally.usage, known_cost(tally.usd, &tally.usage));
        Self { usage, usd, tool_calls: None, completions: Some(tally.completions) }
    }
}

impl AgentAmounts {
    /// Returns the amounts of each agent.
    pub fn all(agents: &Ledger) -> Vec<Self> {
        let one = |(agent, tally): (&Arc<str>, &UsageTally)| {
            let (completions, usage) = (tally.completions, tally.usage);
            Self { agent: agent.to_string(), completions, usage, usd: known_cost(tally.usd, &usage) }
        };
        agents.agents().map(one).collect()
    }
}

/// Returns a cost in dollars. If tokens were used at no cost the price is unknown.
fn known_cost(usd: Usd, usage: &Usage) -> Option<f64> {
    (usd != Usd::ZERO || usage.total() == 0).then(|| json!(usd).as_f64().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_line_has_costs_as_far_as_they_are_known() {
        let report = Report::new(ErrorKind::Provider, "no answer").cause("refused");
        let mut agents = Ledger::new();
        let line = |agents: &Ledger| json!(FailureLine::new((&report).into(), 4, agents, Some("s")));
        let error = json!({"kind": "provider", "message": "no answer", "causes": ["refused"], "hint": null});
        let bare = json!({"event": "result", "ok": false, "error": error, "exit_code": 4, "session": "s"});
        assert_eq!(line(&agents), bare);
        let usage = Usage { input_tokens: 7, ..Usage::default() };
        agents.record(&"ada".into(), usage, Usd::from_pico(250_000_000_000));
        agents.record(&"bob".into(), usage, Usd::ZERO);
        let line = line(&agents);
        assert_eq!((&line["spent"]["usd"], &line["spent"]["completions"]), (&json!(0.25), &json!(2)), "{line}");
        assert_eq!((&line["agents"][0]["usd"], &line["agents"][1]["usd"]), (&json!(0.25), &Value::Null), "{line}");
        let cancelled = json!(FailureLine::new(ResultError::CANCELLED, 130, &Ledger::new(), None));
        assert_eq!((&cancelled["error"]["kind"], cancelled.get("session")), (&json!("cancelled"), None));
    }
}
