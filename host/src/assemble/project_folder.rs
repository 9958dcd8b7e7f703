//! The project's folder: skills, context, prices, and the places of notes and reflections.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::cluster_sessions::ClusterBuckets;
use crate::{
    capability::HttpGrant,
    config::{self, AgentConfig, Config, ProjectApprovals},
    error::{ErrorKind, Report},
    files::{self, FileReadError},
    kv::KvStores,
    limits,
    model::PriceTable,
    project::{ContextOptions, ProjectContext, ProjectLayout, ProjectPermissions, Staleness, staleness},
    skill::{self, Skill, SkillCatalog, SkillDetails, SkillError, SkillPlace},
    state::{BucketNotes, NoteStore, ReflectionStore},
    trust::InstructionFile,
};

/// The content of `.shelly`, read once, and the skills of other places. Without that folder everything else is empty.
#[derive(Clone)]
pub(crate) struct ProjectFolder {
    layout: ProjectLayout,
    is_there: bool,
    skills: Arc<[Skill]>,
    /// The skills of installed agent packages, by the folders of the packages.
    package_skills: Arc<BTreeMap<PathBuf, Vec<Skill>>>,
    context: Arc<str>,
    /// The files that agents are given as instructions, with the content that was read.
    instructions: Arc<[InstructionFile]>,
    warnings: Vec<String>,
    /// The buckets of the cluster that the config names; `None`: shared state is in the project's folder.
    buckets: Option<ClusterBuckets>,
}

impl ProjectFolder {
    pub fn read(config: &Config) -> Result<Self, Report> {
        let layout = ProjectLayout::new(&config.root);
        for folder in [layout.dir(), layout.local()] {
            let what = match fs::symlink_metadata(&folder) {
                Ok(about) if about.is_symlink() => "a link; links are not followed here",
                Ok(about) if !about.is_dir() => "not a folder",
                _ => continue,
            };
            return Err(Report::new(ErrorKind::Usage, format!("{} is {what}", folder.display()))
                .hint("move it away, and create the folder with shelly-host init"));
        }
        let is_there = layout.holds_more_than_sessions();
        let package_skills = Arc::new(package_skills(config)?);
        let (skills, left_out) = skills_of(config, &layout, is_there)?;
        // The person's own skills are nothing that a project brings.
        let of_project = skills.iter().filter(|skill| skill.place != SkillPlace::Personal);
        if !is_there {
            let instructions = of_project.map(|skill| instructions_of(skill, &layout)).collect();
            let (skills, context, warnings) = (skills.into(), "".into(), said_in_short(&left_out));
            let buckets = None;
            return Ok(Self { layout, is_there, skills, package_skills, context, instructions, warnings, buckets });
        }
        let mut options = ContextOptions::default();
        if config.context.max_external_file_size > 0 {
            options.max_external_file_size = config.context.max_external_file_size;
        }
        let ProjectContext { text, mut warnings, files } = ProjectContext::read(&layout, &options);
        // What the person has installed for all projects was consented to then.
        let of_packages = package_skills.values().flatten().filter(|_| !config.user.has_runners);
        let of_skills = of_project.chain(of_packages).map(|skill| instructions_of(skill, &layout));
        let instructions = files.into_iter().chain(of_skills).collect();
        // Without a context file there is nothing that could be out of date.
        if let Staleness::Stale { reason } = staleness(&layout)
            && layout.context().exists()
        {
            warnings.push(format!("the project index may be out of date: {reason}; update it with shelly-host index"));
        }
        warnings.extend(said_in_short(&left_out));
        let (skills, context) = (skills.into(), text.into());
        let buckets = None;
        Ok(Self { layout, is_there, skills, package_skills, context, instructions, warnings, buckets })
    }

    /// Returns the files that agents are given as instructions, with the content that was read. That content stands in a
    /// system prompt, or is loaded as a skill.
    pub fn instructions(&self) -> &[InstructionFile] {
        &self.instructions
    }

    /// Returns `true` if the project has a folder `.shelly` with more than sessions in it.
    pub fn is_there(&self) -> bool {
        self.is_there
    }

