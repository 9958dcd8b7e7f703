//! The subcommand `session`: resuming, reading and removing sessions.

mod export;
mod lifecycle;
mod list;
mod markdown;
mod show;
mod steps;
mod undo;

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    launch,
    plugin::CliOutputFormat,
    render::{self, DIM, PLAIN, RunOutputFormat, name, tell, warn},
    run::SessionResumeArgs,
    session_target, trust,
};
use crate::{
    app,
    config::{self, Config},
    error::{ErrorKind, Report},
    limits,
    session::{SessionError, SessionHeader, SessionStore, Transcript},
};

#[derive(Subcommand)]
pub enum SessionCommand {
    Resume(SessionResumeArgs),
    List(list::SessionListArgs),
    Show(show::SessionShowArgs),
    Search(list::SessionSearchArgs),
    Export(export::SessionExportArgs),
    Undo(undo::SessionUndoArgs),
    Fork(lifecycle::SessionForkArgs),
    Rm(lifecycle::SessionRmArgs),
    Prune(lifecycle::SessionPruneArgs),
}

impl SessionCommand {
    pub fn execute(self) -> u8 {
        let (done, output) = match self {
            Self::Resume(resume) => return resume.execute(),
            Self::List(list) => (list.execute(), list.output),
            Self::Show(show) => (show.execute(), show.output),
            Self::Search(search) => (search.execute(), search.output),
            // No format of `export` has a document for a failure.
            Self::Export(export) => (export.execute(), CliOutputFormat::Text),
            Self::Undo(undo) => (undo.execute(), CliOutputFormat::Text),
            Self::Fork(fork) => (fork.execute(), fork.output),
            Self::Rm(rm) => (rm.execute(), rm.output),
            Self::Prune(prune) => (prune.execute(), prune.output),
        };
        done.unwrap_or_else(|report| {
            render::failed(
                &report,
                if output == CliOutputFormat::Json { RunOutputFormat::Json } else { RunOutputFormat::Text },
            )
        })
    }
}

/// Whose sessions are meant.
#[derive(Args)]
struct SessionProjectArgs {
    /// The config of the project; without it .shelly/config.yaml or shelly.yaml, if there is one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl SessionProjectArgs {
    /// Returns the store of a named session. `last` is the newest of this folder and of the sessions that were begun here
    /// with another folder's config.
    fn store_with(&self, given: &str) -> Result<SessionStore, Report> {
        if self.config.is_some() {
            return self.store();
        }
        let (store, config) = launch::locate(given);
        if let Some(config) = config {
            tell(&format!("{DIM}in the sessions of --config {}{PLAIN}\n", name(&config.display().to_string())));
        }
        Ok(store)
    }

    /// Prints that a folder has no session, and the other folders with sessions that were begun here.
    fn tell_none(&self, store: &SessionStore) {
        tell(&format!("there is no session in {}; {BEGIN}\n", name(&store.folder().display().to_string())));
        if self.config.is_none() {
            for config in launch::configs_begun_here() {
                let words = session_target::words_of(Some(&config), &[] as &[&Path], None);
                tell(&format!(
                    "sessions begun here with another folder's config: shelly-host session list {}\n",
                    name(words.trim_start())
                ));
            }
        }
    }

    fn store(&self) -> Result<SessionStore, Report> {
        let sessions = |root: &Path| Ok(app::sessions(root, trust::own_key()));
        let Some(path) = super::config_path(self.config.clone()) else { return sessions(Path::new(".")) };
        match Config::root_of(&path) {
            // Sessions can be read whatever is wrong with the config.
            Ok(root) if path.is_file() => sessions(&root),
            _ => sessions(&Config::read(&path)?.root),
        }
    }
}

/// Hint on how to begin a session.
const BEGIN: &str = "`shelly-host run` begins one";

/// Returns the full name of a session from its name, the beginning of its name, or `last` for the newest.
pub fn named(store: &SessionStore, given: &str) -> Result<String, Report> {
    if given == "last" {
        let some = store.list(limits::NAMES_SHOWN).map_err(|error| error.report())?;
        let newest = some.into_iter().find(|session| session.content.is_ok());
        let none = || {
            let place = format!("none that can be read is in {}", store.folder().display());
            Report::new(ErrorKind::Usage, "there is no session").cause(place).hint(BEGIN)
        };
        return newest.map(|newest| newest.id).ok_or_else(none);
    }
    store.resolve(given).map_err(|error| {
        let report = error.report();
        let report = match error {
            SessionError::NotFound { .. } => report.cause(format!("{} was looked in", store.folder().display())),
            SessionError::BadName { .. } => {
                return report.hint("the session comes first, then the task: shelly-host session resume last \"…\"");
            }
            _ => return report,
        };
        let known = store.list(limits::NAMES_SHOWN).unwrap_or_default();
        let known: Vec<_> = known.iter().map(|session| &*session.id).collect();
        match config::nearest(given, &known) {
            Some(near) => report.hint(format!("did you mean `{near}`?")),
            None if known.is_empty() => report.hint(format!("there is none; {BEGIN}")),
            None => report,
        }
    })
}

