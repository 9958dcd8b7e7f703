use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{TrustFacts, quoted_path};
use crate::{
    error::{ErrorKind, Report, without_number},
    files::{self, FileReadError},
    limits,
};

/// The version of the file format.
const VERSION: u32 = 1;

/// A person's trust by project, in a file among the person's own data. Clones use the same file.
#[derive(Debug, Clone)]
pub struct TrustStore {
    /// `None`: nothing is stored.
    path: Option<PathBuf>,
}

/// The trust of a person in one project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectTrust {
    /// The accepted lines of its config.
    pub facts: TrustFacts,
    /// The accepted lines of its permissions.
    pub permissions: TrustFacts,
    /// Tools that may be called without asking.
    pub tools: Vec<TrustedTool>,
    /// The approved MCP servers.
    pub servers: Vec<PinnedServer>,
}

impl ProjectTrust {
    /// Replaces the approval of the server with this name. If there is no room, the servers approved longest ago are
    /// dropped; otherwise names that are no longer in the config would pile up.
    pub fn pin(&mut self, server: PinnedServer) {
        self.servers.retain(|known| known.name != server.name);
        self.servers.push(server);
        let mut sizes: Vec<_> = self.servers.iter().map(PinnedServer::bytes).collect();
        while sizes.len() > limits::TRUST_SERVERS || sizes.iter().sum::<usize>() > limits::TRUST_SERVERS_BYTES {
            sizes.remove(0);
        }
        self.servers.drain(..self.servers.len() - sizes.len());
    }
}

/// An MCP server as the person has approved it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedServer {
    /// The server's name in the config.
    pub name: String,
    /// SHA-256 of the program that is started, or of the address.
    pub target: String,
    /// The SHA-256 digests of its tools' whole descriptions, by the server's own names.
    pub tools: BTreeMap<String, String>,
}

impl PinnedServer {
    fn bytes(&self) -> usize {
        serde_json::to_vec(self).unwrap_or_default().len()
    }
}

/// A tool as it was when the person trusted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedTool {
    /// The agent that may call it, by its name in the config.
    pub agent: String,
    /// The plugin that provides it.
    pub origin: String,
    /// The name of the tool.
    pub name: String,
    /// SHA-256 of the plugin's component.
    pub digest: String,
}

/// An error of the trust store.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum TrustError {
    /// The store has no path.
    #[error("there is no folder for the trust store")]
    NoPlace,
    /// The project's folder cannot be resolved.
    #[error("cannot resolve the project folder {}", root.display())]
    NoProject { root: PathBuf, reason: String },
    /// The file cannot be read.
    #[error("cannot read the trust store {}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// The file is damaged.
    #[error("the trust store {} is damaged", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// The file cannot be written.
    #[error("cannot write the trust store {}", path.display())]
    Unwritable { path: PathBuf, reason: String },
    /// The user key cannot be used.
    #[error("cannot use the key that authenticates your sessions, {}", path.display())]
    Key { path: PathBuf, reason: String },
    /// One project has more data than may be stored.
    #[error("this project has {bytes} bytes to trust, the maximum is {}", limits::TRUST_PROJECT_BYTES)]
    TooLarge { bytes: usize },
}

impl TrustError {
    /// Returns the report for a person, with a hint.
    pub fn report(&self) -> Report {
        let report = Report::new(ErrorKind::Usage, self.to_string());
        match self {
            Self::NoPlace => report.hint("set XDG_STATE_HOME or HOME to a folder of yours"),
            Self::NoProject { reason, .. } => report.cause(reason).hint("check that the folder exists"),
            Self::Unreadable { reason, .. } => {
                report.cause(reason).hint("make the file readable, or remove it; you are then asked again")
            }
            Self::Damaged { reason, .. } => {
                report.cause(reason).hint("remove the file; nothing is trusted then, and you are asked again")
            }
            Self::Key { reason, .. } => report
                .cause(reason)
                .hint("repair the file, or remove it; you are then asked once about each session that you resume"),
            Self::Unwritable { reason, .. } => report.cause(reason).hint("check the permissions of the folder"),
            Self::TooLarge { .. } => report.hint("name the config with --config, or use --trust once"),
        }
    }
}

