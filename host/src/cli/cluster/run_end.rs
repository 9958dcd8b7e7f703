//! Prints the end of a run that another host has done.

use serde_json::{Value, json};

use crate::{
    capability::Usd,
    cli::render::{self, CliOutputFormat, DIM, PLAIN, indented_json, json_line, print, print_for_people, tell},
    cluster::QueuedRunEnd,
    cluster_runs::failure_report,
    error::Report,
    model::Ledger,
};

/// Prints the answer of a run, or why there is none. Returns the exit code, which is that of `run`.
pub fn print_end(id: &str, session: &str, ending: &QueuedRunEnd, output: CliOutputFormat) -> Result<u8, Report> {
    if let Some(report) = failure_report(id, ending) {
        return Ok(match output {
            CliOutputFormat::Text => render::failed_after(&report, &Ledger::new(), Some(session), output.into()),
            CliOutputFormat::Json => {
                print(&json_line(&end_json(id, session, ending)))?;
                render::failed(&report, CliOutputFormat::Text.into())
            }
        });
    }
    match (output, &ending.value) {
        (CliOutputFormat::Json, _) => print(&json_line(&end_json(id, session, ending)))?,
        (CliOutputFormat::Text, Some(value)) => print(&indented_json(value))?,
        (CliOutputFormat::Text, None) => print_for_people(ending.answer.as_deref().unwrap_or_default())?,
    }
    if let (CliOutputFormat::Text, Some(usd)) = (output, ending.cost().filter(|usd| *usd > Usd::ZERO)) {
        tell(&format!("{DIM}cost: {usd} for {} tokens{PLAIN}\n", ending.usage.total()));
    }
    Ok(0)
}

/// Returns the end of a run as JSON.
pub fn end_json(id: &str, session: &str, ending: &QueuedRunEnd) -> Value {
    let failure = failure_report(id, ending);
    json!({
        "run": id,
        "session": session,
        "ok": failure.is_none(),
        "state": ending.state,
        "answer": ending.answer,
        "value": ending.value,
        "error": failure,
        "usage": ending.usage,
        "cost_usd": ending.cost_usd,
    })
}
