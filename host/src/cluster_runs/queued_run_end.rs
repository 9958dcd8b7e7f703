//! The end of a run, as it is written into its entry, and read by whoever waits for it.

use serde::Deserialize;
use serde_json::Value;

use super::recorded_progress::sum;
use crate::{
    agent::journal::RecordedRunEnd,
    capability::Usd,
    cluster::{QueuedRunEnd, RunEndState},
    error::{ErrorKind, Report, RequestObstacle, cut},
    limits,
    model::UsageTally,
    serve::hosted_runs::{HostedRunOutcome, HostedRunState, RunSnapshot},
    session::Secrets,
    task::AnswerSchema,
};

/// Returns the end of a run that this host has done; `None` if the run was interrupted. `before` is what it had spent on
/// other hosts.
pub(super) fn end_of_snapshot(snapshot: &RunSnapshot, before: &UsageTally, secrets: &Secrets) -> Option<QueuedRunEnd> {
    let state = match snapshot.state() {
        HostedRunState::Completed => RunEndState::Completed,
        HostedRunState::Failed => RunEndState::Failed,
        HostedRunState::Cancelled => RunEndState::Cancelled,
        HostedRunState::Preparing | HostedRunState::Running | HostedRunState::Interrupted => return None,
    };
    let (total, of_others) = (snapshot.agents.total(), snapshot.spent_before);
    let here = UsageTally {
        completions: total.completions.saturating_sub(of_others.completions),
        usage: snapshot.usage(),
        usd: total.usd.saturating_sub(of_others.usd),
    };
    let answer = snapshot.answer().map(|answer| answer.message.text_content());
    let error = snapshot.error().map(problem);
    let tool_calls = snapshot.answer().map_or(0, |answer| answer.account.total().tool_calls);
    let ending = ending(state, answer, snapshot.value().cloned(), error, &sum(before, &here), secrets);
    Some(QueuedRunEnd { tool_calls, ..ending })
}

/// Returns the failure of a run that could not begin if a later attempt may: another process had its session, or the server
/// that has it was away.
pub(super) fn passing_failure(outcome: Option<&HostedRunOutcome>) -> Option<&Report> {
    match outcome {
        Some(HostedRunOutcome::Failed { error, failure: None }) => {
            let passes = matches!(error.obstacle, Some(RequestObstacle::InUse | RequestObstacle::Unavailable));
            passes.then_some(error)
        }
        _ => None,
    }
}

/// Returns the end of a run that another host has done and not reported.
pub(super) fn end_of_record(
    outcome: &RecordedRunEnd,
    schema: Option<&AnswerSchema>,
    (spent, tool_calls): (&UsageTally, u64),
    secrets: &Secrets,
) -> QueuedRunEnd {
    let ending = match outcome {
        RecordedRunEnd::Failed { error, cancelled, .. } => {
            let state = if *cancelled { RunEndState::Cancelled } else { RunEndState::Failed };
            let error = (!cancelled).then(|| problem(&Report::new(ErrorKind::Run, error.clone())));
            ending(state, None, None, error, spent, secrets)
        }
        _ => {
            let answer = outcome.message().map(|message| message.text_content()).unwrap_or_default();
            let value = schema.and_then(|schema| schema.value_of(&answer).ok());
            ending(RunEndState::Completed, Some(answer), value, None, spent, secrets)
        }
    };
    QueuedRunEnd { tool_calls, ..ending }
}

/// Returns the end of a run that this host could not begin.
pub(super) fn end_of_failure(report: &Report, spent: &UsageTally, secrets: &Secrets) -> QueuedRunEnd {
    ending(RunEndState::Failed, None, None, Some(problem(report)), spent, secrets)
}

fn ending(
    state: RunEndState,
    answer: Option<String>,
    value: Option<Value>,
    error: Option<Value>,
    spent: &UsageTally,
    secrets: &Secrets,
) -> QueuedRunEnd {
    // What is too long is cut when it is written into the entry.
    let answer = answer.map(|answer| secrets.clean_text(&answer));
    let value = value.map(|value| with_texts(value, &|text| secrets.clean_text(text)));
    let short = |text: &str| cut(&secrets.clean_text(text), limits::CLUSTER_REASON_CHARS);
    let error = error.map(|error| with_texts(error, &short));
    with_spending(QueuedRunEnd { answer, value, error, ..QueuedRunEnd::new(state) }, spent)
}

/// Returns an end with this usage and cost.
pub(super) fn with_spending(ending: QueuedRunEnd, spent: &UsageTally) -> QueuedRunEnd {
    let cost_usd = (spent.usd != Usd::ZERO || spent.usage.total() == 0).then(|| dollars(spent.usd));
    QueuedRunEnd { usage: spent.usage, cost_usd, ..ending }
}

/// Returns an amount as a number of dollars.
fn dollars(usd: Usd) -> f64 {
    serde_json::to_value(usd).ok().and_then(|usd| usd.as_f64()).unwrap_or_default()
}

/// Returns the failure as it is in an entry.
fn problem(report: &Report) -> Value {
    serde_json::to_value(report).unwrap_or_default()
}

