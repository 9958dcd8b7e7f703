//! Opens projects for the conversations of an editor.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use super::typed_commands::TypedCommands;
use crate::{
    acp::{OpenedProject, ProjectRequest},
    app::{self, App},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    cli::{
        ask,
        config_path::{read_config_of, search_in},
        launch,
        project_sessions::{check_cluster_trust, sessions_of},
        render::{name, warn},
        runner_args::RunnerArgs,
        secrets, trust,
    },
    config::Config,
    error::{ErrorKind, Report, why_unreadable},
    session::{Secrets, SessionStore},
};

/// Opens projects with the options of the command line.
pub struct ProjectOpening {
    runner: RunnerArgs,
    record: bool,
    /// The credentials of each project so far, by its folder.
    hidden: Mutex<BTreeMap<PathBuf, Secrets>>,
}

impl ProjectOpening {
    pub fn new(runner: RunnerArgs, record: bool) -> Self {
        Self { runner, record, hidden: Mutex::default() }
    }

    /// Opens the project of a folder. An editor cannot consent for the person, so the project must be trusted already.
    ///
    /// # Errors
    ///
    /// A [`Report`]: there is no such folder, its config cannot be used, or it is not trusted.
    pub fn open(&self, request: ProjectRequest) -> Result<OpenedProject, Report> {
        let ProjectRequest { folder, servers } = request;
        let folder = real(&folder)?;
        let config = read_config_of(&folder, self.runner.config.as_ref(), &self.runner.plugins)?;
        let (broker, inbox) = ask::broker(self.runner.approve, true);
        let mut app = self.runner.app(config, broker.clone())?;
        let standing = app.standing(&trust::store(), self.runner.config.is_some())?;
        trust::check(&standing, self.runner.trust).map_err(|report| in_folder(report, &folder))?;
        standing.keep_first_instructions(standing.is_trusted());
        broker.trust(standing.trusted()?);
        let refused = app.config.add_servers(servers);
        self.hide(&app);
        if self.record && app.config.sessions.is_recording() {
            launch::remember_session(&app.config.root, self.runner.config.as_deref());
        }
        Ok(OpenedProject {
            inbox,
            commands: Arc::new(TypedCommands::of_project(&app.config.root)),
            launch: self.runner.named().to_options(&app.config.root),
            warnings: refused.iter().map(Report::with_hint).collect(),
            app,
        })
    }

    /// Hides the credentials of a project, and those of all before, in everything that is printed.
    fn hide(&self, app: &App) {
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        hidden.insert(app.config.root.clone(), app.secrets());
        secrets::hide(hidden.values().fold(Secrets::default(), |all, more| all.with(more)));
    }
}

/// Checks the agent and the model that the command line names before an editor says anything. A config that the command line
/// names has to have them. Otherwise each conversation has the config of its folder, so it is only a warning if that of the
/// current folder does not have the agent.
///
/// # Errors
///
/// The [`Report`] with which every conversation would fail.
pub fn check_names(runner: &RunnerArgs) -> Result<(), Report> {
    let RunnerArgs { config: named, plugins, agent, model, .. } = runner;
    let Ok(folder) = std::env::current_dir().and_then(|folder| folder.canonicalize()) else { return Ok(()) };
    let is_unnamed = agent.is_none() && model.is_none();
    if is_unnamed || (named.is_none() && search_in(&folder).used().is_none()) {
        return Ok(());
    }
    // A config that cannot be used may be mended before a conversation is opened, which says what is wrong.
    let Ok(config) = read_config_of(&folder, named.as_ref(), plugins) else { return Ok(()) };
    let known = agent.as_deref().map_or(Ok(()), |agent| config.check_runner(agent));
    if named.is_none() {
        if let Err(report) = known {
            let folder = name(&folder.display().to_string());
            warn(&format!("conversations in the folder {folder} are refused: {}", report.with_hint()));
        }
        return Ok(());
    }
    known?;
    let Some(model) = model else { return Ok(()) };
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    match runner.app(config, broker) {
        Ok(app) => app.knows_model(model).map(drop),
        Err(_) => Ok(()),
    }
}

/// Returns the sessions of the project of a folder, or of the one whose config the command line names. `is_trusted`: the
/// person has consented to all configs.
///
/// # Errors
///
/// A [`Report`] if there is no such folder, or if the person has not consented to the cluster in which the sessions are.
pub fn sessions_in(folder: &Path, named: Option<&PathBuf>, is_trusted: bool) -> Result<SessionStore, Report> {
    let folder = real(folder)?;
    match read_config_of(&folder, named, &[]) {
        Ok(config) => {
            // Nobody is at a terminal.
            check_cluster_trust(&config, is_trusted || named.is_some())?;
            sessions_of(&config, true)
        }
        // Sessions can be read whatever is wrong with the config.
        Err(_) => {
            let found = named.cloned().or_else(|| search_in(&folder).used().map(|found| found.path.clone()));
            let root = found.and_then(|config| Config::root_of(&config).ok()).unwrap_or(folder);
            Ok(app::sessions(&root, trust::own_key()))
        }
    }
}

/// Returns the path of a folder without links.
fn real(folder: &Path) -> Result<PathBuf, Report> {
    let cannot =
        || Report::new(ErrorKind::Usage, format!("cannot use the folder {}", name(&folder.display().to_string())));
    let real = folder.canonicalize().map_err(|error| cannot().cause(why_unreadable(&error)))?;
    match real.is_dir() {
        true => Ok(real),
        false => Err(cannot().cause("not a folder")),
    }
}

/// Adds the folder in which the command of the hint must be run.
fn in_folder(report: Report, folder: &Path) -> Report {
    let folder = name(&folder.display().to_string());
    match report.hint.clone() {
        Some(hint) => report.hint(format!("in the folder {folder}, {hint}")),
        None => report,
    }
}
