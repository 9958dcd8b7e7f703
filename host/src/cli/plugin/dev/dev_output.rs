//! The output of `plugin dev`: lines for people, or one JSON value on each line.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    super::{
        build::{InstalledBuild, changes_text},
        inspect::described,
    },
    repeated_trial::TrialOutcome,
};
use crate::{
    change::text_difference,
    cli::{
        ask::coloured,
        render::{
            self, CliOutputFormat, DIM, PLAIN, RunOutputFormat, call_time, json_line, name, print, print_coloured,
            print_for_people, tell,
        },
    },
    error::{Report, count},
    limits,
};

/// The output of one watch.
pub struct DevOutput {
    format: CliOutputFormat,
    /// The text of the last result.
    last: Option<String>,
}

impl DevOutput {
    pub fn new(format: CliOutputFormat) -> Self {
        Self { format, last: None }
    }

    /// Shows which project is watched.
    pub fn show_begin(&self, folder: &Path, files: usize, is_attended: bool) -> Result<(), Report> {
        match self.format {
            CliOutputFormat::Json => {
                let folder = folder.display().to_string();
                print(&json_line(&json!({ "event": "watching", "folder": folder, "files": files })))
            }
            CliOutputFormat::Text => {
                let files = count(files as u64, "file", "files");
                let keys = if is_attended { "; Enter builds again, q and Enter ends" } else { "" };
                print(&format!("watching     {} ({files}){keys}", name(&folder.display().to_string())))
            }
        }
    }

    /// Shows which files have led to a build.
    pub fn show_changes(&self, changed: &[PathBuf]) -> Result<(), Report> {
        if self.format == CliOutputFormat::Json || changed.is_empty() {
            return Ok(());
        }
        let names = changed.iter().take(limits::NAMES_SHOWN).map(|path| name(&path.display().to_string()));
        let more = if changed.len() > limits::NAMES_SHOWN { ", …" } else { "" };
        print(&format!("\nsources      {}{more}", names.collect::<Vec<_>>().join(", ")))
    }

    /// Shows a build that was installed in `build/ID`. The first one is described in full.
    pub fn show_build(&self, built: &InstalledBuild, took: Duration, is_first: bool) -> Result<(), Report> {
        let InstalledBuild { folder, package, plugin, changes } = built;
        if self.format == CliOutputFormat::Json {
            return print(&json_line(&json!({
                "event": "built",
                "folder": folder.display().to_string(),
                "plugin": package.manifest.id,
                "digest": package.named_digest(),
                "changes": changes,
                "duration_ms": took.as_secs_f64() * 1e3,
            })));
        }
        let mut lines = vec![format!("built        {} in {}", name(&folder.display().to_string()), call_time(took))];
        if is_first {
            lines.extend(described(package, plugin));
        }
        lines.extend(changes.as_ref().map(|changes| format!("changed      {}", changes_text(changes))));
        print(&lines.join("\n"))
    }

    /// Shows why the build or the trial failed. The plugin that was built last is still there.
    pub fn show_failure(&self, report: &Report) -> Result<(), Report> {
        match self.format {
            CliOutputFormat::Json => print(&json_line(&json!({ "event": "failed", "error": report }))),
            CliOutputFormat::Text => {
                render::failed(report, RunOutputFormat::Text);
                Ok(())
            }
        }
    }

    /// Shows the outcome of a trial, and the difference to the last one.
    pub fn show_trial(&mut self, trial: TrialOutcome) -> Result<(), Report> {
        let TrialOutcome { text, failure, figures, json } = trial;
        let before = self.last.replace(text.clone());
        let is_same = before.as_ref() == Some(&text);
        let difference = before.filter(|before| *before != text);
        let difference = difference.map(|before| text_difference("result", Some(&before), &text));
        if self.format == CliOutputFormat::Json {
            return print(&json_line(&tried(json, is_same, difference.as_deref())));
        }
        if !text.is_empty() {
            print_for_people(&text)?;
        }
        if let Some(report) = &failure {
            render::failed(report, RunOutputFormat::Text);
        }
        if let Some(difference) = &difference {
            print_coloured(&coloured(difference))?;
        }
        let same = if is_same { ", the same result as before" } else { "" };
        tell(&format!("{DIM}{figures}{same}{PLAIN}\n"));
        Ok(())
    }
}

/// Returns the JSON value of a trial.
fn tried(trial: Value, is_same: bool, difference: Option<&str>) -> Value {
    let mut json = trial;
    json["event"] = json!("tried");
    json["is_same"] = json!(is_same);
    json["difference_to_last"] = json!(difference);
    json
}