/// The stored file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile {
    version: u32,
    /// The projects; the one changed last is last.
    projects: Vec<TrustedProject>,
    /// The accepted lines about plugins in the person's own folders; the one accepted last is last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    own_plugins: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustedProject {
    root: String,
    /// The digest of `facts`.
    digest: String,
    facts: Vec<String>,
    permissions: Vec<String>,
    tools: Vec<TrustedTool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    servers: Vec<PinnedServer>,
}

impl TrustStore {
    /// Returns the store in this file, which need not exist. Without a path nothing is stored and nothing is trusted.
    pub fn new(path: Option<PathBuf>) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the trust in the project in this folder.
    ///
    /// # Errors
    ///
    /// [`TrustError`]: the file cannot be read, is too large or damaged, or the folder does not exist.
    pub fn of(&self, root: &Path) -> Result<ProjectTrust, TrustError> {
        let Some(path) = &self.path else { return Ok(ProjectTrust::default()) };
        let root = key(root)?;
        let project = read(path)?.projects.into_iter().find(|project| project.root == root);
        Ok(project.map(TrustedProject::answered).unwrap_or_default())
    }

    /// Changes the trust in a project under a lock, so that two programs that do so at once do not lose each other's
    /// changes. If there is no room, the projects changed longest ago are dropped.
    ///
    /// # Errors
    ///
    /// The errors of [`TrustStore::of`]; the file cannot be written; the project has more than
    /// [`limits::TRUST_PROJECT_BYTES`] beside its servers.
    pub fn change(&self, root: &Path, change: impl FnOnce(&mut ProjectTrust)) -> Result<(), TrustError> {
        let path = self.path.as_ref().ok_or(TrustError::NoPlace)?;
        let root = key(root)?;
        let _lock = lock(path)?;
        let mut file = read(path)?;
        let at = file.projects.iter().position(|project| project.root == root);
        let mut answered = at.map(|at| file.projects.remove(at).answered()).unwrap_or_default();
        change(&mut answered);
        if answered != ProjectTrust::default() {
            // The servers have limits of their own.
            let servers = std::mem::take(&mut answered.servers);
            let project = TrustedProject::of(root, answered);
            let bytes = serde_json::to_vec(&project).unwrap_or_default().len();
            if bytes > limits::TRUST_PROJECT_BYTES {
                return Err(TrustError::TooLarge { bytes });
            }
            file.projects.push(TrustedProject { servers, ..project });
        }
        write(path, file)
    }

    /// Returns the accepted lines about plugins in the person's own folders. They hold in every project.
    ///
    /// # Errors
    ///
    /// [`TrustError`]: the file cannot be read, is too large or damaged.
    pub fn own_plugins(&self) -> Result<TrustFacts, TrustError> {
        let Some(path) = &self.path else { return Ok(TrustFacts::default()) };
        Ok(read(path)?.own_plugins.into_iter().collect())
    }

    /// Stores accepted lines about plugins in the person's own folders, for every project. If there is no room, those
    /// accepted longest ago are dropped.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::own_plugins`]; the file cannot be written.
    pub fn accept_own_plugins(&self, lines: &TrustFacts) -> Result<(), TrustError> {
        let path = self.path.as_ref().ok_or(TrustError::NoPlace)?;
        let _lock = lock(path)?;
        let mut file = read(path)?;
        file.own_plugins.retain(|line| !lines.contains(line));
        file.own_plugins.extend(lines.lines().map(str::to_owned));
        let bytes = |lines: &[String]| lines.iter().map(String::len).sum::<usize>();
        while file.own_plugins.len() > limits::TRUST_OWN_PLUGINS
            || bytes(&file.own_plugins) > limits::TRUST_OWN_PLUGINS_BYTES
        {
            file.own_plugins.remove(0);
        }
        write(path, file)
    }

    /// Deletes the trust in a project, and its seen instruction files. Returns `true` if anything was trusted.
    ///
    /// # Errors
    ///
    /// The errors of [`TrustStore::change`].
    pub fn forget(&self, root: &Path) -> Result<bool, TrustError> {
        self.forget_instructions(root)?;
        if self.of(root)? == ProjectTrust::default() {
            return Ok(false);
        }
        self.change(root, |answered| *answered = ProjectTrust::default())?;
        Ok(true)
    }
}

