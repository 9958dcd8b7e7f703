//! The person's consent: to what a project's own files name, and permanently trusted tools.

use std::{path::Path, sync::Arc};

use super::{App, project::domain_of};
use crate::{
    approval::{PermissionSubject, TrustPersistence, TrustedSubjects},
    capability::Grant,
    change::text_difference,
    config::{AgentConfig, PluginSection, ToolboxUse},
    error::{ErrorKind, Fault, Report},
    limits,
    plugin::PluginKind,
    project::{ProjectLayout, ProjectPermissions},
    trust::{
        InstructionFile, ProjectTrust, RiskLevel, SeenInstructions, TrustFacts, TrustStore, TrustedTool, quoted,
        quoted_path,
    },
};

/// The facts that a project's files name, and those of them that the person has consented to.
#[derive(Debug, Clone)]
pub struct ProjectTrustStatus {
    layout: ProjectLayout,
    store: TrustStore,
    /// `None`: the person has named the config, and so has consented to it.
    config: Option<TrustFacts>,
    permissions: ProjectPermissions,
    before: ProjectTrust,
    new: TrustFacts,
    /// The files that agents are given as instructions; `None` if the project has no folder for them.
    instructions: Option<Vec<InstructionFile>>,
    /// The instruction files that the person has seen; `None` if none were ever stored.
    seen: Option<SeenInstructions>,
    /// Tools of permission lines that the person has not written.
    brought: Vec<TrustedTool>,
}

impl App {
    /// Compares the project with the consent in `store`. If the command line names the config or a plugin directory, that
    /// is the person's consent; permissions in the project are compared in any case. If nothing needs consent, only the
    /// instruction files that the person has seen are read from the store.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the store or the project's permissions cannot be used.
    pub fn standing(&self, store: &TrustStore, is_named: bool) -> Result<ProjectTrustStatus, Report> {
        let layout = ProjectLayout::new(&self.config.root);
        let permissions = match layout.dir().is_dir() {
            true => ProjectPermissions::load(&layout).map_err(|error| error.report())?,
            false => ProjectPermissions::default(),
        };
        let config = (!is_named).then(|| {
            let mut facts = self.config.facts();
            facts.extend(self.plugin_facts());
            facts
        });
        let allowed = permission_facts(&permissions);
        let before = match config.as_ref().is_none_or(TrustFacts::is_empty) && allowed.is_empty() {
            true => ProjectTrust::default(),
            false => store.of(&self.config.root).map_err(|error| error.report())?,
        };
        if !before.permissions.without(&allowed).is_empty() {
            // A line that was removed by hand must not return unnoticed. If this cannot be stored now, a later run does
            // it.
            let _ = store.change(&self.config.root, |answered| forget_revoked(&layout, answered));
        }
        let mut new = config.as_ref().map(|facts| facts.without(&before.facts)).unwrap_or_default();
        let brought = allowed.without(&before.permissions);
        let brought_lines = permissions.trusted_tools.iter().filter(|line| brought.contains(&tool_fact(line).1));
        let brought_tools = brought_lines.flat_map(|line| self.tools_of(line)).collect();
        new.extend(brought);
        let instructions = self.project.is_there().then(|| self.project.instructions().to_vec());
        let seen = match &instructions {
            Some(_) => store.seen_instructions(&self.config.root).map_err(|error| error.report())?,
            None => None,
        };
        // When a project is used for the first time, its instructions are listed along with other facts, but are no reason
        // to ask: they are text like any other file that an agent reads.
        if !new.is_empty() || seen.is_some() {
            let is_seen = |file: &&InstructionFile| seen.as_ref().is_some_and(|seen| seen.has(file));
            let unseen: Vec<_> = instructions.iter().flatten().filter(|file| !is_seen(file)).collect();
            new.extend(instruction_facts(&unseen));
        }
        let (store, brought) = (store.clone(), brought_tools);
        Ok(ProjectTrustStatus { layout, store, config, permissions, before, new, instructions, seen, brought })
    }

