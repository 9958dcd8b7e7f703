//! An agent package that was fetched and checked, and is not yet installed.

use super::package_names::named_package;
use crate::{
    app::skill_names,
    cli::{
        plugin::packages::{
            FetchedAgentPackage, FetchedPackage, PackageCandidate, PackageInspector, described, named, signature_state,
            signer,
        },
        render::{name, one_line, size},
        trust_list::listed,
    },
    config::{AgentPackageConfig, AgentPackageOrigin, Config},
    error::{ErrorKind, Report},
    limits,
    packages::{
        AgentPackageFiles, ContainedPlugin, LockedAgentPackage, LockedPluginPackage, PackageError, PackageLock,
        PackagePlace, PackageSource, StagedPackage,
    },
    trust::TrustFacts,
};

/// An agent package in a store that does not yet count as installed.
pub(super) struct AgentCandidate {
    staged: StagedPackage,
    plugins: Vec<PackageCandidate>,
    /// Its entry for the lock file.
    pub locked: LockedAgentPackage,
    /// The files.
    pub files: AgentPackageFiles,
    /// The agents and teams.
    config: AgentPackageConfig,
    /// The reach of the agents and teams.
    pub reach: TrustFacts,
    skills: Vec<String>,
}

/// Checks agent packages against the config that they are installed for, without running anything of them.
pub(super) struct AgentPackageInspector<'a> {
    /// The place of installation.
    pub place: &'a PackagePlace,
    /// The config of the project.
    pub config: &'a Config,
    /// The lock file of the place where they are installed.
    pub lock: &'a PackageLock,
}

impl AgentPackageInspector<'_> {
    /// Checks a package. `model` is the model of the config that its agents will use; `None`: the one before, or the default one.
    pub async fn inspect(
        &self,
        source: &PackageSource,
        fetched: FetchedAgentPackage,
        model: Option<&str>,
    ) -> Result<AgentCandidate, Report> {
        let FetchedAgentPackage { files, artifact, signature } = fetched;
        let report = |error: PackageError| error.report();
        let id = files.manifest().id.clone();
        let config = AgentPackageConfig::parse(files.config(), AgentPackageFiles::CONFIG_FILE)
            .map_err(|report| report.cause(format!("got from {}", name(&source.to_string()))))?;
        let refused = |why: String| {
            Report::new(ErrorKind::Plugin, format!("the agent package `{id}` must not be installed: {why}"))
                .hint(PackageError::SIGNATURE_MEND)
        };
        let signed_by = signer(self.config, &files.digests(), signature.as_deref(), refused)?;
        let written = source.clone().relative_to(self.place.lock_folder()).to_string();
        let before = self.lock.agent(&id).and_then(|before| before.model.clone());
        let model = model.map(str::to_owned).or(before);
        let runners = config.names().map(str::to_owned).collect();
        let locked = LockedAgentPackage::of(&written, &files, runners);
        let locked = LockedAgentPackage { artifact, signature, signed_by, model, ..locked };
        let reach = self.reach(&config, &locked)?;
        let staged = self.place.store.stage_agent(&files).map_err(report)?;
        let skills = skill_names(&staged.plugin().join(AgentPackageFiles::SKILLS))?;
        let inspector = PackageInspector::new(self.place, self.config);
        let mut plugins = Vec::new();
        for plugin in files.plugins().map_err(report)? {
            plugins.extend(self.plugin(plugin, &locked, source, &inspector).await?);
        }
        Ok(AgentCandidate { staged, plugins, locked, files, config, reach, skills })
    }

    /// Returns what the agents of a package reach beyond what the config reaches without them.
    ///
    /// # Errors
    ///
    /// A [`Report`] if their names are taken, or they name something that the config does not have.
    pub fn reach(&self, config: &AgentPackageConfig, locked: &LockedAgentPackage) -> Result<TrustFacts, Report> {
        let origin = AgentPackageOrigin::of(locked, self.place.store.folder(&locked.digest));
        let reach = self.config.reach_of_agent_package(config.clone(), &origin, locked.model.as_deref());
        reach.map_err(|mut mistakes| {
            let first = mistakes.swap_remove(0);
            first.cause(format!("needed by the agent package `{}`", locked.id))
        })
    }

    /// Checks a contained plugin. Returns `None` if the place has this plugin by itself, or from another package.
    async fn plugin(
        &self,
        plugin: ContainedPlugin,
        package: &LockedAgentPackage,
        source: &PackageSource,
        inspector: &PackageInspector<'_>,
    ) -> Result<Option<PackageCandidate>, Report> {
        let ContainedPlugin { id, files, signature } = plugin;
        let there = self.lock.get(&id);
        let is_same = there.is_some_and(|there| there.digest == files.digest());
        let is_of_others = |there: &LockedPluginPackage| {
            let mut others = self.lock.agents().filter(|other| other.id != package.id);
            there.agent.as_ref() != Some(&package.id) || others.any(|other| other.contains(there))
        };
        let there = there.filter(|there| is_of_others(there));
        if let Some(there) = there.filter(|_| !is_same) {
            return Err(self.is_another_plugin(there, package));
        }
        let fetched = FetchedPackage { files, tools: None, artifact: None, signature };
        let mut candidate = inspector.inspect(source, fetched).await?;
        if candidate.locked.id != id {
            let message = format!(
                "the plugin in plugins/{id} of the agent package `{}` has the id `{}`",
                package.id, candidate.locked.id
            );
            return Err(
                Report::new(ErrorKind::Plugin, message).hint("correct the package, or report this to its author")
            );
        }
        candidate.locked.agent = Some(package.id.clone());
        Ok(there.is_none().then_some(candidate))
    }

    fn is_another_plugin(&self, there: &LockedPluginPackage, package: &LockedAgentPackage) -> Report {
        let lock = name(&self.place.lock_file().display().to_string());
        let mut others = self.lock.agents().filter(|other| other.id != package.id);
        let other = others.find(|other| other.contains(there)).map(|other| other.id.as_str());
        let (from, mend) = match other {
            Some(other) => (
                format!("the agent package `{other}`"),
                format!("update one of the packages, or remove one: shelly-host agent remove {other}"),
            ),
            None => (name(&there.source), format!("remove it: shelly-host plugin remove {}", there.id)),
        };
        let message = format!(
            "the agent package {} brings another plugin `{}` than {lock} names: {} from {from}",
            named_package(package),
            there.id,
            named(there)
        );
        Report::new(ErrorKind::Plugin, message).hint(mend)
    }
}

