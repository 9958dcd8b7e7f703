use std::path::{Path, PathBuf};

use clap::Args;

use crate::{
    app,
    cli::{
        command_words::words_of,
        config_path::{config_path, search},
        launch::{configs_begun_here, locate},
        project_sessions::cluster_sessions,
        render::{DIM, PLAIN, name, tell},
        session_name::BEGIN,
        trust,
    },
    config::Config,
    error::Report,
    session::SessionStore,
};

/// Whose sessions are meant.
#[derive(Args)]
pub struct SessionProjectArgs {
    /// The project's config file (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Trust the cluster that the config names for this command without asking; see shelly-host config trust.
    #[arg(long)]
    pub trust: bool,
}

impl SessionProjectArgs {
    /// Returns the store of a named session. `last` is the newest of this folder and of the sessions that were begun here
    /// with another folder's config.
    pub fn store_with(&self, given: &str) -> Result<SessionStore, Report> {
        if self.config.is_some() {
            return self.store();
        }
        if let Some(store) = self.cluster_store()? {
            return Ok(store);
        }
        let (store, config) = locate(given);
        if let Some(config) = config {
            tell(&format!("{DIM}using the sessions of --config {}{PLAIN}\n", name(&config.display().to_string())));
        }
        Ok(store)
    }

    /// Prints that a folder has no session, and the other folders with sessions that were begun here.
    pub fn tell_none(&self, store: &SessionStore) {
        tell(&format!("there is no session in {}; {BEGIN}\n", name(&store.folder().display().to_string())));
        if self.config.is_none() {
            for config in configs_begun_here() {
                let words = words_of(Some(&config), &[] as &[&Path], None);
                tell(&format!(
                    "sessions started here with the config of another folder: shelly-host session list {}\n",
                    name(words.trim_start())
                ));
            }
        }
    }

    /// Returns the store of the project.
    pub fn store(&self) -> Result<SessionStore, Report> {
        let local = self.local_store()?;
        Ok(self.cluster_store()?.unwrap_or(local))
    }

    /// Returns the store of the project's files.
    pub fn local_store(&self) -> Result<SessionStore, Report> {
        Ok(app::sessions(&self.root()?, trust::own_key()))
    }

    /// Returns the store of the cluster that the config names; `None` if it names none.
    pub fn cluster_store(&self) -> Result<Option<SessionStore>, Report> {
        let found = || search().used().map(|found| found.path.clone());
        cluster_sessions(self.config.clone().or_else(found).as_deref(), self.config.is_some() || self.trust)
    }

    /// Returns the folder of the project.
    pub fn root(&self) -> Result<PathBuf, Report> {
        let Some(path) = config_path(self.config.clone()) else { return Ok(".".into()) };
        match Config::root_of(&path) {
            // Sessions can be read whatever is wrong with the config.
            Ok(root) if path.is_file() => Ok(root),
            _ => Ok(Config::read(&path)?.root),
        }
    }
}