    /// Returns the plugins that the config brings and that agents or models use, as far as they are known without opening
    /// a component, which needs consent first.
    fn plugin_facts(&self) -> TrustFacts {
        let config = &self.config;
        let mut used: Vec<_> = config.everyone().flat_map(AgentConfig::all_plugins).map(|(_, id, _)| id).collect();
        used.extend(config.providers.iter().filter_map(|provider| provider.plugin.as_deref()));
        // If the config names no models or no agents, any plugin in its directories can be used.
        used.extend(self.catalog.iter().filter_map(|(id, plugin)| {
            // The kinds of a component without a manifest are unknown.
            let kinds = plugin.written_manifest().map(|manifest| &manifest.kinds);
            let as_model =
                config.providers.is_empty() && kinds.is_none_or(|kinds| kinds.contains(&PluginKind::Provider));
            let as_other = config.agents.is_empty() && kinds.is_none_or(|kinds| *kinds != [PluginKind::Provider]);
            (as_model || as_other).then_some(id)
        }));
        let fact = |id: &str| {
            let plugin = self.catalog.entry(id).filter(|plugin| !self.catalog.is_shipped(plugin))?;
            let place = plugin.place();
            let folder = place.canonicalize().unwrap_or_else(|_| place.to_owned());
            let is_named = [place.parent(), folder.parent()].into_iter().flatten().any(|parent| {
                let parent = parent.canonicalize().ok();
                self.named_dirs.iter().any(|named| parent.is_some() && named.canonicalize().ok() == parent)
            });
            if is_named {
                return None;
            }
            let (id, folder, digest) = (quoted(id), quoted_path(&folder), plugin.sealed()?.digest);
            // The requested capabilities are in the manifest beside the component, and decide which grants it receives.
            let wants = plugin.written_manifest().map(|manifest| {
                let lines = Grant::default().missing(&manifest.wants).into_iter().map(|wanted| quoted(&wanted.line));
                lines.collect::<Vec<_>>().join(", ")
            });
            let wants = match wants {
                None => "what is granted to it".to_owned(),
                Some(wants) if wants.is_empty() => "nothing".to_owned(),
                Some(wants) => wants,
            };
            Some((RiskLevel::Reads, format!("the plugin {id} in {folder}: {digest}, asks for {wants}")))
        };
        used.into_iter()
            .filter_map(fact)
            .chain(config.everyone().filter_map(|agent| Some((RiskLevel::Little, self.watched_over(agent)?))))
            .collect()
    }

    /// Returns one line with all plugins that watch over an agent, so that removing one is a change to ask about.
    fn watched_over(&self, agent: &AgentConfig) -> Option<String> {
        // A component without a manifest under `plugins` is not opened: it may have only tools.
        let watches = |(listed, id): &(PluginSection, &str)| {
            let as_what_it_is = matches!(listed, PluginSection::Plugins | PluginSection::Toolboxes);
            self.catalog.entry(id).is_some_and(|plugin| match plugin.written_manifest() {
                Some(manifest) => !manifest.is_tools(),
                None => !as_what_it_is,
            })
        };
        let unnamed = |id: &str| agent.effects.iter().flatten().any(|step| step.is_default && step.kind == id);
        let named = || agent.all_plugins().map(|(listed, id, _)| (listed, id)).filter(|(_, id)| !unnamed(id));
        let by: Vec<_> = named().filter(watches).map(|(_, id)| quoted(id)).collect();
        let by = if by.is_empty() { "nothing".to_owned() } else { by.join(", ") };
        (named().next().is_some())
            .then(|| format!("the {} {} is watched over by {by}", agent.word(), quoted(&agent.name)))
    }

    /// Returns the SHA-256 digest of a plugin as it is now.
    pub(super) fn digest(&self, id: &str) -> Option<String> {
        Some(self.catalog.entry(id)?.sealed()?.digest.to_string())
    }

