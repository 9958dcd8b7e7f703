//! Copies and removes sessions.

use std::{path::Path, time::Duration};

use clap::{ArgGroup, Args};
use serde_json::json;

use super::{loaded_transcript::damaged, session_project_args::SessionProjectArgs};
use crate::{
    cli::{
        command_words::resume_arguments,
        render::{self, CliOutputFormat, RunOutputFormat, json_line, name, print, size, tell, warn},
        session_name::named,
    },
    error::Report,
    session::{PrunePolicy, PruneReport},
};

/// Copy a session up to a step, and print the copy's name: to continue from there in another way.
///
/// The original session is not changed, and may be in use.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host session fork last
  shelly-host session show --steps last && shelly-host session fork last --at 12")]
pub struct SessionForkArgs {
    #[command(flatten)]
    project: SessionProjectArgs,
    /// The last step to copy, by its number in `session show --steps` (default: all steps).
    #[arg(long, value_name = "STEP")]
    at: Option<u64>,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
    /// The session: its name, the beginning of its name, or `last` for the newest.
    #[arg(value_name = "ID")]
    id: String,
}

impl SessionForkArgs {
    pub fn execute(&self) -> Result<u8, Report> {
        let store = self.project.store_with(&self.id)?;
        let from = named(&store, &self.id)?;
        let id = store.fork(&from, self.at).map_err(|error| damaged(&from, &error))?;
        match self.output {
            CliOutputFormat::Json => print(&json_line(&json!({ "id": id, "forked_from": from, "at": self.at })))?,
            CliOutputFormat::Text => {
                print(&id)?;
                let arguments = resume_arguments(&id, self.project.config.as_deref(), &[] as &[&Path], None);
                tell(&format!("resume with: shelly-host session resume {}\n", name(&arguments)));
            }
        }
        Ok(0)
    }
}

/// Remove sessions without asking. A session that is in use is kept.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host session rm last
  shelly-host session rm 20261120 20261121-0902")]
