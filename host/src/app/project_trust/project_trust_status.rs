use std::sync::Arc;

use super::{
    permission_facts::{line, of_command, permission_facts, subject, tool_fact},
    plugin_facts::PluginFacts,
    project_trust_writer::{ProjectTrustWriter, insert},
};
use crate::{
    approval::TrustedSubjects,
    assemble::App,
    change::text_difference,
    error::{ErrorKind, Report},
    limits,
    project::{ProjectLayout, ProjectPermissions},
    trust::{InstructionFile, ProjectTrust, RiskLevel, SeenInstructions, TrustFacts, TrustStore, TrustedTool, quoted},
};

/// The facts that need consent before a project is used, and those of them that the person has consented to: what the
/// project's files name, and plugins in the person's own folders.
#[derive(Debug, Clone)]
pub struct ProjectTrustStatus {
    layout: ProjectLayout,
    store: TrustStore,
    /// `None`: the person has named the config, and so has consented to it.
    config: Option<TrustFacts>,
    permissions: ProjectPermissions,
    /// The plugins in the person's own folders. Consent to them holds in every project.
    own_plugins: TrustFacts,
    before: ProjectTrust,
    new: TrustFacts,
    /// `true` if a config was read.
    has_config: bool,
    /// The files that agents are given as instructions; `None` if the project has neither a folder for them
    /// nor any of them.
    instructions: Option<Vec<InstructionFile>>,
    /// The instruction files that the person has seen; `None` if none were ever stored.
    pub(super) seen: Option<SeenInstructions>,
    /// Tools of permission lines that the person has not written.
    brought: Vec<TrustedTool>,
}

impl App {
    /// Returns the facts that the config of the project names, without those about the bytes of plugins.
    pub fn config_facts(&self) -> TrustFacts {
        let mut facts = self.config.facts();
        facts.extend(self.watch_facts());
        facts
    }

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
        let PluginFacts { of_project, own: own_plugins } =
            if is_named { PluginFacts::default() } else { self.plugin_facts() };
        let config = (!is_named).then(|| {
            let mut facts = self.config_facts();
            facts.extend(of_project);
            facts
        });
        let allowed = permission_facts(&permissions);
        let is_nothing_asked =
            config.as_ref().is_none_or(TrustFacts::is_empty) && allowed.is_empty() && own_plugins.is_empty();
        let before = match is_nothing_asked {
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
        let files = self.project.instructions();
        let instructions = (self.project.is_there() || !files.is_empty()).then(|| files.to_vec());
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
        // Earlier versions stored consent to these plugins with each project.
        let mut new_plugins = own_plugins.without(&before.facts);
        if !new_plugins.is_empty() {
            new_plugins = new_plugins.without(&store.own_plugins().map_err(|error| error.report())?);
        }
        new.extend(new_plugins);
        let (store, brought) = (store.clone(), brought_tools);
        let has_config = self.config.file.is_some() || self.config.user.file.is_some();
        Ok(ProjectTrustStatus {
            layout,
            store,
            config,
            permissions,
            own_plugins,
            before,
            new,
            has_config,
            instructions,
            seen,
            brought,
        })
    }
}

impl ProjectTrustStatus {
    /// Returns the facts that need consent: those of the config, unless the person has named it, and those of the
    /// permissions.
    pub fn facts(&self) -> TrustFacts {
        let mut facts = self.config.clone().unwrap_or_default();
        facts.extend(permission_facts(&self.permissions));
        facts.extend(self.own_plugins.clone());
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

    /// Returns `true` if a fact is about a plugin in the person's own folders, not about files of the project.
    pub fn is_own(&self, line: &str) -> bool {
        self.own_plugins.contains(line)
    }

    /// Returns `true` if all new facts are about plugins in the person's own folders.
    pub fn is_about_own_alone(&self) -> bool {
        self.new.lines().all(|line| self.is_own(line))
    }

    /// Returns the facts that the person has consented to and that are no longer named.
    pub fn gone(&self) -> TrustFacts {
        let gone = self.config.as_ref().map(|facts| self.before.facts.without(facts)).unwrap_or_default();
        gone.without(&self.own_plugins)
    }

    /// Returns a sentence that says whose files need consent.
    pub fn untrusted_in_words(&self) -> &'static str {
        match (self.is_about_own_alone(), self.was_trusted()) {
            (true, _) => "plugins in your own folders are not trusted yet",
            (false, false) => "the files of this project are not trusted yet",
            (false, true) => "the files of this project have changed since you trusted them",
        }
    }

    /// Returns `true` if a config was read, so that `config check` has something to check.
    pub fn has_config(&self) -> bool {
        self.has_config
    }

    /// Returns the command with which a person reviews the facts.
    pub fn review_command(&self) -> &'static str {
        if self.has_config { "shelly-host config check" } else { "shelly-host config trust" }
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
        let own = || match self.own_plugins.is_empty() {
            true => Ok(()),
            false => self.store.accept_own_plugins(&self.own_plugins),
        };
        let seen = || {
            let files = self.instructions.as_ref();
            files.map_or(Ok(()), |files| self.store.keep_instructions(self.layout.root(), files))
        };
        kept.and_then(|()| own()).and_then(|()| seen()).map_err(|error| error.report())
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
                .hint("remove some of its `trusted_tools` and `trusted_commands`; you are then asked again about those")
        })?;
        Ok(trusted.kept_by(Arc::new(ProjectTrustWriter { layout: self.layout.clone(), store: self.store.clone() })))
    }
}

/// Removes consent to lines that no longer stand in the permissions.
fn forget_revoked(layout: &ProjectLayout, answered: &mut ProjectTrust) {
    let Ok(permissions) = ProjectPermissions::load(layout) else { return };
    let allowed = permission_facts(&permissions);
    answered.permissions.retain(|line| allowed.contains(line));
    answered.tools.retain(|tool| permissions.trusted_tools.contains(&line(tool)));
}

/// Returns one line for each instruction file, or one for all of them if they are too many to review.
pub(super) fn instruction_facts(files: &[&InstructionFile]) -> TrustFacts {
    match files {
        [first, _, ..] if files.len() > limits::FACTS_SHOWN / 2 => {
            let all: TrustFacts = files.iter().map(|file| file.fact()).collect();
            let (first, more, digest) = (quoted(&first.path), files.len() - 1, all.digest());
            [(RiskLevel::Reads, format!("the instruction files for agents {first} and {more} more: {digest}"))]
                .into_iter()
                .collect()
        }
        files => files.iter().map(|file| (RiskLevel::Reads, file.fact())).collect(),
    }
}