impl TrustedProject {
    fn of(root: String, answered: ProjectTrust) -> Self {
        let ProjectTrust { facts, permissions, tools, servers } = answered;
        let lines = |facts: &TrustFacts| facts.lines().map(str::to_owned).collect();
        Self { root, digest: facts.digest(), facts: lines(&facts), permissions: lines(&permissions), tools, servers }
    }

    fn answered(self) -> ProjectTrust {
        let Self { root: _, digest: _, facts, permissions, tools, servers } = self;
        ProjectTrust {
            facts: facts.into_iter().collect(),
            permissions: permissions.into_iter().collect(),
            tools,
            servers,
        }
    }
}

/// Returns the name of a project: its folder, with links resolved. Two projects never have the same name.
pub(super) fn key(root: &Path) -> Result<String, TrustError> {
    // An empty path stands for the current folder.
    let named = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    let found = named.canonicalize();
    let found = found.map_err(|error| {
        let reason = without_number(&error.to_string());
        TrustError::NoProject { root: root.into(), reason }
    })?;
    let quoted = quoted_path(&found);
    Ok(quoted.trim_matches('`').to_owned())
}

fn lock(path: &Path) -> Result<Option<fs::File>, TrustError> {
    let unwritable = |error: io::Error| {
        let reason = without_number(&error.to_string());
        TrustError::Unwritable { path: path.into(), reason }
    };
    files::create_private_folders(files::folder_of(path)).map_err(unwritable)?;
    files::lock_folder(files::folder_of(path)).map_err(unwritable)
}

/// Reads the file; an empty one if it does not exist.
fn read(path: &Path) -> Result<TrustFile, TrustError> {
    let text = match files::read(path, files::folder_of(path), limits::TRUST_STORE_BYTES) {
        Ok(text) => text,
        Err(FileReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(TrustFile { version: VERSION, projects: Vec::new(), own_plugins: Vec::new() });
        }
        Err(error) => return Err(TrustError::Unreadable { path: path.into(), reason: error.to_string() }),
    };
    let damaged = |reason: String| TrustError::Damaged { path: path.into(), reason };
    let file: TrustFile = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
    if file.version != VERSION {
        let reason = format!("the file has version {}, this program supports version {VERSION}", file.version);
        return Err(damaged(reason));
    }
    for project in &file.projects {
        let facts: TrustFacts = project.facts.iter().cloned().collect();
        if facts.digest() != project.digest {
            return Err(damaged(format!("the digest of {} does not match its content", project.root)));
        }
    }
    Ok(file)
}

/// Writes the file, with as many of the newest projects as there is room for.
fn write(path: &Path, mut file: TrustFile) -> Result<(), TrustError> {
    let beyond = file.projects.len().saturating_sub(limits::TRUST_PROJECTS);
    file.projects.drain(..beyond);
    let mut json = shown(&file);
    while json.len() as u64 > limits::TRUST_STORE_BYTES && !file.projects.is_empty() {
        // Drops a tenth at a time, so that few rounds are needed.
        file.projects.drain(..file.projects.len().div_ceil(10));
        json = shown(&file);
    }
    files::replace(path, json.as_bytes()).map_err(|error| {
        let reason = without_number(&error.to_string());
        TrustError::Unwritable { path: path.into(), reason }
    })
}

