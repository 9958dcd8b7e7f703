//! Sessions: recording the runs of an agent, and resuming them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{App, BoardSharing, RunResources, cluster_sessions::cluster_journals, project_folder::ProjectFolder};
use crate::{
    agent::{
        AgentGroup,
        journal::{JournalRecord, JournalState, Recorder},
    },
    change::{self, ChangeApplier, ChangeHistory},
    chat::Chat,
    cluster::ClusterJournals,
    config::{self, AgentConfig, Config, RunnerConfig},
    digest::Sha256Digest,
    error::{ErrorKind, Report},
    event::{Event, EventSink},
    files, limits,
    model::ModelInfo,
    net::{self, ProxyUrl, Secret},
    project::ProjectLayout,
    provider,
    session::{
        self, DiskStorage, LaunchOptions, NewSession, OpenedSession, Secrets, SessionError, SessionOpenOptions,
        SessionPart, SessionPartKind, SessionStorage, SessionStore,
    },
    trust::UserKey,
};

/// The session in which a run is recorded, if any.
#[derive(Debug, Clone, Default)]
pub enum Recording {
    /// The run is not recorded.
    #[default]
    Off,
    /// A new session.
    New {
        /// Its name; `None`: the host chooses one.
        id: Option<String>,
        /// Its title.
        title: String,
        /// The session whose tasks and answers the agent is told of.
        follows: Option<String>,
        /// The options of the command line.
        options: LaunchOptions,
    },
    /// An existing session.
    Existing {
        /// Its name, or the beginning of it.
        id: String,
        /// Uses a damaged session up to the damage; otherwise damage is an error.
        up_to_damage: bool,
        /// `true` if the person has consented to resume it although [somebody else](SessionStore::is_own) may have made it.
        /// Its pending tool calls are then made.
        is_trusted: bool,
    },
}

/// A session in which runs are recorded.
pub struct RunSession {
    /// Its journal.
    pub journal: Arc<session::Session>,
    /// The person's conversation.
    pub chat: Chat,
    /// `true` if a run was interrupted; [`Runner::resume`](crate::agent::Runner::resume) continues it.
    pub is_unfinished: bool,
    /// `true` if the last run ended without an answer.
    pub has_failed: bool,
    /// Changes of its agents, plugins and model since it was last used.
    pub changed: Vec<String>,
    /// Warnings from opening it.
    pub warnings: Vec<String>,
    /// A summary, for the agent, of the session that it follows.
    pub summary: Option<String>,
}

impl RunSession {
    /// Records all events beside the journal, and in it decisions and the values that plugins are given: the code that emits
    /// them does not know the session.
    pub fn listen(&self, events: &EventSink) {
        let journal = Arc::clone(&self.journal);
        journal.begin_events();
        events.record(Arc::new(move |event| {
            journal.record_event(event);
            let record = match &event.event {
                Event::QuestionAnswered { agent, question, outcome, by, .. } => JournalRecord::Decided {
                    agent: agent.clone(),
                    question: question.clone(),
                    outcome: outcome.name().to_owned(),
                    by: *by,
                },
                Event::PluginCall { agent, plugin, function, given, .. } if !given.is_empty() => JournalRecord::Given {
                    agent: agent.clone(),
                    plugin: plugin.clone(),
                    function: function.name().to_owned(),
                    given: given.clone(),
                },
                _ => return,
            };
            journal.write(0, &record);
        }));
    }
}

impl App {
    /// Returns the credentials that are known by now. None of them is recorded, printed or sent to a client.
    pub fn secrets(&self) -> Secrets {
        let variables = provider::key_variables();
        let found = variables.filter_map(|name| Some((name.to_owned(), (self.environment)(name)?)));
        // A credential that cannot be read is reported where it is needed.
        let configured = self.config.providers.iter().flat_map(|provider| {
            let named = |key: String, value: Option<&str>| {
                let value = provider.expand(&key, value, &*self.environment).ok()??;
                Some((format!("providers.{}.{key}", provider.name), value))
            };
            // A header without a variable is usually no secret, and may be a common word.
            let headers = provider.headers.iter().filter(|(_, value)| value.contains("${"));
            let headers = headers.filter_map(|(name, value)| named(format!("headers.{name}"), Some(value)));
            let proxy = named("proxy".into(), provider.proxy.as_deref());
            let proxy = proxy.and_then(|(name, proxy)| Some((name, ProxyUrl::parse(&proxy).ok()?.secrets())));
            let query = named("base_url".into(), provider.base_url.as_deref());
            let query = query.and_then(|(name, url)| {
                let url = net::endpoint(&url, &[]).ok()?;
                Some((name, url.query_pairs().flat_map(|(_, value)| Secret::new(value).parts()).collect()))
            });
            let headers = headers.map(|(name, value)| (name, Secret::new(value).parts()));
            let parts = headers.chain(proxy).chain(query);
            let parts = parts
                .flat_map(|(name, parts)| parts.into_iter().map(move |part| (name.clone(), part.expose().to_owned())));
            named("api_key".into(), provider.api_key.as_deref()).into_iter().chain(parts).collect::<Vec<_>>()
        });
        let read = self.keys.kept().map(|(place, key)| (place, key.expose().to_owned()));
        let held = self.secrets_of_credentials().into_iter().chain(self.secrets_of_servers());
        let held = held.chain(self.secrets_of_telemetry()).chain(self.secrets_of_triggers());
        let held = held.chain(self.logins.iter().flat_map(|logins| logins.known_secrets()));
        let held = held.map(|(name, key)| (name, key.expose().to_owned()));
        Secrets::new(found.chain(configured).chain(read).chain(held))
    }

