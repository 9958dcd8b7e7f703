//! Asks a person for a capability that a tool of a plugin turns out to lack during a call: a folder to read, or a server.
//! The ceilings of the agent always apply, and folders that hold keys are never offered.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{sync::Mutex as AsyncMutex, time::timeout};

use crate::{
    approval::{ApprovalBroker, PermissionDecision, PermissionSubject, Verdict},
    capability::{FileAccess, Grant, HttpGrant, Power, PromptableCapability},
    chat::ToolCall,
    error::{Fault, legible, seconds, why_unreadable},
    event::{AnsweredBy, Event},
    files, limits,
    plugin::{FolderMount, Plugin, PluginKind, PluginTool},
    tool::{Tool, ToolCx, ToolNeed, ToolOutput, WrappedTool},
};

/// The means to ask for missing grants for one agent's tools, and the folders of the machine that matter for that.
#[derive(Clone)]
pub struct EscalationContext {
    /// Receives the questions.
    pub broker: ApprovalBroker,
    /// The name of the agent in the config.
    pub agent: Arc<str>,
    /// The project's folder.
    pub root: PathBuf,
    /// The person's home folder, if it is known.
    pub home: Option<PathBuf>,
    /// Called with each folder that a person approves permanently.
    pub on_folder_trusted: Arc<dyn Fn(&Path) + Send + Sync>,
    /// The grants that this agent received at run time, through any of its plugins.
    pub opened: Arc<RuntimeGrants>,
}

/// Grants that a person has given to an agent at run time. All runs that are built from one blueprint share them.
#[derive(Default)]
pub struct RuntimeGrants {
    grants: Mutex<RuntimeGrantSet>,
    /// Held while a person is asked, so that there is one question at a time; others that wait then find the answer.
    asking: AsyncMutex<()>,
}

#[derive(Default)]
struct RuntimeGrantSet {
    grant: Grant,
    mounts: Vec<FolderMount>,
    /// The number of grants.
    count: usize,
}

impl RuntimeGrants {
    fn grants(&self) -> MutexGuard<'_, RuntimeGrantSet> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A plugin of an agent with its run-time grants.
pub struct GrantPrompter {
    plugin: Arc<Plugin>,
    context: EscalationContext,
    /// The number of run-time grants, and the plugin with those grants.
    wide: Mutex<(usize, Arc<Plugin>)>,
}

/// A tool of a plugin that reports what it lacks: a person is asked, and the call is repeated.
struct EscalatingTool {
    prompter: Arc<GrantPrompter>,
    tool: Arc<dyn Tool>,
}

/// A capability to ask for.
struct EscalationRequest {
    grant: Grant,
    subject: PermissionSubject,
    /// The folder, under the path by which the plugin names it.
    mount: Option<FolderMount>,
}

impl GrantPrompter {
    /// Returns the tools of a plugin, wrapped to ask for what they lack. Tools of kind `functions` cannot report a lack
    /// and are not wrapped.
    pub fn tools(plugin: &Arc<Plugin>, context: EscalationContext) -> impl Iterator<Item = Arc<dyn Tool>> {
        let wide = Mutex::new((0, Arc::clone(plugin)));
        let prompter = Arc::new(Self { plugin: Arc::clone(plugin), context, wide });
        let says_so = !plugin.package().manifest.kinds.contains(&PluginKind::Functions);
        PluginTool::all(plugin).map(move |tool| match says_so {
            true => Arc::new(EscalatingTool { prompter: Arc::clone(&prompter), tool }) as Arc<dyn Tool>,
            false => tool,
        })
    }

    /// Returns the plugin with all grants that its agent has by now.
    fn plugin(&self) -> Result<Arc<Plugin>, Fault> {
        let (count, grant, mounts) = {
            let grants = self.context.opened.grants();
            (grants.count, grants.grant.clone(), grants.mounts.clone())
        };
        let mut wide = self.wide.lock().unwrap_or_else(PoisonError::into_inner);
        if wide.0 != count {
            // A folder that no longer exists is left out, so that the others can still be mounted.
            let mounts: Vec<_> = mounts.into_iter().filter(|mount| mount.path.is_dir()).collect();
            let plugin = self.plugin.with_opened(&grant, &mounts).map_err(|error| Fault::other(error.to_string()))?;
            *wide = (count, plugin);
        }
        Ok(Arc::clone(&wide.1))
    }