fn shown(file: &TrustFile) -> String {
    serde_json::to_string_pretty(file).expect("lists of text under string keys") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::RiskLevel;

    fn facts(lines: &[&str]) -> TrustFacts {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    fn store() -> (tempfile::TempDir, TrustStore, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state/shelly-host/trust.json");
        (home, TrustStore::new(Some(path.clone())), path)
    }

    #[test]
    fn stored_trust_is_read_back_for_its_project_only() {
        let (home, store, path) = store();
        let (one, two) = (home.path().join("one"), home.path().join("two"));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&two).unwrap();
        assert_eq!(store.of(&one).unwrap(), ProjectTrust::default());
        assert!(!path.exists(), "reading makes nothing");
        let tool = TrustedTool { agent: "a".into(), origin: "p".into(), name: "t".into(), digest: "sha256:00".into() };
        store
            .change(&one, |answered| {
                answered.facts = facts(&["b", "a"]);
                answered.permissions = facts(&["c"]);
                answered.tools.push(tool.clone());
            })
            .unwrap();
        let servers = vec![PinnedServer {
            name: "git".into(),
            target: "sha256:01".into(),
            tools: [("log".into(), "sha256:02".into())].into(),
        }];
        store.change(&one, |answered| servers.iter().cloned().for_each(|server| answered.pin(server))).unwrap();
        let kept = ProjectTrust { facts: facts(&["a", "b"]), permissions: facts(&["c"]), tools: vec![tool], servers };
        assert_eq!(store.of(&one.join("../one")).unwrap(), kept);
        assert_eq!(store.of(&two).unwrap(), ProjectTrust::default());
        fs::rename(&one, home.path().join("moved")).unwrap();
        assert_eq!(store.of(&home.path().join("moved")).unwrap(), ProjectTrust::default(), "another place");
        assert!(matches!(store.of(&one), Err(TrustError::NoProject { .. })));
        fs::rename(home.path().join("moved"), &one).unwrap();
        assert!(store.forget(&one).unwrap() && !store.forget(&one).unwrap());
        assert_eq!(store.of(&one).unwrap(), ProjectTrust::default());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        }
        let nowhere = TrustStore::new(None);
        assert_eq!(nowhere.of(&one).unwrap(), ProjectTrust::default());
        assert!(matches!(nowhere.change(&one, |_| {}), Err(TrustError::NoPlace)));
    }

    #[test]
    fn accepted_own_plugins_hold_without_a_project() {
        let (home, store, path) = store();
        assert_eq!(store.own_plugins().unwrap(), TrustFacts::default());
        store.accept_own_plugins(&facts(&["one", "two"])).unwrap();
        store.change(home.path(), |answered| answered.facts = facts(&["a"])).unwrap();
        store.accept_own_plugins(&facts(&["three", "one"])).unwrap();
        assert_eq!(store.own_plugins().unwrap(), facts(&["one", "two", "three"]));
        assert!(store.forget(home.path()).unwrap());
        assert_eq!(store.own_plugins().unwrap(), facts(&["one", "two", "three"]), "they are of no project");
        assert_eq!(fs::read_to_string(&path).unwrap().matches("\"one\"").count(), 1);
        let nowhere = TrustStore::new(None);
        assert_eq!(nowhere.own_plugins().unwrap(), TrustFacts::default());
        assert!(matches!(nowhere.accept_own_plugins(&facts(&["one"])), Err(TrustError::NoPlace)));
    }

    #[test]
    fn oldest_accepted_own_plugins_make_room_for_new_ones() {
        let (_home, store, _path) = store();
        let line = |at: usize| format!("{at:04}");
        store.accept_own_plugins(&(0..limits::TRUST_OWN_PLUGINS).map(line).collect()).unwrap();
        assert!(store.own_plugins().unwrap().contains("0000"));
        store.accept_own_plugins(&facts(&["new"])).unwrap();
        let kept = store.own_plugins().unwrap();
        assert_eq!(kept.len(), limits::TRUST_OWN_PLUGINS);
        assert!(kept.contains("new") && !kept.contains("0000") && kept.contains("0001"));
        let most = "x".repeat(limits::TRUST_OWN_PLUGINS_BYTES);
        store.accept_own_plugins(&facts(&[&most])).unwrap();
        assert_eq!(store.own_plugins().unwrap(), facts(&[&most]));
        store.accept_own_plugins(&facts(&["y"])).unwrap();
        assert_eq!(store.own_plugins().unwrap(), facts(&["y"]), "all of them are bounded together");
    }

    #[test]
    fn damaged_trust_file_is_reported_and_left_unchanged() {
        let (home, store, path) = store();
        store.change(home.path(), |answered| answered.facts = facts(&["a"])).unwrap();
        let good = fs::read_to_string(&path).unwrap();
        let long = " ".repeat(limits::TRUST_STORE_BYTES as usize) + &good;
        for (text, says) in [
            ("", "EOF while parsing"),
            ("{", "EOF while parsing"),
            ("[]", "invalid length"),
            (
                &good.replace("\"version\": 1", "\"version\": 2"),
                "the file has version 2, this program supports version 1",
            ),
            (&good.replace("\"a\"", "\"b\""), "does not match its content"),
            (&good.replacen("root", "toor", 1), "unknown field `toor`"),
            (&long, "larger than"),
        ] {
            fs::write(&path, text).unwrap();
            for error in [
                store.of(home.path()).unwrap_err(),
                store.change(home.path(), |_| {}).unwrap_err(),
                store.forget(home.path()).unwrap_err(),
            ] {
                let report = error.report();
                assert!(report.to_string().contains(says) && report.hint.is_some(), "{says}: {report}");
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn trust_store_size_is_bounded() {
        let (home, store, path) = store();
        let many = |most: usize| facts(&[&"x".repeat(most)]);
        let too_many = store.change(home.path(), |answered| answered.facts = many(limits::TRUST_PROJECT_BYTES));
        assert!(matches!(too_many, Err(TrustError::TooLarge { .. })));
        assert_eq!(store.of(home.path()).unwrap(), ProjectTrust::default());
        let project = |at: usize, bytes: usize| {
            let answered = ProjectTrust { facts: many(bytes), ..ProjectTrust::default() };
            TrustedProject::of(format!("/{at}"), answered)
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for (count, bytes) in [(limits::TRUST_PROJECTS + 1, 1), (limits::TRUST_PROJECTS, 20_000)] {
            let projects = (0..count).map(|at| project(at, bytes)).collect();
            write(&path, TrustFile { version: VERSION, projects, own_plugins: Vec::new() }).unwrap();
            let kept = read(&path).unwrap().projects;
            assert!(kept.len() <= limits::TRUST_PROJECTS && !kept.is_empty(), "{}", kept.len());
            assert!(kept[0].root != "/0" && kept.last().unwrap().root == format!("/{}", count - 1), "the newest stay");
        }
    }

    fn server(name: String, tools: usize) -> PinnedServer {
        let tool = |at: usize| (format!("{at:0width$}", width = limits::MCP_TOOL_NAME_BYTES), "d".repeat(64));
        PinnedServer { name, target: "sha256:01".into(), tools: (0..tools).map(tool).collect() }
    }

    #[test]
    fn large_servers_are_kept_with_all_else() {
        let (home, store, _) = store();
        let names: Vec<_> = (0..5).map(|at| format!("s{at}")).collect();
        for name in &names {
            store.change(home.path(), |answered| answered.pin(server(name.clone(), limits::MCP_TOOLS))).unwrap();
        }
        store.change(home.path(), |answered| answered.facts = facts(&["a"])).unwrap();
        let kept = store.of(home.path()).unwrap();
        assert!(serde_json::to_vec(&kept.servers).unwrap().len() > limits::TRUST_PROJECT_BYTES);
        assert_eq!(
            kept.servers.iter().map(|server| &server.name).collect::<Vec<_>>(),
            names.iter().collect::<Vec<_>>()
        );
        assert_eq!(kept.facts, facts(&["a"]));
    }

    #[test]
    fn servers_approved_longest_ago_are_forgotten() {
        for (tools, most) in [(0, limits::TRUST_SERVERS), (limits::MCP_TOOLS, 10)] {
            let mut answered = ProjectTrust::default();
            let count = limits::TRUST_SERVERS + 3;
            (0..count).for_each(|at| answered.pin(server(format!("s{at}"), tools)));
            assert_eq!(answered.servers.len(), most);
            assert_eq!(answered.servers.last().unwrap().name, format!("s{}", count - 1));
            // A server that is approved again is the newest.
            let oldest = answered.servers[0].name.clone();
            answered.pin(server(oldest.clone(), tools));
            answered.pin(server("new".into(), tools));
            assert!(answered.servers.iter().any(|server| server.name == oldest));
        }
    }

    #[test]
    fn concurrent_trust_changes_are_all_kept() {
        let (home, store, _) = store();
        std::thread::scope(|scope| {
            for at in 0..16 {
                let (store, home) = (&store, home.path());
                scope.spawn(move || {
                    store.change(home, |answered| answered.facts.add(RiskLevel::Little, at.to_string())).unwrap()
                });
            }
        });
        assert_eq!(store.of(home.path()).unwrap().facts.len(), 16);
    }
}
