//! Finds a session by its name.

use super::{
    render::path_name,
    session_projects::{SessionProjects, project_in_words},
};
use crate::{
    config,
    error::{ErrorKind, Report},
    limits,
    session::{SessionError, SessionStore},
};

/// Hint on how to begin a session.
pub const BEGIN: &str = "start a session with `shelly-host run`";

/// Returns the full name of a session from its name, the beginning of its name, or `last` for the newest.
pub fn named(store: &SessionStore, given: &str) -> Result<String, Report> {
    if given == "last" {
        let some = store.list(limits::NAMES_SHOWN).map_err(|error| error.report())?;
        let newest = some.into_iter().find(|session| session.content.is_ok());
        let none = || {
            let place = format!("{} has no readable session", store.folder().display());
            Report::new(ErrorKind::Usage, "there is no session").cause(place).hint(BEGIN)
        };
        return newest.map(|newest| newest.id).ok_or_else(none);
    }
    store.resolve(given).map_err(|error| {
        let report = error.report();
        let report = match error {
            SessionError::NotFound { .. } => {
                let report = report.cause(format!("searched in {}", path_name(store.folder())));
                if let Some(project) = SessionProjects::of_person().with_session(given, store) {
                    let project = project_in_words(&project);
                    return report
                        .hint(format!("that session belongs to the project {project}; run the command there"));
                }
                report
            }
            SessionError::BadName { .. } => {
                return report.hint("name the session first, then the task: shelly-host session resume last \"…\"");
            }
            _ => return report,
        };
        let known = store.list(limits::NAMES_SHOWN).unwrap_or_default();
        let known: Vec<_> = known.iter().map(|session| &*session.id).collect();
        match config::nearest(given, &known) {
            Some(near) => report.hint(format!("did you mean `{near}`?")),
            None if known.is_empty() => report.hint(format!("there is no session; {BEGIN}")),
            None => report,
        }
    })
}