    /// Returns the tools that a line `ORIGIN/NAME` means at present, one for each agent that has the plugin. A name
    /// without an origin, as other programs write it, means none, since it could be any tool.
    fn tools_of(&self, line: &str) -> Vec<TrustedTool> {
        let Some((origin, name)) = line.split_once('/') else { return Vec::new() };
        let Some(digest) = self.digest(origin).or_else(|| self.digest_of_tool(origin, name)) else { return Vec::new() };
        let has_server = |agent: &AgentConfig| {
            let mut servers = agent.toolboxes.iter().filter_map(ToolboxUse::server);
            origin.strip_prefix("mcp:").is_some_and(|name| servers.any(|uses| uses.name == name))
        };
        let has_it = |agent: &&AgentConfig| has_server(agent) || agent.all_plugins().any(|(_, id, _)| id == origin);
        let agents = self.config.agents.iter().filter(has_it);
        let tool = |agent: &str| TrustedTool {
            agent: agent.into(),
            origin: origin.into(),
            name: name.into(),
            digest: digest.clone(),
        };
        agents.map(|agent| tool(&agent.name)).collect()
    }
}

impl ProjectTrustStatus {
    /// Returns the facts that need consent: those of the config, unless the person has named it, and those of the
    /// permissions.
    pub fn facts(&self) -> TrustFacts {
        let mut facts = self.config.clone().unwrap_or_default();
        facts.extend(permission_facts(&self.permissions));
        // Instruction files that the person has seen are left out.
        facts.extend(self.new.clone());
        facts
    }

    /// Returns the changes of instruction files since the person last saw them, as unified diffs.
    pub fn changed_instructions(&self) -> Vec<String> {
        let Some(seen) = &self.seen else { return Vec::new() };
        let changed = self.instructions.iter().flatten().filter(|file| !seen.has(file));
        let difference = |file: &InstructionFile| {
            let text = file.text.as_deref().unwrap_or_default();
            text_difference(&file.path, seen.text_of(&file.path), text)
        };
        changed.map(difference).collect()
    }

    /// Stores the instruction files as seen if none were ever stored for this project; later ones are compared with them.
    /// If they cannot be stored, the next run tries again.
    pub fn keep_first_instructions(&self, is_used: bool) {
        if let (true, None, Some(instructions)) = (is_used, &self.seen, &self.instructions) {
            let _ = self.store.keep_instructions(self.layout.root(), instructions);
        }
    }

    /// Returns the facts that the person has not consented to.
    pub fn new_facts(&self) -> &TrustFacts {
        &self.new
    }

    /// Returns the facts that the person has consented to and that are no longer named.
    pub fn gone(&self) -> TrustFacts {
        self.config.as_ref().map(|facts| self.before.facts.without(facts)).unwrap_or_default()
    }

    /// Returns `true` if the person has consented to all facts.
    pub fn is_trusted(&self) -> bool {
        self.new.is_empty()
    }

    /// Returns `true` if anything in this project was trusted before.
    pub fn was_trusted(&self) -> bool {
        self.before != ProjectTrust::default()
    }

    /// Stores the person's consent to all facts.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it cannot be stored.
    pub fn keep(&self) -> Result<(), Report> {
        let kept = self.store.change(self.layout.root(), |answered| {
            if let Some(facts) = &self.config {
                answered.facts = facts.clone();
            }
            answered.permissions.extend(permission_facts(&self.permissions));
            self.brought.iter().for_each(|tool| insert(answered, tool));
        });
        let seen = |files: &Vec<_>| self.store.keep_instructions(self.layout.root(), files);
        kept.and_then(|()| self.instructions.as_ref().map_or(Ok(()), seen)).map_err(|error| error.report())
    }

    /// Returns the subjects that are trusted without a question once all facts are trusted. Subjects that are trusted
    /// later are stored in `.shelly/local/permissions.json` and in the store, or forgotten if there is no folder
    /// `.shelly/local`.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there are more subjects than a person can review.
    pub fn trusted(&self) -> Result<TrustedSubjects, Report> {
        let is_there = |tool: &&TrustedTool| self.permissions.trusted_tools.contains(&line(tool));
        let tools = self.before.tools.iter().filter(is_there).chain(&self.brought);
        let commands = self.permissions.trusted_commands.iter().map(|command| of_command(command));
        let trusted = TrustedSubjects::new(tools.map(subject).chain(commands)).map_err(|fault| {
            let path = self.layout.permissions();
            Report::new(ErrorKind::Usage, format!("the permissions {} cannot be used", path.display()))
                .cause(fault)
                .hint("take out some of its `trusted_tools` and `trusted_commands`: then you are asked again")
        })?;
        Ok(trusted.kept_by(Arc::new(ProjectTrustWriter { layout: self.layout.clone(), store: self.store.clone() })))
    }
}

