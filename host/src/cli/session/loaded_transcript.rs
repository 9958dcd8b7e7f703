//! Reads a session as far as possible.

use serde_json::{Value, json};

use super::times::date;
use crate::{
    cli::{render::warn, session_name::named},
    error::Report,
    session::{SessionError, SessionHeader, SessionStore, Transcript},
};

/// A session that was read.
pub struct LoadedTranscript {
    pub id: String,
    pub header: SessionHeader,
    pub transcript: Transcript,
    /// The damage at which reading stopped, if there is any.
    pub damage: Option<Report>,
}

impl LoadedTranscript {
    /// Returns the session if all of it could be read.
    pub fn whole(self) -> Result<Self, Report> {
        match self.damage {
            None => Ok(self),
            Some(damage) => Err(damage),
        }
    }
}

/// Reads a session as far as possible, and warns of what was left out.
pub fn read(store: &SessionStore, given: &str) -> Result<LoadedTranscript, Report> {
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
pub fn damaged(id: &str, error: &SessionError) -> Report {
    let report = error.report();
    match error {
        SessionError::Damaged { line, .. } if *line > 1 => {
            let before = line - 1;
            report.hint(format!("copy the part before the damage with `shelly-host session fork {id} --at {before}`"))
        }
        _ => report,
    }
}

/// Returns the facts of a session as JSON.
pub fn facts(id: &str, header: &SessionHeader) -> Value {
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