pub struct SessionRmArgs {
    #[command(flatten)]
    project: SessionProjectArgs,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
    /// The sessions: their names, the beginnings of their names, or `last` for the newest.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

impl SessionRmArgs {
    pub fn execute(&self) -> Result<u8, Report> {
        let store = self.project.store()?;
        // All names are resolved first: a mistake in one keeps all sessions.
        let mut ids = self.ids.iter().map(|given| named(&store, given)).collect::<Result<Vec<_>, _>>()?;
        ids.sort_unstable();
        ids.dedup();
        let (mut removed, mut failed) = (Vec::new(), Vec::new());
        for id in ids {
            match store.remove(&id) {
                Ok(Some(bytes)) => removed.push((id, bytes)),
                Ok(None) => tell(&format!("{} was already removed\n", name(&id))),
                Err(error) => failed.push((id, error.report())),
            }
        }
        let freed = removed.iter().map(|(_, bytes)| bytes).sum();
        match self.output {
            CliOutputFormat::Json => {
                let failed = failures(&failed);
                print(&json_line(&json!({ "removed": rows(&removed), "freed": freed, "failed": failed })))?;
            }
            CliOutputFormat::Text if removed.is_empty() => {}
            CliOutputFormat::Text => print(&told(&removed, freed, false))?,
        }
        Ok(failed.iter().map(|(_, report)| render::failed(report, RunOutputFormat::Text)).max().unwrap_or(0))
    }
}

/// Remove sessions by age, number or size; never one that is in use.
///
/// Removes the sessions that --older-than or --max-bytes selects, except those that --keep protects. --keep alone removes
/// all other sessions. Sessions with an unfinished run are kept unless --unfinished is given.
#[derive(Args)]
#[command(group(ArgGroup::new("which").required(true).multiple(true).args(["older_than", "keep", "max_bytes"])), after_help = "\
Examples:
  shelly-host session prune --older-than 30d --dry-run
  shelly-host session prune --older-than 30d --keep 20
  shelly-host session prune --max-bytes 2GiB --unfinished")]
pub struct SessionPruneArgs {
    #[command(flatten)]
    project: SessionProjectArgs,
    /// Remove sessions that were last written longer ago than this, such as 30d or 12h.
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
    /// Keep this many of the newest sessions.
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Remove the oldest sessions until the rest takes at most this many bytes, such as 500MiB or 2GiB.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    max_bytes: Option<u64>,
    /// Also remove sessions with an unfinished run, which could be resumed.
    #[arg(long)]
    unfinished: bool,
    /// Only print what would be removed.
    #[arg(long)]
    dry_run: bool,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
}

impl SessionPruneArgs {
    pub fn execute(&self) -> Result<u8, Report> {
        let Self { older_than, keep, max_bytes, unfinished, dry_run, .. } = *self;
        let policy = PrunePolicy { keep, older_than, most_bytes: max_bytes, unfinished, dry_run };
        let pruned = self.project.store()?.prune(&policy).map_err(|error| error.report())?;
        let PruneReport { removed, freed, in_use, unfinished, failed } = &pruned;
        match self.output {
            CliOutputFormat::Json => print(&json_line(&json!({
                "removed": rows(removed),
                "freed": freed,
                "in_use": in_use,
                "unfinished": unfinished,
                "failed": failures(failed),
                "dry_run": dry_run,
            })))?,
            CliOutputFormat::Text => {
                print(&told(removed, *freed, dry_run))?;
                for (stay, why) in [(in_use, "in use"), (unfinished, "unfinished (remove them with --unfinished)")] {
                    if !stay.is_empty() {
                        let names: Vec<_> = stay.iter().map(|id| name(id)).collect();
                        warn(&format!("kept, because they are {why}: {}", names.join(", ")));
                    }
                }
            }
        }
        let mut code = 0;
        for (id, report) in failed {
            // Names that begin with a dot are remains of a crash, which the user did not ask to remove.
            if id.starts_with('.') {
                warn(&report.to_string());
            } else {
                render::failed(report, RunOutputFormat::Text);
                code = 1;
            }
        }
        Ok(code)
    }
}

fn failures(failed: &[(String, Report)]) -> Vec<serde_json::Value> {
    failed.iter().map(|(id, error)| json!({ "id": id, "error": error })).collect()
}

fn rows(removed: &[(String, u64)]) -> Vec<serde_json::Value> {
    removed.iter().map(|(id, bytes)| json!({ "id": id, "bytes": bytes })).collect()
}

/// Describes what was or would be removed, and the bytes that this frees.
fn told(removed: &[(String, u64)], freed: u64, dry_run: bool) -> String {
    let (goes, frees) = if dry_run { ("would remove", "would free") } else { ("removed", "freed") };
    let mut lines: Vec<_> =
        removed.iter().map(|(id, bytes)| format!("{goes} {} ({})", name(id), size(*bytes))).collect();
    let sessions = if removed.len() == 1 { "session" } else { "sessions" };
    lines.push(format!("{frees} {}, {} {sessions}", size(freed), removed.len()));
    lines.join("\n")
}

/// Parses an age such as 30d.
pub fn age(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "not a duration; write a number and its unit, such as 30d or 12h".into())
}

/// Parses a whole number of bytes, with or without a unit.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "k" | "kib" => Some(1 << 10),
        "m" | "mib" => Some(1 << 20),
        "g" | "gib" => Some(1 << 30),
        "kb" => Some(1_000),
        "mb" => Some(1_000_000),
        "gb" => Some(1_000_000_000),
        _ => None,
    };
    let value = factor.and_then(|factor: u64| number.parse::<u64>().ok()?.checked_mul(factor));
    value.ok_or_else(|| "not a size; write a whole number of bytes, such as 500MiB, 2GiB or 1000000".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_sizes_with_units_are_parsed() {
        for (text, value) in [
            ("0", Some(0)),
            ("1000", Some(1_000)),
            ("2GiB", Some(2 << 30)),
            ("2 gib", Some(2 << 30)),
            ("3k", Some(3_072)),
            ("3kB", Some(3_000)),
            ("5MB", Some(5_000_000)),
            ("7b", Some(7)),
            ("", None),
            ("GiB", None),
            ("-1", None),
            ("1.5GiB", None),
            ("1TB", None),
            ("99999999999GiB", None),
            ("1GiB more", None),
        ] {
            assert_eq!(bytes(text).ok(), value, "{text}");
        }
    }
}