    /// Sets the buckets of a cluster in which key-value stores, notes and reflections are instead of the folder.
    pub fn with_buckets(self, buckets: Option<ClusterBuckets>) -> Self {
        Self { buckets, ..self }
    }

    /// Returns the buckets of the cluster, if the config names one.
    pub fn buckets(&self) -> Option<&ClusterBuckets> {
        self.buckets.as_ref()
    }

    /// Adds warnings about what the project brings.
    pub fn with_warnings(mut self, more: Vec<String>) -> Self {
        self.warnings.extend(more);
        self
    }

    /// Returns the warnings about what the project brings, and those that reading the folder caused.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the context that every agent is given in its system prompt.
    pub fn context(&self) -> Arc<str> {
        Arc::clone(&self.context)
    }

    /// Returns the skills of an agent: those that its config names, or all. An agent of an installed package has those of the
    /// package, and not those of the project.
    pub fn skills(&self, agent: &AgentConfig) -> Result<Vec<Skill>, Report> {
        let skills = match &agent.package {
            Some(package) => self.package_skills.get(&package.folder).map(Vec::as_slice).unwrap_or_default(),
            None => &self.skills[..],
        };
        let Some(names) = &agent.skills else { return Ok(skills.to_vec()) };
        let find = |name: &String| {
            let found = skills.iter().find(|skill| skill.name == *name);
            found.cloned().ok_or_else(|| {
                let known = skills.iter().map(|skill| skill.name.as_str());
                config::unknown("skill", name, known).cause(format!("named by agents.{}.skills", agent.name))
            })
        };
        names.iter().map(find).collect()
    }

    /// Returns the list prices, overridden by the project's own.
    pub fn prices(&self) -> Result<PriceTable, Report> {
        let mut prices = PriceTable::list_prices();
        let path = self.layout.pricing();
        match files::read(&path, &self.layout.dir(), limits::PRICE_LIST_BYTES as u64) {
            Ok(text) => prices.extend(&text).map_err(|error| {
                Report::new(ErrorKind::Usage, format!("the prices in {} cannot be used", path.display()))
                    .cause(error)
                    .hint("correct the file, or remove it to use list prices")
            })?,
            Err(FileReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Report::new(ErrorKind::Usage, format!("cannot read {}", path.display()))
                    .cause(error.to_string())
                    .hint("make the file readable, or remove it to use list prices"));
            }
        }
        Ok(prices)
    }

    /// Returns the key-value stores of plugins, in `.shelly/local/kv` or in the cluster. The folder is created with the first
    /// value.
    pub fn stores(&self) -> KvStores {
        if let Some(buckets) = &self.buckets {
            return KvStores::in_bucket(Arc::clone(&buckets.kv));
        }
        let layout = self.layout.clone();
        KvStores::on_disk(move || {
            layout.make_kv().map_err(|error| error.report().to_string())?;
            Ok(layout.kv())
        })
    }

    /// Returns the person's approvals for this project, or none if they cannot be read; that error is reported where they
    /// are needed in full. Entries that are no folder, or no server of the public Internet, are skipped.
    pub fn approved(&self) -> ProjectApprovals {
        let ProjectPermissions { fs_directories, trusted_domains, .. } =
            ProjectPermissions::load(&self.layout).unwrap_or_default();
        let folders = fs_directories.into_iter().filter(|folder| folder.is_absolute() && folder.is_dir());
        let servers = trusted_domains.iter().filter_map(|domain| HttpGrant::public_server(&server_of(domain)));
        let servers = servers.fold(HttpGrant::default(), |all, (one, _)| all.join(&one));
        ProjectApprovals { folders: folders.collect(), servers }
    }

    /// Returns the notes, in the project's folder or in the cluster.
    pub fn notes(&self) -> NoteStore {
        match &self.buckets {
            Some(buckets) => NoteStore::with_storage(Arc::new(BucketNotes::new(Arc::clone(&buckets.notes)))),
            None => NoteStore::new(self.layout.notes()),
        }
    }

    /// Returns the store of reflections on failures: in the cluster, or in the project's folder, if it has one.
    pub fn reflections(&self) -> Option<ReflectionStore> {
        if let Some(buckets) = &self.buckets {
            let notes = BucketNotes::new(Arc::clone(&buckets.notes));
            return Some(ReflectionStore::with_storage(Arc::new(notes)));
        }
        self.is_there.then(|| ReflectionStore::new(self.layout.reflections()))
    }
}