/// Stores trusted subjects for a project.
struct ProjectTrustWriter {
    layout: ProjectLayout,
    store: TrustStore,
}

/// Adds an entry to the permissions.
type PermissionsEdit = Box<dyn Fn(&mut ProjectPermissions)>;

impl TrustPersistence for ProjectTrustWriter {
    fn keep(&self, subject: &PermissionSubject) -> Result<(), Fault> {
        // A project without this folder stores no permissions at all.
        if !self.layout.local().is_dir() {
            return Ok(());
        }
        let command = |name: String| {
            let fact = command_fact(&name);
            (Box::new(move |there: &mut ProjectPermissions| add(&mut there.trusted_commands, &name)) as _, fact, None)
        };
        let (allow, fact, tool): (PermissionsEdit, _, _) = match subject.clone() {
            PermissionSubject::Tool { agent, origin, name, digest } => {
                let tool = TrustedTool { agent, origin, name, digest };
                let line = line(&tool);
                let fact = tool_fact(&line);
                (Box::new(move |permissions| add(&mut permissions.trusted_tools, &line)), fact, Some(tool))
            }
            PermissionSubject::Folder { path } => {
                let fact = folder_fact(&path);
                (Box::new(move |permissions| add(&mut permissions.fs_directories, &path)), fact, None)
            }
            PermissionSubject::Server { url } => {
                let domain = domain_of(&url).to_owned();
                let fact = domain_fact(&domain);
                (Box::new(move |permissions| add(&mut permissions.trusted_domains, &domain)), fact, None)
            }
            PermissionSubject::Program { name } => command(name),
            PermissionSubject::GitReading => command(GIT_READING.into()),
            // The plugin alone knows the scope of a topic. It is trusted as long as this process runs.
            PermissionSubject::Topic { .. } | PermissionSubject::Change { .. } => return Ok(()),
        };
        let mut written = Ok(());
        // Both are written together: a line without consent in the store would count as somebody else's.
        let kept = self.store.change(self.layout.root(), |answered| {
            written = ProjectPermissions::change(&self.layout, &allow);
            if written.is_ok() {
                answered.permissions.add(fact.0, fact.1.clone());
                tool.iter().for_each(|tool| insert(answered, tool));
            }
        });
        written.map_err(|error| Fault::other(error.report().to_string()))?;
        kept.map_err(|error| Fault::other(error.report().to_string()))
    }
}

/// The entry among trusted commands for reading the repository with git. No program can have this name.
const GIT_READING: &str = "git (reading)";

/// Returns the subject of an entry among the trusted commands.
fn of_command(command: &str) -> PermissionSubject {
    match command {
        GIT_READING => PermissionSubject::GitReading,
        name => PermissionSubject::Program { name: name.to_owned() },
    }
}

fn command_fact(command: &str) -> (RiskLevel, String) {
    match command {
        GIT_READING => (RiskLevel::Reads, "permissions: the repository may be read with git without asking you".into()),
        name => (RiskLevel::Runs, format!("permissions: the program {} may be run", quoted(name))),
    }
}

/// Adds an entry to a list if it is missing.
fn add<T: PartialEq + Clone>(list: &mut Vec<T>, one: &T) {
    if !list.contains(one) {
        list.push(one.clone());
    }
}

/// Adds a trusted tool, and removes an earlier version of it.
fn insert(answered: &mut ProjectTrust, tool: &TrustedTool) {
    let is_same = |known: &TrustedTool| (&known.agent, line(known)) == (&tool.agent, line(tool));
    answered.tools.retain(|known| !is_same(known));
    answered.tools.push(tool.clone());
}

/// Removes consent to lines that no longer stand in the permissions.
fn forget_revoked(layout: &ProjectLayout, answered: &mut ProjectTrust) {
    let Ok(permissions) = ProjectPermissions::load(layout) else { return };
    let allowed = permission_facts(&permissions);
    answered.permissions.retain(|line| allowed.contains(line));
    answered.tools.retain(|tool| permissions.trusted_tools.contains(&line(tool)));
}

