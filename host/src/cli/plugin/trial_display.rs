//! Shows what a plugin does in a trial, and how the trial ended.

use serde_json::{Value, json};

use super::trial_args::LoadedTrial;
use crate::{
    cli::render::{
        self, CliOutputFormat, DIM, PLAIN, RED, RunOutputFormat, YELLOW, call_time, escaped, json_line, one_line,
        print, size, tell, warn,
    },
    error::{ErrorKind, Fault, Report, count},
    event::{Event, LogLevel},
    trial::{TrialFigures, TrialRecord},
};

/// Shows an event of a trial on standard error as it happens: an entry of the log, progress, or a warning.
pub(super) fn show_event(event: &Event) {
    match event {
        Event::PluginLog { level, message, .. } => {
            let level = match level {
                LogLevel::Debug => format!("{DIM}debug:{PLAIN}"),
                LogLevel::Info => "info:".to_owned(),
                LogLevel::Warn => format!("{YELLOW}warn:{PLAIN}"),
                LogLevel::Error => format!("{RED}error:{PLAIN}"),
            };
            // An entry cannot look like several.
            tell(&format!("{DIM}log{PLAIN} {level} {}\n", escaped(message).trim_end().replace('\n', "\n    ")));
        }
        Event::ToolProgress { done, total, message, .. } => {
            let of = total.map_or(String::new(), |total| format!(" of {total}"));
            let message = message.as_deref().map_or(String::new(), |message| format!(" {}", one_line(message, 200)));
            tell(&format!("{DIM}progress {done}{of}{PLAIN}{message}\n"));
        }
        Event::Warning { message } => warn(message),
        _ => {}
    }
}

/// Shows the events of a trial, unless its outcome is one JSON value.
pub(super) fn event_display(output: CliOutputFormat) -> impl FnMut(&Event) {
    move |event| {
        if output == CliOutputFormat::Text {
            show_event(event);
        }
    }
}

/// Returns the figures of a trial on one line.
pub(super) fn figures_line(figures: &TrialFigures) -> String {
    let TrialFigures { calls, duration, cpu, memory, imports, .. } = figures;
    let calls = count((*calls).into(), "call", "calls");
    let (time, cpu) = (call_time(*duration), call_time(*cpu));
    let memory = size(u64::try_from(*memory).unwrap_or(u64::MAX));
    let imports: Vec<_> = imports.iter().map(|(interface, calls)| format!("{interface} {calls}")).collect();
    let imports = if imports.is_empty() { "none".to_owned() } else { imports.join(", ") };
    format!("{calls}: {time}, processor {cpu}, memory {memory}, imports called: {imports}")
}

/// Ends a trial: prints the JSON value or the failure, and the figures. Returns the exit code.
///
/// `json` is the outcome without what all trials have. The record is a part of it.
pub(super) fn end_trial(
    output: CliOutputFormat,
    loaded: &LoadedTrial,
    what: &str,
    record: &TrialRecord,
    fault: Option<&Fault>,
    json: Value,
) -> Result<u8, Report> {
    let failure = fault.map(|fault| failure(what, record, fault));
    let code = failure.as_ref().map_or(0, |report| report.kind.exit_code());
    match output {
        CliOutputFormat::Json => {
            let mut whole = json!({ "ok": fault.is_none(), "exit_code": code, "plugin": loaded.plugin.id() });
            let all = [&loaded.warnings[..], &record.warnings].concat();
            if let (Value::Object(whole), Value::Object(own)) = (&mut whole, json) {
                whole.extend(own);
                whole.insert("warnings".into(), json!(all));
            }
            print(&json_line(&whole))?;
        }
        CliOutputFormat::Text => {
            if let Some(report) = &failure {
                render::failed(report, RunOutputFormat::Text);
            }
            tell(&format!("{DIM}{}{PLAIN}\n", figures_line(&record.figures)));
        }
    }
    Ok(code)
}

/// Reports a failure of the plugin: what it has returned as an error, or that it did not survive.
pub(super) fn failure(what: &str, record: &TrialRecord, fault: &Fault) -> Report {
    match record.figures.is_crash() {
        true => Report::new(ErrorKind::Plugin, format!("{what} did not end by itself")).cause(fault),
        false => Report::new(ErrorKind::Run, format!("{what} failed")).cause(fault),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::PluginCallOutcome;

    #[test]
    fn figures_fit_on_one_line() {
        let figures = TrialFigures {
            calls: 2,
            duration: Duration::from_micros(1_250),
            cpu: Duration::from_micros(900),
            memory: 3 << 19,
            imports: [("kv", 3), ("log", 1)].into(),
            ..TrialFigures::default()
        };
        let line = "2 calls: 1.2 ms, processor 900 µs, memory 1.5 MiB, imports called: kv 3, log 1";
        assert_eq!(figures_line(&figures), line);
        let none = "0 calls: 0 µs, processor 0 µs, memory 0 B, imports called: none";
        assert_eq!(figures_line(&TrialFigures::default()), none);
    }

    #[test]
    fn failure_of_a_dead_plugin_has_the_code_of_plugins() {
        for (outcome, code, says) in [
            (None, 1, "the tool `t` failed: why"),
            (Some(PluginCallOutcome::Ok), 1, "the tool `t` failed: why"),
            (Some(PluginCallOutcome::Error), 1, "the tool `t` failed: why"),
            (Some(PluginCallOutcome::Trap), 3, "the tool `t` did not end by itself: why"),
            (Some(PluginCallOutcome::Limit), 3, "the tool `t` did not end by itself: why"),
            (Some(PluginCallOutcome::Timeout), 3, "the tool `t` did not end by itself: why"),
        ] {
            let figures = TrialFigures { outcome, ..TrialFigures::default() };
            let record = TrialRecord { figures, ..TrialRecord::default() };
            let report = failure("the tool `t`", &record, &Fault::other("why"));
            assert_eq!((report.kind.exit_code(), report.to_string().as_str()), (code, says), "{outcome:?}");
        }
    }
}