    /// Returns the session store of this project.
    pub fn sessions(&self) -> SessionStore {
        let config::SessionsConfig { max_bytes, max_total_bytes, .. } = self.config.sessions;
        let or = |bytes: u64, default| if bytes == 0 { default } else { bytes };
        let options = session::SessionStoreOptions {
            root: Some(self.config.root.clone()),
            sessions_bytes: or(max_total_bytes, limits::SESSIONS_BYTES),
            session_bytes: or(max_bytes, limits::SESSION_BYTES),
            secrets: self.secrets(),
            own: self.own.clone(),
            measured: self.measured_sessions.clone(),
            ..session::SessionStoreOptions::default()
        };
        store(&self.config.root, self.cluster.clone(), options)
    }

    /// Attaches a session to an agent group, and restores what was recorded before.
    pub(crate) fn record(
        &self,
        recording: Recording,
        (entrant, model): (&AgentConfig, &ModelInfo),
        agent_group: AgentGroup,
        made: &[RunnerConfig<'_>],
        shared: &RunResources,
    ) -> Result<(AgentGroup, Option<RunSession>), Report> {
        let parts = || self.parts(model, made);
        let names: Vec<_> = made.iter().map(|who| who.own().name.as_str()).collect();
        let (agent_group, session) = match recording {
            Recording::Off if self.board_sharing.as_ref().is_some_and(|of| of.parent.is_some()) => {
                let what = "a run that shares the boards of another session must be recorded";
                return Err(Report::new(ErrorKind::Usage, what).hint("give the run a session"));
            }
            Recording::Off => return Ok((agent_group, None)),
            Recording::New { id, title, follows, options } => {
                let (agent, model) = (entrant.name.clone(), model.model.clone());
                self.begin(
                    NewSession { id, agent, model, title, follows, parts: parts(), options },
                    &names,
                    agent_group,
                    shared,
                )?
            }
            Recording::Existing { id, up_to_damage, is_trusted } => {
                let opening = SessionOpenOptions { up_to_damage, parts: parts(), must_be_own: !is_trusted };
                self.go_on(&id, opening, &names, agent_group, shared)?
            }
        };
        if self.cluster.is_some() {
            make_folder(&self.config.root, session.journal.folder())?;
        }
        if let Some(recorded) = &self.recorded_session {
            let _ = recorded.set(session.journal.id().to_owned());
        }
        shared.share(&agent_group);
        shared.stores.of_session(session.journal.id(), session.journal.folder().to_owned());
        if let Some(BoardSharing { parent }) = &self.board_sharing {
            // The boards of a session go away with it; those of none would stay for ever.
            let parent = parent.as_deref().filter(|parent| self.sessions().contains(parent));
            shared.share_boards(session.journal.id(), parent)?;
        }
        shared.changes.of_session(under_way(&self.sessions()), session.journal.folder());
        Ok((agent_group, Some(session)))
    }

    /// Creates a new session.
    fn begin(
        &self,
        new: NewSession,
        made: &[&str],
        agent_group: AgentGroup,
        shared: &RunResources,
    ) -> Result<(AgentGroup, RunSession), Report> {
        ProjectLayout::new(&self.config.root).make_local().map_err(|error| or_write_nothing(error.report()))?;
        let (store, parts) = (self.sessions(), new.parts.clone());
        let report = |error: SessionError| error.report();
        let follows = new.follows.map(|id| store.resolve(&id)).transpose().map_err(report)?;
        let summary = follows.as_ref().map(|id| store.recall(id)).transpose().map_err(report)?;
        let journal = match store.create(NewSession { follows, ..new }) {
            // Another process is about to create it, or died then: it has the lease, and there is nothing to open.
            Err(ref error @ SessionError::Exists { ref id, in_use: true }) if !store.contains(id) => {
                return Err(error.report());
            }
            // Another process has created it in the meantime.
            Err(SessionError::Exists { id, .. }) => {
                let opening = SessionOpenOptions { up_to_damage: false, parts, must_be_own: true };
                return self.go_on(&id, opening, made, agent_group, shared);
            }
            journal => Arc::new(journal.map_err(|error| or_write_nothing(error.report()))?),
        };
        let agent_group = agent_group.with_recorder(journal.clone());
        let not_marked = journal.not_marked().map(|why| {
            format!("the session could not be marked as yours, so you are asked before it is resumed: {why}")
        });
        let session = RunSession {
            journal,
            chat: Chat::recorded(),
            is_unfinished: false,
            has_failed: false,
            changed: Vec::new(),
            warnings: not_marked.into_iter().collect(),
            summary,
        };
        Ok((agent_group, session))
    }

    /// Opens an existing session.
    fn go_on(
        &self,
        id: &str,
        opening: SessionOpenOptions,
        made: &[&str],
        agent_group: AgentGroup,
        shared: &RunResources,
    ) -> Result<(AgentGroup, RunSession), Report> {
        let (store, parts) = (self.sessions(), opening.parts.clone());
        let opened = store.open(id, opening).map_err(|error| error.report())?;
        let OpenedSession { session: journal, records, parts: before, mut warnings } = opened;
        let unfit = |cause: String| {
            Report::new(ErrorKind::Run, format!("the session `{}` cannot be resumed", journal.id()))
                .cause(cause)
                .hint("copy the part before the problem with `shelly-host session fork --at STEP`, and resume the copy")
        };
        let past = JournalState::of(records).map_err(|error| unfit(error.to_string()))?;
        let chat = past.chat().map_err(|error| unfit(error.to_string()))?;
        warnings.extend(shared.restore(&past).map_err(|error| unfit(error.to_string()))?);
        if let Some(gone) = past.at_work().find(|agent| !made.contains(&&***agent)) {
            let what = format!(
                "agent `{gone}` was working when the session was interrupted, but is not in the config any more"
            );
            return Err(unfit(what).hint("add the agent to the config again; its work would be lost otherwise"));
        }
        let (is_unfinished, has_failed) = (past.is_unfinished(), past.has_failed());
        let journal = Arc::new(journal);
        let agent_group = agent_group.resuming(journal.clone(), past, &chat);
        let changed = changes(&before, &parts);
        Ok((agent_group, RunSession { journal, chat, is_unfinished, has_failed, changed, warnings, summary: None }))
    }

    /// Returns the digests of the parts that agents are built from, to detect changes.
    fn parts(&self, model: &ModelInfo, made: &[RunnerConfig<'_>]) -> Vec<SessionPart> {
        let part = |kind, name: &str, content: &[u8]| SessionPart {
            kind,
            name: name.into(),
            digest: Sha256Digest::of(content),
        };
        let agents = made.iter().map(|who| match who {
            RunnerConfig::Agent(agent) => part(SessionPartKind::Agent, &agent.name, format!("{agent:?}").as_bytes()),
            RunnerConfig::Team(team) => part(SessionPartKind::Team, &team.own.name, format!("{team:?}").as_bytes()),
        });
        let used = made.iter().flat_map(|who| who.own().all_plugins()).map(|(_, id, _)| id);
        let provider = self.config.providers.iter().filter_map(|provider| provider.plugin.as_deref());
        let mut plugins: Vec<_> = used.chain(provider).collect();
        plugins.sort_unstable();
        plugins.dedup();
        let plugin = |id: &&str| {
            let package = self.catalog.get(id)?.ok()?;
            Some(SessionPart { kind: SessionPartKind::Plugin, name: id.to_string(), digest: package.digest })
        };
        let model = part(SessionPartKind::Model, &model.model, model.model.as_bytes());
        agents.chain(plugins.iter().filter_map(plugin)).chain([model]).collect()
    }
}

impl App {
    /// Returns the applier of file changes that tools propose. It protects the files that this app depends on.
    pub(crate) fn changes(&self) -> ChangeApplier {
        let layout = ProjectLayout::new(files::resolved(&self.config.root.join(".")));
        // The places where a config or a plugin may be, whether or not they exist.
        let configs = [layout.config(), layout.root().join("shelly.yaml"), layout.local()];
        let user = &self.config.user;
        let configs_named = self.config.file.iter().chain(&user.file);
        let named = configs_named.chain(&self.plugin_dirs).chain(&user.plugin_dirs).map(|path| files::resolved(path));
        let told = self.project.instructions().iter().map(|file| files::resolved(&layout.root().join(&file.path)));
        let (config, store) = (self.config.clone(), self.trust.clone());
        // A file that a person saw in full in a question need not be shown again. If nothing was stored for this project
        // yet, the next run stores its present files.
        let keep_seen = move |files: &[PathBuf]| {
            let is_kept = store.seen_instructions(&config.root).is_ok_and(|seen| seen.is_some());
            let Ok(project) = (if is_kept { ProjectFolder::read(&config) } else { return }) else { return };
            let is_seen = |path: &str| files.contains(&files::resolved(&config.root.join(path)));
            let seen: Vec<_> = project.instructions().iter().filter(|file| is_seen(&file.path)).cloned().collect();
            let _ = store.keep_instructions(&config.root, &seen);
        };
        let built = self.built_projects.iter().map(|folder| files::resolved(folder));
        let changes = ChangeApplier::new(named.chain(configs), told, self.own.clone()).with_built(built);
        changes.on_seen(keep_seen).with_editor(self.editor.clone())
    }

    /// Rolls back file changes that a crashed process of this project left incomplete, and returns messages about them.
    pub(crate) fn recover_changes(&self) -> Vec<String> {
        recovered(&self.sessions(), &self.own)
    }
}

/// Returns the file changes of a session, which the person with this key can undo, and messages about interrupted changes
/// that were rolled back.
pub fn changed(store: &SessionStore, session: &str, own: UserKey) -> (ChangeHistory, Vec<String>) {
    let told = recovered(store, &own);
    (ChangeHistory::new(under_way(store), &store.folder().join(session), own), told)
}

fn recovered(store: &SessionStore, own: &UserKey) -> Vec<String> {
    change::recover(&under_way(store), own, |session| ChangeApplier::folder_in(&store.folder().join(session)))
}

/// Returns the folder of the records of unfinished changes, beside the sessions.
fn under_way(store: &SessionStore) -> PathBuf {
    store.folder().with_file_name("changes")
}

/// Returns the session store of the project in this folder, for reading, by the person with this key.
pub fn sessions(root: &Path, own: UserKey) -> SessionStore {
    store(root, None, of_person(root, own))
}

/// Returns the session store of the project with this config, for reading, by the person with this key. The person has
/// consented to the cluster that the config may name.
pub fn sessions_of(config: &Config, own: UserKey) -> SessionStore {
    store(&config.root, cluster_journals(config), of_person(&config.root, own))
}

fn of_person(root: &Path, own: UserKey) -> session::SessionStoreOptions {
    session::SessionStoreOptions { root: Some(root.to_owned()), own, ..session::SessionStoreOptions::default() }
}

fn store(root: &Path, cluster: Option<ClusterJournals>, options: session::SessionStoreOptions) -> SessionStore {
    let layout = ProjectLayout::new(root);
    match cluster {
        Some(journals) => {
            // Sessions of two namespaces may have one name.
            let folder = layout.sessions().with_file_name(format!("cluster-{}", journals.namespace()));
            SessionStore::with_journals(Arc::new(journals), folder, options)
        }
        None => SessionStore::new(Arc::new(DiskStorage), layout.sessions(), options),
    }
}

/// Creates the folder of what belongs to a session of a cluster and stays on this machine.
fn make_folder(root: &Path, folder: &Path) -> Result<(), Report> {
    ProjectLayout::new(root).make_local().map_err(|error| error.report())?;
    for folder in folder.parent().into_iter().chain([folder]) {
        DiskStorage.create_folder(folder).map_err(|error| {
            let what = format!("cannot make the folder {}", folder.display());
            Report::new(ErrorKind::Run, what).cause(error).hint("check the permissions of the path")
        })?;
    }
    Ok(())
}

/// Adds a hint on running without a session.
fn or_write_nothing(report: Report) -> Report {
    let hint = report.hint.clone().map(|hint| format!("{hint}; or "));
    report.hint(format!("{}run without a session with --no-session", hint.unwrap_or_default()))
}

/// Describes the differences between two lists of parts.
fn changes(before: &[SessionPart], now: &[SessionPart]) -> Vec<String> {
    let named = |part: &SessionPart| format!("{} `{}`", part.kind.word(), part.name);
    let find = |parts: &[SessionPart], part: &SessionPart| {
        parts.iter().find(|there| there.kind == part.kind && there.name == part.name).map(|there| there.digest)
    };
    let gone = before.iter().filter(|part| find(now, part).is_none());
    let gone = gone.map(|part| format!("{} was removed", named(part)));
    let other = now.iter().filter_map(|part| match find(before, part) {
        None => Some(format!("{} is new", named(part))),
        Some(digest) if digest != part.digest => Some(format!("{} has changed", named(part))),
        Some(_) => None,
    });
    gone.chain(other).collect()
}