/// A session that was read.
struct LoadedTranscript {
    id: String,
    header: SessionHeader,
    transcript: Transcript,
    /// The damage at which reading stopped, if there is any.
    damage: Option<Report>,
}

impl LoadedTranscript {
    /// Returns the session if all of it could be read.
    fn whole(self) -> Result<Self, Report> {
        match self.damage {
            None => Ok(self),
            Some(damage) => Err(damage),
        }
    }
}

/// Reads a session as far as possible, and warns of what was left out.
fn read(store: &SessionStore, given: &str) -> Result<LoadedTranscript, Report> {
    let id = named(store, given)?;
    let mut journal = store.read(&id).map_err(|error| error.report())?;
    let (mut transcript, mut damage) = (Transcript::default(), None);
    for line in journal.by_ref() {
        match line {
            Ok(line) => transcript.add(line),
            Err(error) => damage = Some(damaged(&id, &error)),
        }
    }
    journal.warnings().iter().for_each(|warning| warn(warning));
    Ok(LoadedTranscript { header: journal.header().clone(), id, transcript, damage })
}

/// Reports damage in a journal, and how to copy the part before it.
fn damaged(id: &str, error: &SessionError) -> Report {
    let report = error.report();
    match error {
        SessionError::Damaged { line, .. } if *line > 1 => {
            let before = line - 1;
            report.hint(format!("`shelly-host session fork {id} --at {before}` makes a session of what stands before"))
        }
        _ => report,
    }
}

/// Returns the facts of a session as JSON.
fn facts(id: &str, header: &SessionHeader) -> Value {
    let SessionHeader { created, host, agent, model, title, forked_from, follows, parts, options, .. } = header;
    json!({
        "id": id,
        "created": date(*created),
        "host": host,
        "agent": agent,
        "model": model,
        "title": title,
        "forked_from": forked_from,
        "follows": follows,
        "parts": parts,
        "options": { "config": options.config, "plugins": options.plugins, "model": options.model },
    })
}

/// Formats a time as RFC 3339; `None` if that is not possible.
fn date(time: SystemTime) -> Option<String> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_millis(time)).ok()?;
    Some(text)
}

/// Converts the milliseconds since 1970 in a journal to a time.
fn instant(t: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(t)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Formats a time in UTC for people, to the second.
fn when(time: SystemTime) -> String {
    let date = date(time).and_then(|date| Some(date.get(..19)?.replace('T', " ")));
    date.unwrap_or_else(|| "unknown".into())
}

/// Formats the time that has passed since `time`.
fn ago(time: SystemTime, now: SystemTime) -> String {
    let seconds = now.duration_since(time).unwrap_or_default().as_secs();
    match seconds {
        0..60 => "just now".into(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// Formats rows of cells, each column as wide as its widest cell.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_for_any_value() {
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(when(at(1_795_342_503)), "2026-11-22 10:15:03");
        assert_eq!(date(at(0)).unwrap(), "1970-01-01T00:00:00.000Z");
        assert_eq!(when(at(0) - Duration::from_secs(1)), "unknown");
        assert_eq!(when(instant(u64::MAX)), "unknown");
        for (seconds, shown) in [
            (0, "just now"),
            (59, "just now"),
            (60, "1 min ago"),
            (3_599, "59 min ago"),
            (3_600, "1 h ago"),
            (172_799, "47 h ago"),
            (172_800, "2 d ago"),
        ] {
            assert_eq!(ago(at(1_000_000), at(1_000_000 + seconds)), shown);
        }
        assert_eq!(ago(at(2), at(1)), "just now", "a clock that was set back");
    }

    #[test]
    fn table_columns_fit_their_widest_cell() {
        let row = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        assert_eq!(table(&[row("A", "B"), row("äöü", "x"), row("", "")]), "A    B\näöü  x\n");
    }
}