    /// Asks for what a call with `used` lacked. Returns `false` if another grant was given in the meantime, which may
    /// suffice.
    async fn open(&self, cx: &ToolCx, tool: &str, need: &ToolNeed, used: &Arc<Plugin>) -> Result<bool, Fault> {
        let (settings, opened) = (used.settings(), &self.context.opened);
        let asked_for = match need {
            ToolNeed::Folder(_) => PromptableCapability::Files,
            ToolNeed::Server(_) => PromptableCapability::Http,
        };
        let line = need.grant_line();
        let place = &settings.place;
        if !settings.ask.contains(&asked_for) {
            let fault = format!(
                "{need} is not granted: a person can grant it in the config, with {}",
                settings.granted_by(&line)
            );
            self.told(cx, line, false, place).await;
            return Err(Fault::Denied { message: fault });
        }
        let wanted = self.wanted(need).await?;
        let line = Grant::default().lacking(&wanted.grant).into_iter().map(|missing| missing.line).collect::<String>();
        let refuse = async |why: String, rule: &str| {
            self.told(cx, line.clone(), false, rule).await;
            Err(Fault::Denied { message: why })
        };
        if !used.package().manifest.wants.grant().covers(&wanted.grant) {
            return refuse(
                format!("{need} is not granted: the tool's plugin does not ask for it in its plugin.toml"),
                "plugin.toml",
            )
            .await;
        }
        if let Some(rule) = settings.ceiling.keeps_shut(&wanted.grant) {
            let why = format!("{need} is not granted: {rule} in the config does not include it");
            return refuse(why, &rule).await;
        }
        let _asking = opened.asking.lock().await;
        let now = self.plugin()?;
        // Another call's question was answered in the meantime.
        if !Arc::ptr_eq(&now, used) {
            return Ok(false);
        }
        if now.grant().covers(&wanted.grant) {
            // The plugin has the folder under another path.
            return match &wanted.mount {
                Some(mount) if !now.settings().mounts.contains(mount) => self.add(wanted).map(|()| true),
                _ => Err(Fault::other(format!(
                    "{need} is already granted; private networks, and methods other than GET and HEAD, can be granted only in \
                     the config"
                ))),
            };
        }
        if opened.grants().count >= limits::OPENED {
            let message =
                format!("the limit of {} folders and servers granted during a run is reached", limits::OPENED);
            return Err(Fault::TooLarge { message });
        }
        if let PermissionSubject::Folder { path } = &wanted.subject
            && let Some(why) = self.never(path)
        {
            let hint = settings.granted_by(&line);
            let why =
                format!("{need} cannot be granted during a run, because {why}; a person can grant it with {hint}");
            return refuse(why, "never").await;
        }
        let ruling =
            self.context.broker.permit(&cx.run, wanted.subject.clone(), &self.detail(tool, need, &wanted)).await?;
        let rule = match (ruling.by, ruling.verdict) {
            (AnsweredBy::Person, Verdict::Trust) => "a person, from now on",
            (AnsweredBy::Person, _) => "a person",
            (AnsweredBy::Trust, _) => "trusted before",
            (AnsweredBy::Policy, _) => "no person to ask",
        };
        if ruling.verdict == Verdict::No {
            return refuse(declined(need, ruling), rule).await;
        }
        self.told(cx, line, true, rule).await;
        if let (PermissionSubject::Folder { path }, Verdict::Trust) = (&wanted.subject, ruling.verdict) {
            (self.context.on_folder_trusted)(path);
        }
        self.add(wanted).map(|()| true)
    }