/// Reads the skills of the project and of the person, and the reasons for which some of them are left out. Those of
/// `.shelly` have precedence over those of `.agents`, and those of the project over those of the person.
pub(super) fn skills_of(
    config: &Config,
    layout: &ProjectLayout,
    has_own: bool,
) -> Result<(Vec<Skill>, Vec<SkillError>), Report> {
    let own = match has_own && layout.skills().is_dir() {
        true => skill::load_dir(&layout.skills()).map_err(|error| error.report())?,
        false => Vec::new(),
    };
    let mut catalog = SkillCatalog::new(own);
    // An empty path stands for the current folder.
    let root = if layout.root().as_os_str().is_empty() { Path::new(".") } else { layout.root() };
    catalog.add_shared(&layout.shared_skills(), SkillPlace::Shared, Some(root));
    if let Some(personal) = &config.user.skills {
        catalog.add_shared(personal, SkillPlace::Personal, None);
    }
    Ok(catalog.into_parts())
}

/// Returns warnings about skills that are left out: the first few in full.
fn said_in_short(left_out: &[SkillError]) -> Vec<String> {
    let most = limits::SKILL_WARNINGS;
    let mut warnings: Vec<_> = left_out.iter().take(most).map(|error| error.report().with_hint()).collect();
    if left_out.len() > most {
        let more = left_out.len() - most;
        warnings.push(format!("{more} more skills are not used; shelly-host skill check names them"));
    }
    warnings
}

/// Returns the names of the skills in a folder, which need not exist.
///
/// # Errors
///
/// A [`Report`] if one of them cannot be used.
pub fn skill_names(folder: &Path) -> Result<Vec<String>, Report> {
    let skills = skill::load_dir(folder).map_err(|error| error.report())?;
    Ok(skills.into_iter().map(|skill| skill.name).collect())
}

/// Reads the skills of the installed agent packages, by the folders of the packages.
fn package_skills(config: &Config) -> Result<BTreeMap<PathBuf, Vec<Skill>>, Report> {
    let mut skills = BTreeMap::new();
    for package in config.everyone().filter_map(|agent| agent.package.as_ref()) {
        if !skills.contains_key(&package.folder) {
            let of_package = skill::load_dir(&package.skills()).map_err(|error| error.report())?;
            skills.insert(package.folder.clone(), of_package);
        }
    }
    Ok(skills)
}

/// Returns a skill as an instruction file with the whole text that a model is given.
fn instructions_of(skill: &Skill, layout: &ProjectLayout) -> InstructionFile {
    let Skill { name, description, content, dir, details, place: _ } = skill;
    let root = layout.root().canonicalize().unwrap_or_else(|_| layout.root().to_owned());
    let path = dir.join(skill::FILE);
    let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
    let SkillDetails { compatibility, allowed_tools, license: _, metadata: _ } = details;
    let mut head = if description.is_empty() { String::new() } else { format!("description: {description}\n") };
    // The model reads these two as well.
    head.extend(compatibility.iter().map(|needs| format!("compatibility: {needs}\n")));
    head.extend(allowed_tools.iter().map(|tool| format!("allowed-tools: {tool}\n")));
    InstructionFile::new(path, format!("name: {name}\n{head}\n{content}"))
}

/// Returns the server of an entry in `trusted_domains`; without a scheme it is HTTPS.
fn server_of(domain: &str) -> Cow<'_, str> {
    if domain.contains("://") { domain.into() } else { format!("https://{domain}").into() }
}

/// Returns the entry of `trusted_domains` for a server. HTTPS is left out, as other programs write it.
pub(crate) fn domain_of(server: &str) -> &str {
    server.strip_prefix("https://").unwrap_or(server)
}
