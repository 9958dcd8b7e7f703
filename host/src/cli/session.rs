use clap::Subcommand;

use super::run::Resume;
use crate::{error::Report, session::Store};

/// See the sessions of a project, and go on with them.
#[derive(Subcommand)]
pub enum Session {
    Resume(Resume),
}

impl Session {
    pub fn execute(self) -> u8 {
        match self {
            Self::Resume(resume) => resume.execute(),
        }
    }
}

/// The session of this name, or whose name begins so; `last` is the newest.
pub fn named(store: &Store, given: &str) -> Result<String, Report> {
    let id = match given {
        "last" => store.list(1).map_err(|error| error.report())?.pop().map(|newest| newest.id),
        _ => None,
    };
    store.resolve(id.as_deref().unwrap_or(given)).map_err(|error| error.report())
}
