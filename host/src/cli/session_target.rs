//! The session in which a run is recorded, by its name on the command line.

use super::{launch::LaunchFlags, project_sessions::sessions_of, session_name::named};
use crate::{
    agent::{RunAnswer, RunEnding, journal::JournalState},
    app::Recording,
    capability::BudgetBreakdown,
    chat::Usage,
    config::Config,
    error::{ErrorKind, Report},
    model::Ledger,
    session::{JournalLineContent, SessionError, SessionHeader, SessionStore},
};

/// The session in which a run is recorded.
pub enum SessionTarget {
    Nowhere,
    /// In a new session, which may follow another one.
    New {
        after: Option<String>,
    },
    /// In the session of this name, which is created if it does not exist.
    Named(String),
    There {
        id: String,
        up_to_damage: bool,
    },
}

/// A session without work left, and its last answer.
pub struct CompletedSession {
    pub header: SessionHeader,
    pub agents: Ledger,
    pub answer: RunAnswer,
}

impl SessionTarget {
    /// Returns the recording for the app, and the agent of an existing session. `is_trusted`: the person has named the
    /// config, or has consented to it.
    pub fn recording(
        &self,
        config: &Config,
        (named_here, is_trusted): (&LaunchFlags, bool),
        task: Option<&str>,
    ) -> Result<(Recording, Option<String>), Report> {
        // A new session needs no look at the others, which may be in a cluster that the person is not asked about yet.
        let store = || sessions_of(config, is_trusted);
        let title = task.unwrap_or_default().to_owned();
        let options = named_here.to_options(&config.root);
        let new = |id, follows| Ok((Recording::New { id, title, follows, options }, None));
        let (id, up_to_damage) = match self {
            Self::Nowhere => return Ok((Recording::Off, None)),
            Self::New { after: None } if !config.sessions.is_recording() => return Ok((Recording::Off, None)),
            Self::New { after } => return new(None, after.as_deref().map(|id| named(&store()?, id)).transpose()?),
            Self::Named(name) if name == "last" => {
                return Err(Report::new(
                    ErrorKind::Usage,
                    "`last` cannot be the name of a session; it stands for the newest session",
                )
                .hint("choose another name, or resume the newest session: `shelly-host session resume last`"));
            }
            Self::Named(name) => match store()?.resolve(name) {
                Ok(id) if id == *name => (id, false),
                Err(SessionError::NotFound { .. }) => return new(Some(name.clone()), None),
                Ok(id) => {
                    return Err(Report::new(
                        ErrorKind::Usage,
                        format!("`{name}` is only the beginning of the name of session `{id}`"),
                    )
                    .hint("write the full name to continue that session, or choose another name"));
                }
                Err(error) => return Err(error.report()),
            },
            Self::There { id, up_to_damage } => (named(&store()?, id)?, *up_to_damage),
        };
        let agent = store()?.read(&id).map_err(|error| error.report())?.header().agent.clone();
        Ok((Recording::Existing { id, up_to_damage, is_trusted: false }, Some(agent)))
    }

    /// Returns the session if no work is left in it, so that it need not be opened for writing. A session that cannot be
    /// read is reported where it is opened. `is_trusted`: the person has named the config, or has consented to it.
    pub fn over(&self, config: &Config, is_trusted: bool) -> Result<Option<CompletedSession>, Report> {
        let Self::There { id, .. } = self else { return Ok(None) };
        let store = sessions_of(config, is_trusted)?;
        let id = named(&store, id)?;
        let Ok((header, past)) = read(&store, &id) else { return Ok(None) };
        let Some(ended) = past.ended() else {
            if past.is_unfinished() {
                return Ok(None);
            }
            return Err(Report::new(ErrorKind::Usage, format!("the session `{id}` has no run to resume"))
                .hint(format!("give it a task: shelly-host session resume {id} \"…\"")));
        };
        let Some(message) = ended.message().cloned() else { return Ok(None) };
        let (usage, account) = (Usage::default(), BudgetBreakdown::default());
        let answer = RunAnswer { message, ending: RunEnding::Answered, iterations: 0, usage, account };
        Ok(Some(CompletedSession { header, agents: past.ledger().clone(), answer }))
    }
}

/// Reads a session and the state that its records add up to.
///
/// # Errors
///
/// The reason for which it cannot be read.
pub fn read(store: &SessionStore, id: &str) -> Result<(SessionHeader, JournalState), String> {
    let journal = store.read(id).map_err(|error| error.to_string())?;
    let header = journal.header().clone();
    let mut records = Vec::new();
    for line in journal {
        let line = line.map_err(|error| error.to_string())?;
        if let JournalLineContent::Record(record) = line.what {
            records.push((line.run, record));
        }
    }
    Ok((header, JournalState::of(records).map_err(|error| error.to_string())?))
}

/// Returns a remark for a person who undoes file changes of a session with boards; `None` if the session has none, or cannot
/// be read. Boards in a cluster are newer than any journal, so nothing takes their changes back.
pub fn boards_that_stay(store: &SessionStore, id: &str) -> Option<&'static str> {
    let (_, state) = read(store, id).ok()?;
    let has_boards = !state.tasks().is_empty() || !state.blackboards().is_empty();
    has_boards.then_some("only files are undone: the task board and the blackboards of the session stay as they are")
}