/// Returns the facts of permissions, one line each, for all of their keys.
fn permission_facts(permissions: &ProjectPermissions) -> TrustFacts {
    // Keys of another version have no effect in this one.
    let ProjectPermissions { fs_directories, trusted_commands, trusted_domains, trusted_tools, other: _ } = permissions;
    let command = |name: &String| command_fact(name);
    let folders = fs_directories.iter().map(|path| folder_fact(path));
    let commands = trusted_commands.iter().map(command);
    let domains = trusted_domains.iter().map(|name| domain_fact(name));
    folders.chain(commands).chain(domains).chain(trusted_tools.iter().map(|line| tool_fact(line))).collect()
}

/// Returns one line for each instruction file, or one for all of them if they are too many to review.
fn instruction_facts(files: &[&InstructionFile]) -> TrustFacts {
    match files {
        [first, _, ..] if files.len() > limits::FACTS_SHOWN / 2 => {
            let all: TrustFacts = files.iter().map(|file| file.fact()).collect();
            let (first, more, digest) = (quoted(&first.path), files.len() - 1, all.digest());
            [(RiskLevel::Reads, format!("the instructions {first} for agents, and {more} more: {digest}"))]
                .into_iter()
                .collect()
        }
        files => files.iter().map(|file| (RiskLevel::Reads, file.fact())).collect(),
    }
}

fn folder_fact(path: &Path) -> (RiskLevel, String) {
    (RiskLevel::Changes, format!("permissions: {} may be read and changed", quoted_path(path)))
}

fn domain_fact(name: &str) -> (RiskLevel, String) {
    (RiskLevel::Reads, format!("permissions: {} may be reached", quoted(name)))
}

fn tool_fact(line: &str) -> (RiskLevel, String) {
    (RiskLevel::Changes, format!("permissions: the tool {} may be called without asking you", quoted(line)))
}

/// Returns the line for a tool in the permissions, in the form that other programs read, too.
fn line(tool: &TrustedTool) -> String {
    format!("{}/{}", tool.origin, tool.name)
}