impl AgentCandidate {
    /// Puts the package into the store and its entries into the lock file.
    pub fn install(self, place: &PackagePlace, lock: &mut PackageLock) -> Result<(), Report> {
        let report = |error: PackageError| error.report();
        self.staged.install().map_err(report)?;
        let plugins: Result<Vec<_>, Report> = self.plugins.into_iter().map(PackageCandidate::store).collect();
        lock.insert_agent(self.locked, plugins?);
        place.write_lock(lock).map_err(report)
    }

    /// Returns the plugins that come with the package.
    pub fn plugins(&self) -> impl Iterator<Item = &LockedPluginPackage> {
        self.plugins.iter().map(|plugin| &plugin.locked)
    }

    /// Returns the facts of the package for people, a line each.
    pub fn described(&self) -> Vec<String> {
        let Self { locked, files, config, reach, skills, .. } = self;
        let manifest = files.manifest();
        let about = |text: &str| one_line(text, limits::PACKAGE_CHANGE_CHARS);
        let agent = |name: &str, description: &str| match description.trim().is_empty() {
            true => about(name),
            false => format!("{}: {}", about(name), about(description)),
        };
        let list = |items: Vec<String>| match items.is_empty() {
            true => "none".to_owned(),
            false => items.join("\n             "),
        };
        let model = match &locked.model {
            Some(model) => format!("the model `{}`", name(model)),
            None => "your default model; --model chooses another".to_owned(),
        };
        let mut lines = vec![
            format!("source       {}", name(&locked.source)),
            format!("about        {}", about(&manifest.description)),
            format!("size         {} in {} files", size(files.size()), locked.files.len()),
            format!("digest       {}", locked.digest),
            format!("signed by    {}", signature_state(locked.signed_by.as_deref(), locked.signature.as_deref())),
            format!("made for     {}", manifest.model.as_deref().map_or_else(|| "no certain model".to_owned(), name)),
            format!("uses         {model}"),
            format!(
                "agents       {}",
                list(config.agents.iter().map(|one| agent(&one.name, &one.description)).collect())
            ),
        ];
        if !config.teams.is_empty() {
            let teams = config.teams.iter().map(|team| agent(&team.own.name, &team.own.description));
            lines.push(format!("teams        {}", list(teams.collect())));
        }
        lines.push(format!("skills       {}", list(skills.iter().map(|skill| name(skill)).collect())));
        for plugin in self.plugins() {
            lines.push(format!("plugin       {}", named(plugin)));
            // The source is that of the package.
            lines.extend(described(plugin).into_iter().skip(1).map(|line| format!("  {line}")));
        }
        lines.push(format!("files        {}", list(locked.files.keys().cloned().collect())));
        match reach.is_empty() {
            true => lines.push("reaches      nothing".to_owned()),
            false => {
                lines.push("reaches".to_owned());
                lines.extend(listed(reach, |_| "+"));
            }
        }
        lines
    }
}