/// Replaces each text in a value by what `replaced` makes of it.
fn with_texts(value: Value, replaced: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => replaced(&text).into(),
        Value::Array(all) => all.into_iter().map(|one| with_texts(one, replaced)).collect(),
        Value::Object(all) => all.into_iter().map(|(key, value)| (key, with_texts(value, replaced))).collect(),
        other => other,
    }
}

/// Returns the failure of a run that ended without an answer, for a person; `None` for an answer. The entry may have been
/// written by anyone.
pub fn failure_report(id: &str, ending: &QueuedRunEnd) -> Option<Report> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct RecordedProblem {
        kind: String,
        message: String,
        causes: Vec<String>,
        hint: Option<String>,
        detail: String,
    }
    let what = match ending.state {
        RunEndState::Completed => return None,
        RunEndState::Failed => "failed",
        RunEndState::Cancelled => "was cancelled",
        RunEndState::Refused => "was refused: no worker accepts it",
        RunEndState::Poisoned => "was given up: too many workers died with it",
    };
    let recorded = ending.error.clone().and_then(|error| serde_json::from_value::<RecordedProblem>(error).ok());
    let recorded = recorded.unwrap_or_default();
    let kind = match recorded.kind.as_str() {
        _ if ending.state == RunEndState::Refused => ErrorKind::Usage,
        "usage" => ErrorKind::Usage,
        "plugin" => ErrorKind::Plugin,
        "provider" => ErrorKind::Provider,
        "bug" => ErrorKind::Bug,
        _ => ErrorKind::Run,
    };
    let message = [recorded.message, recorded.detail].into_iter().find(|text| !text.is_empty());
    let report = Report::new(kind, format!("the run `{id}` {what}"));
    let report = message.into_iter().chain(recorded.causes).fold(report, Report::cause);
    Some(match recorded.hint {
        Some(hint) => report.hint(hint),
        None => report,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chat::{Message, Role, Usage},
        session::SessionError,
    };

    fn answered(text: &str) -> RecordedRunEnd {
        RecordedRunEnd::Answered { message: Message::text(Role::Assistant, "ada", text) }
    }

    #[test]
    fn end_of_a_record_has_no_credentials() {
        let secrets = Secrets::new([("KEY", "sk-12345")]);
        let tally = UsageTally { completions: 1, usage: Usage { input_tokens: 7, ..Usage::default() }, usd: Usd::ZERO };
        let end = end_of_record(&answered("It is sk-12345."), None, (&tally, 3), &secrets);
        assert!(!end.answer.unwrap().contains("12345"), "a credential");
        assert_eq!((end.state, end.usage.input_tokens, end.cost_usd), (RunEndState::Completed, 7, None));
        assert_eq!(end.tool_calls, 3);
        let schema = serde_json::json!({"type": "object", "properties": {"key": {"type": "string"}}});
        let schema = AnswerSchema::new(&schema).unwrap();
        let end = end_of_record(&answered(r#"{"key": "sk-12345"}"#), Some(&schema), (&tally, 0), &secrets);
        let value = end.value.unwrap();
        assert!(value["key"].is_string() && !value.to_string().contains("12345"), "{value}");
    }

    #[test]
    fn session_that_was_in_use_is_a_passing_failure() {
        let failed = |report: Report| HostedRunOutcome::Failed { error: report, failure: None };
        let in_use = failed(SessionError::InUse { id: "s".into() }.report());
        assert!(passing_failure(Some(&in_use)).is_some());
        let away = failed(Report::new(ErrorKind::Run, "no answer").obstacle(RequestObstacle::Unavailable));
        assert!(passing_failure(Some(&away)).is_some());
        let wrong = failed(Report::new(ErrorKind::Usage, "no such agent").obstacle(RequestObstacle::Setup));
        assert!(passing_failure(Some(&wrong)).is_none());
        assert!(passing_failure(Some(&HostedRunOutcome::Cancelled)).is_none() && passing_failure(None).is_none());
    }

    #[test]
    fn failure_of_an_entry_is_told_with_its_exit_code() {
        let report = Report::new(ErrorKind::Provider, "the model did not answer").cause("timeout").hint("try later");
        let failed = end_of_failure(&report, &UsageTally::default(), &Secrets::default());
        let told = failure_report("a", &failed).unwrap();
        assert_eq!((told.kind, told.hint.as_deref()), (ErrorKind::Provider, Some("try later")));
        assert_eq!(told.to_string(), "the run `a` failed: the model did not answer: timeout");
        for (state, kind, says) in [
            (RunEndState::Refused, ErrorKind::Usage, "no worker accepts it"),
            (RunEndState::Poisoned, ErrorKind::Run, "too many workers died"),
            (RunEndState::Cancelled, ErrorKind::Run, "was cancelled"),
        ] {
            let ending = QueuedRunEnd { error: Some(serde_json::json!([1])), ..QueuedRunEnd::new(state) };
            let told = failure_report("a", &ending).unwrap();
            assert!(told.kind == kind && told.to_string().contains(says), "{told}");
        }
        assert!(failure_report("a", &QueuedRunEnd::new(RunEndState::Completed)).is_none());
    }
}