fn subject(tool: &TrustedTool) -> PermissionSubject {
    let TrustedTool { agent, origin, name, digest } = tool.clone();
    PermissionSubject::Tool { agent, origin, name, digest }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        approval::{ApprovalBroker, HeadlessPolicy, Verdict},
        config::Config,
        event::RunCx,
    };

    /// A project and the person's store.
    struct World {
        folder: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let world = Self { folder: tempfile::tempdir().unwrap() };
            fs::create_dir_all(world.layout().local()).unwrap();
            world
        }

        fn layout(&self) -> ProjectLayout {
            ProjectLayout::new(self.folder.path().join("project"))
        }

        fn store(&self) -> TrustStore {
            TrustStore::new(Some(self.folder.path().join("state/trust.json")))
        }

        fn allow(&self, json: &str) {
            fs::write(self.layout().permissions(), json).unwrap();
        }

        fn standing(&self, config: &str, is_named: bool) -> Result<ProjectTrustStatus, Report> {
            let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
            let config = Config::parse(config, self.layout().root().into())?;
            App::new(config, &[], None, Arc::new(|_| None), broker)?.standing(&self.store(), is_named)
        }
    }

    fn tool(name: &str) -> PermissionSubject {
        PermissionSubject::Tool { agent: "ada".into(), origin: "p".into(), name: name.into(), digest: "d".into() }
    }

    fn lines(facts: &TrustFacts) -> Vec<&str> {
        facts.lines().collect()
    }

    const ONE: &str = "providers: [{name: m, kind: openai, model: m, base_url: 'http://one.example'}]\n";

    #[test]
    fn changed_facts_need_consent_again() {
        let world = World::new();
        let first = world.standing(ONE, false).unwrap();
        assert_eq!(lines(first.new_facts()), ["the model `m` is at `http://one.example`: conversations go there"]);
        assert!(!first.is_trusted() && !first.was_trusted());
        assert!(world.standing(ONE, true).unwrap().is_trusted(), "the person has named it");
        assert!(world.standing("agents: [{name: a}]", false).unwrap().is_trusted(), "it names nothing");
        first.keep().unwrap();
        assert!(world.standing(&format!("# a comment\n{ONE}"), false).unwrap().is_trusted());
        assert!(world.standing("", false).unwrap().is_trusted(), "less is allowed");
        let other = world.standing(&ONE.replace("one", "two"), false).unwrap();
        assert!(!other.is_trusted() && other.was_trusted());
        assert_eq!(lines(&other.gone()), lines(first.new_facts()));
        other.keep().unwrap();
        assert!(!world.standing(ONE, false).unwrap().is_trusted(), "what was before is not any more");
        // Another project with the same config.
        fs::rename(world.layout().root(), world.folder.path().join("moved")).unwrap();
        fs::create_dir(world.layout().root()).unwrap();
        fs::rename(world.folder.path().join("moved"), world.layout().root().join("below")).unwrap();
        let config = Config::parse(&ONE.replace("one", "two"), world.layout().root().join("below")).unwrap();
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let app = App::new(config, &[], None, Arc::new(|_| None), broker).unwrap();
        assert!(!app.standing(&world.store(), false).unwrap().is_trusted());
    }

    #[test]
    fn changed_instructions_are_shown_even_for_named_config() {
        let world = World::new();
        let write = |name: &str, text: &str| fs::write(world.layout().root().join(name), text).unwrap();
        write("CLAUDE.md", "one\ntwo\n");
        write(".shelly/context.md", "context");
        let first = world.standing("", false).unwrap();
        assert!(first.is_trusted() && first.changed_instructions().is_empty(), "nothing to compare with");
        first.keep_first_instructions(false);
        assert!(world.standing("", false).unwrap().seen.is_none(), "they were not used");
        first.keep_first_instructions(true);
        write("CLAUDE.md", "one\nthree\n");
        write(".cursorrules", "new");
        for is_named in [false, true] {
            let changed = world.standing("", is_named).unwrap();
            let facts: Vec<_> = lines(changed.new_facts());
            let paths = facts.iter().map(|fact| fact.split(" for agents: sha256:").next().unwrap());
            assert_eq!(paths.collect::<Vec<_>>(), ["the instructions `.cursorrules`", "the instructions `CLAUDE.md`"]);
            assert_eq!(
                changed.changed_instructions(),
                [
                    "--- CLAUDE.md\n+++ CLAUDE.md\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n\\ No newline at end of file\n"
                        .replace("-two\n", "-two\n\\ No newline at end of file\n"),
                    "--- /dev/null\n+++ .cursorrules\n@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n".into(),
                ]
            );
            changed.keep_first_instructions(true);
            assert!(!world.standing("", is_named).unwrap().is_trusted(), "to use them is not to have seen them");
        }
        world.standing("", false).unwrap().keep().unwrap();
        assert!(world.standing("", false).unwrap().is_trusted() && world.standing("", true).unwrap().is_trusted());
        write("CLAUDE.md", "one\ntwo\n");
        assert!(
            world.standing("", false).unwrap().is_trusted(),
            "asked once about each content, as when branches change"
        );
        fs::remove_file(world.layout().root().join("CLAUDE.md")).unwrap();
        assert!(world.standing("", false).unwrap().is_trusted(), "less is said");
        // In a new project with other facts to ask about, the instructions are listed with those.
        world.store().forget(world.layout().root()).unwrap();
        let asked = world.standing(ONE, false).unwrap();
        assert_eq!(asked.new_facts().len(), 3, "{:?}", lines(asked.new_facts()));
    }

    #[test]
    fn too_many_instruction_files_are_one_line() {
        let files: Vec<_> = (0..=limits::FACTS_SHOWN / 2).map(|n| InstructionFile::new(format!("{n}"), "")).collect();
        let all: Vec<_> = files.iter().collect();
        assert_eq!(instruction_facts(&all[1..]).len(), limits::FACTS_SHOWN / 2);
        let one = instruction_facts(&all);
        assert!(one.len() == 1 && lines(&one)[0].contains("`0` for agents, and 100 more: sha256:"), "{one:?}");
        let changed = InstructionFile::new("0", "x");
        let other = [&all[1..], &[&changed]].concat();
        assert_ne!(one, instruction_facts(&other), "what is in each counts");
    }

    #[test]
    fn foreign_permissions_need_consent_even_for_named_config() {
        let world = World::new();
        world.allow(
            r#"{"trusted_tools": ["p/b"], "fs_directories": ["/x"], "trusted_commands": ["git\u001b"],
            "trusted_domains": ["a.example"], "later": [1]}"#,
        );
        for is_named in [false, true] {
            assert_eq!(
                lines(world.standing("", is_named).unwrap().new_facts()),
                [
                    "permissions: `/x` may be read and changed",
                    "permissions: `a.example` may be reached",
                    "permissions: the program `git\\u{1b}` may be run",
                    "permissions: the tool `p/b` may be called without asking you",
                ]
            );
        }
        world.standing(ONE, true).unwrap().keep().unwrap();
        assert!(world.standing("", true).unwrap().is_trusted());
        assert!(!world.standing(ONE, false).unwrap().is_trusted(), "nobody was asked about that");
        // A removed line is not trusted when it comes back.
        world.allow("{}");
        assert!(world.standing("", true).unwrap().is_trusted());
        world.allow(r#"{"fs_directories": ["/x"]}"#);
        world.standing("", true).unwrap();
        world.allow(r#"{"fs_directories": ["/x"], "trusted_tools": ["p/b"]}"#);
        let again = world.standing("", true).unwrap();
        assert!(again.new_facts().lines().any(|line| line.contains("`p/b`")), "{again:?}");
        // Permissions at their former path need consent, too.
        fs::rename(world.layout().permissions(), world.layout().legacy_permissions()).unwrap();
        assert!(!world.standing("", true).unwrap().is_trusted());
    }

    #[tokio::test]
    async fn trusted_tool_stays_trusted_in_next_run() {
        let world = World::new();
        let old = r#"{"trusted_tools": ["fetch", "p/b"], "trusted_commands": ["git"], "later": [1]}"#;
        fs::write(world.layout().legacy_permissions(), old).unwrap();
        let first = world.standing("", true).unwrap();
        first.keep().unwrap();
        // Two processes; the second does not know what the first one stores.
        for name in ["a", "c"] {
            let broker = ApprovalBroker::new(HeadlessPolicy::Never, first.trusted().unwrap());
            let mut inbox = broker.attend().unwrap();
            let cx = RunCx::new("ada");
            let person = async {
                let asked = inbox.next().await.unwrap();
                inbox.decide(asked.id, Verdict::Trust).unwrap();
            };
            let (ruling, ()) = tokio::join!(broker.permit(&cx, tool(name), "{}"), person);
            assert_eq!(ruling.unwrap().verdict, Verdict::Trust);
        }
        let again = world.standing("", true).unwrap();
        assert!(again.is_trusted(), "what the person wrote here is not somebody else's: {again:?}");
        let trusted = again.trusted().unwrap();
        assert!(["a", "c"].iter().all(|name| trusted.contains(&tool(name))));
        assert!(!trusted.contains(&tool("b")), "nobody has such a plugin");
        let PermissionSubject::Tool { agent, origin, name, digest } = tool("a") else { unreachable!("it is a tool") };
        let of = |agent: &str, digest: &str| PermissionSubject::Tool {
            agent: agent.into(),
            origin: origin.clone(),
            name: name.clone(),
            digest: digest.into(),
        };
        assert!(trusted.contains(&of(&agent, &digest)));
        assert!(!trusted.contains(&of("bob", &digest)) && !trusted.contains(&of(&agent, "other bytes")));
        let kept = ProjectPermissions::load(&world.layout()).unwrap();
        assert_eq!(kept.trusted_tools, ["fetch", "p/b", "p/a", "p/c"]);
        assert_eq!(kept.trusted_commands, ["git"]);
        assert!(kept.other.contains_key("later"));
        // A tool of the same name with another digest replaces the trusted one.
        ProjectTrustWriter { layout: world.layout(), store: world.store() }.keep(&of(&agent, "new bytes")).unwrap();
        let (of_old, of_new) = (of(&agent, &digest), of(&agent, "new bytes"));
        let now = world.standing("", true).unwrap().trusted().unwrap();
        assert!(now.contains(&of_new) && !now.contains(&of_old), "{origin}/{name}");
        // The line is removed from the permissions by hand.
        world.allow(r#"{"trusted_tools": ["p/c"]}"#);
        let now = world.standing("", true).unwrap().trusted().unwrap();
        assert!(now.contains(&tool("c")) && !now.contains(&of_new));
    }

    #[tokio::test]
    async fn trusted_program_stays_trusted_in_next_run() {
        let world = World::new();
        let first = world.standing("", true).unwrap();
        let (git, reading) = (PermissionSubject::Program { name: "git".into() }, PermissionSubject::GitReading);
        assert!(!first.trusted().unwrap().contains(&git));
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, first.trusted().unwrap());
        let mut inbox = broker.attend().unwrap();
        for subject in [&git, &reading, &git] {
            let cx = RunCx::new("ada");
            let person = async {
                if !broker.trusts(subject) {
                    let asked = inbox.next().await.unwrap();
                    inbox.decide(asked.id, Verdict::Trust).unwrap();
                }
            };
            tokio::join!(broker.permit(&cx, subject.clone(), ""), person).0.unwrap();
        }
        assert_eq!(ProjectPermissions::load(&world.layout()).unwrap().trusted_commands, ["git", "git (reading)"]);
        let again = world.standing("", true).unwrap();
        assert!(again.is_trusted(), "the person wrote it here: {again:?}");
        let trusted = again.trusted().unwrap();
        assert!(trusted.contains(&git) && trusted.contains(&reading));
        // The permissions of another project need consent first.
        world.allow(r#"{"trusted_commands": ["git", "rm", "git (reading)"]}"#);
        let brought = world.standing("", true).unwrap();
        assert_eq!(lines(brought.new_facts()), ["permissions: the program `rm` may be run"]);
        world.allow(r#"{"trusted_commands": ["git"]}"#);
        let less = world.standing("", true).unwrap();
        assert!(less.is_trusted() && !less.trusted().unwrap().contains(&reading));
    }

    #[test]
    fn unusable_permissions_file_is_reported_and_kept() {
        let world = World::new();
        fs::remove_dir(world.layout().local()).unwrap();
        let fresh = world.standing("", false).unwrap();
        assert!(!fresh.trusted().unwrap().contains(&tool("a")), "there is nothing");
        assert!(!world.layout().local().exists() && fs::read_dir(world.folder.path()).unwrap().count() == 1);
        fs::create_dir(world.layout().local()).unwrap();
        let kept = ProjectTrustWriter { layout: world.layout(), store: world.store() };
        for (text, says) in
            [("{", "are damaged: EOF while parsing"), (r#"{"trusted_tools": "all"}"#, "are damaged: invalid type")]
        {
            world.allow(text);
            let report = world.standing("", false).unwrap_err();
            assert!(report.to_string().contains(says) && report.hint.is_some(), "{says}: {report}");
            assert!(kept.keep(&tool("x")).is_err());
            assert_eq!(fs::read_to_string(world.layout().permissions()).unwrap(), text);
        }
        assert_eq!(world.store().of(world.layout().root()).unwrap(), ProjectTrust::default());
        // More entries than a person can review.
        let subjects = 0..=limits::TRUSTED_SUBJECTS;
        let names: Vec<_> = subjects.map(|at| format!("t{at}")).collect();
        let allowed: Vec<_> = names.iter().map(|name| format!("p/{name}")).collect();
        world.allow(&serde_json::json!({ "trusted_tools": allowed }).to_string());
        let known = |name: &String| TrustedTool {
            agent: "ada".into(),
            origin: "p".into(),
            name: name.clone(),
            digest: "d".into(),
        };
        let answer = |answered: &mut ProjectTrust| answered.tools = names.iter().map(known).collect();
        world.store().change(world.layout().root(), answer).unwrap();
        let report = world.standing("", true).unwrap().trusted().unwrap_err();
        assert!(report.to_string().contains("more than 1024 things are trusted") && report.hint.is_some(), "{report}");
    }
}