    fn add(&self, wanted: EscalationRequest) -> Result<(), Fault> {
        let mut grants = self.context.opened.grants();
        if grants.count >= limits::OPENED {
            let message =
                format!("the limit of {} folders and servers granted during a run is reached", limits::OPENED);
            return Err(Fault::TooLarge { message });
        }
        grants.grant = grants.grant.join(&wanted.grant);
        grants.mounts.extend(wanted.mount);
        grants.count += 1;
        Ok(())
    }

    /// Emits the decision as an event.
    async fn told(&self, cx: &ToolCx, capability: String, allowed: bool, rule: &str) {
        let (agent, plugin) = (Arc::clone(&cx.run.agent), self.plugin.id().into());
        cx.run.events.emit(Event::CapabilityDecided { agent, plugin, capability, allowed, rule: rule.into() }).await;
    }

    /// Resolves a need: a folder by its real path, or a server of the public Internet.
    async fn wanted(&self, need: &ToolNeed) -> Result<EscalationRequest, Fault> {
        match need {
            ToolNeed::Server(url) => {
                let (http, url) = HttpGrant::public_server(url).ok_or_else(|| Fault::Denied {
                    message: format!(
                        "{need} cannot be granted during a run, because it is not on the public Internet; a person can grant it \
                         in the config, with {}",
                        self.plugin.settings().granted_by(&need.grant_line())
                    ),
                })?;
                Ok(EscalationRequest {
                    grant: Grant { http, ..Grant::default() },
                    subject: PermissionSubject::Server { url },
                    mount: None,
                })
            }
            ToolNeed::Folder(name) => {
                let named = PathBuf::from(name);
                let found = tokio::task::spawn_blocking(move || folder(&named)).await;
                let found = found.unwrap_or_else(|panicked| Err(io::Error::other(panicked)));
                let (name, path) = found.map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => Fault::NotFound { message: format!("{need} does not exist") },
                    _ => Fault::invalid(format!("{need} cannot be granted: {}", why_unreadable(&error))),
                })?;
                let files = [(path.clone(), FileAccess::Read)].into_iter().collect();
                let grant = Grant { files, ..Grant::default() };
                Ok(EscalationRequest {
                    grant,
                    subject: PermissionSubject::Folder { path: path.clone() },
                    mount: Some(FolderMount { path, name }),
                })
            }
        }
    }

    /// Returns the reason why this folder is never offered to a person; `None` if it may be.
    fn never(&self, path: &Path) -> Option<&'static str> {
        let EscalationContext { root, home, .. } = &self.context;
        let home = home.as_ref().and_then(|home| home.canonicalize().ok());
        let own = home.as_ref().map(|home| home.join(OWN));
        let local = files::resolved(root).join(".shelly/local");
        let is_key_folder = |part: Component<'_>| KEY_FOLDERS.iter().any(|name| part.as_os_str() == *name);
        if path.parent().is_none() {
            Some("it is the root of the file system")
        } else if SYSTEM.iter().any(|system| path.starts_with(system)) {
            Some("it is a system folder for processes and devices")
        } else if path.starts_with(local) {
            Some("it holds permissions and sessions")
        } else if path.components().any(is_key_folder) || KEY_FOLDERS.iter().any(|name| path.join(name).is_dir()) {
            Some("it holds keys")
        } else if own.is_some_and(|own| own.starts_with(path) || path.starts_with(&own)) {
            Some("it holds the person's keys and consents")
        } else {
            None
        }
    }

    /// Returns the text of the question. The full name comes first, since it may be long.
    fn detail(&self, tool: &str, need: &ToolNeed, wanted: &EscalationRequest) -> String {
        let EscalationContext { agent, root, .. } = &self.context;
        let plugin = self.plugin.id();
        let mut lines = vec![match &wanted.subject {
            // No part of a name may stand on a line of its own, where it would look like text of the host.
            PermissionSubject::Folder { path } => legible(&path.to_string_lossy()),
            PermissionSubject::Server { url } => url.clone(),
            other => other.to_string(),
        }];
        if let (ToolNeed::Folder(_), Some(FolderMount { path, name })) = (need, &wanted.mount)
            && Path::new(name) != path
        {
            lines.push(format!("(requested as {}, which leads to this folder)", legible(name)));
        }
        lines.push(format!("`{tool}` of `{plugin}` needs it for a call."));
        if let PermissionSubject::Folder { path } = &wanted.subject {
            let resolved = files::resolved(root);
            if resolved.starts_with(path) && resolved != *path {
                lines.push(
                    "The folder contains the whole project, including the permissions that you gave there.".into(),
                );
            }
            if self.plugin.grant().powers.contains(&Power::ProposeFiles) {
                lines.push("The plugin can then also propose changes of files in the folder; `changes` in the config says which of them need your consent.".into());
            }
        }
        lines.push(format!(
            "Yes: for the agent `{agent}`, until the program ends. Trust: for every agent of this project that may ask for \
             such grants, now and later."
        ));
        lines.join("\n")
    }
}

fn declined(need: &ToolNeed, ruling: PermissionDecision) -> String {
    match ruling.by {
        AnsweredBy::Person => format!(
            "the person did not grant {need}: do not try to achieve the same in another way; continue without it, or explain \
             why you need it"
        ),
        AnsweredBy::Policy | AnsweredBy::Trust => format!(
            "{need} needs a person's consent, and no person can be asked: continue without it, or report what you could not do"
        ),
    }
}

/// Returns the folder at an absolute path, or the one that contains the file there: the path as it was named, and its real
/// path.
fn folder(named: &Path) -> io::Result<(String, PathBuf)> {
    let wrong = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    if !named.is_absolute() || named.components().any(|part| part == Component::ParentDir) {
        return wrong("not an absolute path without `..`");
    }
    let (mut named, mut path) = (named, named.canonicalize()?);
    if !path.is_dir() {
        named = named.parent().unwrap_or(named);
        path = named.canonicalize()?;
    }
    if !fs::metadata(&path)?.is_dir() {
        return wrong("not a folder");
    }
    // Permissions are stored as text.
    match (named.to_str(), path.to_str()) {
        (Some(named), Some(_)) => Ok((named.to_owned(), path)),
        _ => wrong("the name is not UTF-8"),
    }
}

/// Names of folders in which programs keep keys.
const KEY_FOLDERS: [&str; 7] = [".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store"];

/// Below the person's home: the keys and consents of this program. The folders above it are refused as well.
const OWN: &str = ".local/state/shelly-host";

/// Folders that hold no files of a person.
const SYSTEM: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

#[async_trait]
impl WrappedTool for EscalatingTool {
    fn inner(&self) -> &dyn Tool {
        &*self.tool
    }

    /// Sums the tool's own limit for each attempt and [`limits::QUESTION_TIME`] for each question between them.
    fn time_limit(&self) -> Duration {
        (limits::QUESTION_TIME + self.tool.time_limit()) * (limits::NEEDS_PER_CALL as u32 + 1)
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let limit = self.tool.time_limit();
        let mut lacked = 0;
        loop {
            let plugin = self.prompter.plugin()?;
            let tool = PluginTool::new(&plugin, self.spec());
            // The time that a person takes does not count for the tool.
            let outcome = timeout(limit, tool.call(cx, call)).await;
            let outcome = outcome
                .map_err(|_| Fault::Timeout { message: format!("the call took longer than {}", seconds(limit)) })?;
            match outcome? {
                ToolOutput::Needs(_) if lacked == limits::NEEDS_PER_CALL => {
                    let message = format!(
                        "the call needs more than {lacked} folders or servers that are not granted: request fewer at once"
                    );
                    return Err(Fault::Other { message });
                }
                // A grant that another call received does not count. The loop still ends, because the number of grants is
                // bounded.
                ToolOutput::Needs(need) => {
                    lacked += usize::from(self.prompter.open(cx, &self.spec().name, &need, &plugin).await?);
                }
                outcome => return Ok(outcome),
            }
        }
    }
}
