//! A plugin that was fetched and inspected, and is not yet installed.

use std::{collections::BTreeMap, sync::Arc};

use super::package_fetch::FetchedPackage;
use crate::{
    capability::Grant,
    cli::{
        host_environment::compiling,
        render::{name, size},
    },
    config::Config,
    digest::Sha256Digest,
    error::{ErrorKind, Report},
    packages::{
        LockedPluginPackage, LockedTool, PackageError, PackageLock, PackagePlace, PackageSource, PluginAbilities,
        StagedPackage, key_id,
    },
    plugin::{CompileStep, ComponentCompiler, PluginKind, PluginPackage, SHIPPED_PLUGINS},
};

/// A plugin in a store that does not yet count as installed.
pub struct PackageCandidate {
    staged: StagedPackage,
    /// Its entry for the lock file.
    pub locked: LockedPluginPackage,
}

/// Checks plugins against the contract and the rules about signatures, without running them.
pub struct PackageInspector<'a> {
    place: &'a PackagePlace,
    config: &'a Config,
    compiler: Arc<ComponentCompiler>,
}

impl<'a> PackageInspector<'a> {
    /// Creates an inspector of plugins that are installed in this place.
    pub fn new(place: &'a PackagePlace, config: &'a Config) -> Self {
        Self { place, config, compiler: Arc::new(ComponentCompiler::from(compiling())) }
    }

    /// Checks a plugin.
    pub async fn inspect(&self, source: &PackageSource, fetched: FetchedPackage) -> Result<PackageCandidate, Report> {
        let staged = self.place.store.stage(&fetched.files).map_err(|error| error.report())?;
        let package = PluginPackage::open(staged.plugin(), &self.compiler, CompileStep::Validate).await;
        let package =
            package.map_err(|error| error.report().cause(format!("got from {}", name(&source.to_string()))))?;
        let (id, version) = (&package.manifest.id, &package.manifest.version);
        if SHIPPED_PLUGINS.contains(&id.as_str()) {
            let message = format!("the plugin `{id}` cannot be installed: a plugin of this id comes with shelly-host");
            return Err(Report::new(ErrorKind::Plugin, message).hint("give the plugin another id in its plugin.toml"));
        }
        let refused = |why: String| PackageError::Unsigned { id: id.clone(), why }.report();
        let signed_by = signer(self.config, &fetched.files.digests(), fetched.signature.as_deref(), refused)?;
        let written = source.clone().relative_to(self.place.lock_folder()).to_string();
        let abilities = abilities_of(&package, fetched.tools);
        let locked = LockedPluginPackage::of(id, version, &written, &fetched.files, abilities);
        let (artifact, signature) = (fetched.artifact, fetched.signature);
        let locked = LockedPluginPackage { artifact, signature, signed_by, ..locked };
        Ok(PackageCandidate { staged, locked })
    }
}

impl PackageCandidate {
    /// Puts the plugin into the store and its entry into the lock file.
    pub fn install(self, place: &PackagePlace, lock: &mut PackageLock) -> Result<(), Report> {
        let locked = self.store()?;
        lock.insert(locked);
        place.write_lock(lock).map_err(|error| error.report())
    }

    /// Puts the plugin into the store, and returns its entry for the lock file.
    pub fn store(self) -> Result<LockedPluginPackage, Report> {
        self.staged.install().map_err(|error| error.report())?;
        Ok(self.locked)
    }
}

/// Verifies the signature of a list of files by the rules of the project and of the person. Returns the name of the key that has
/// signed it, if a rule names one. `refused` reports why it does not comply.
pub fn signer(
    config: &Config,
    files: &BTreeMap<String, Sha256Digest>,
    signature: Option<&str>,
    refused: impl Fn(String) -> Report,
) -> Result<Option<String>, Report> {
    let mut signed_by = None;
    for rule in [&config.plugin_signatures, &config.user.plugin_signatures] {
        let policy = rule.policy()?;
        let signer = policy.signer(files, signature).map_err(&refused)?;
        signed_by = signed_by.or(signer.map(str::to_owned));
    }
    Ok(signed_by)
}

/// Returns what a plugin is, wants, imports and offers. The tools of a plugin of kind `tool` are known only once it runs: they
/// are those that were recorded when it was published.
fn abilities_of(package: &PluginPackage, recorded: Option<Vec<LockedTool>>) -> PluginAbilities {
    let manifest = &package.manifest;
    let wants = Grant::default().missing(&manifest.wants).into_iter().map(|missing| missing.line);
    let wasi = manifest.wasi.then(|| "wasi: powerless".to_owned());
    let of_functions = || -> Vec<_> {
        let specs = package.offer.tools.iter().map(|tool| &tool.spec);
        specs.map(|spec| LockedTool::of(&spec.name, &spec.description, spec.input_schema.get())).collect()
    };
    PluginAbilities {
        kinds: manifest.kinds.iter().map(|kind| kind.name().to_owned()).collect(),
        imports: package.anatomy.imports.clone(),
        wants: wants.chain(wasi).collect(),
        tools: if manifest.kinds.contains(&PluginKind::Tool) { recorded } else { Some(of_functions()) },
    }
}

/// Returns the facts of an installed plugin for people, a line each.
pub fn described(locked: &LockedPluginPackage) -> Vec<String> {
    let list = |items: &[String]| match items.is_empty() {
        true => "nothing".to_owned(),
        false => items.iter().map(|item| name(item)).collect::<Vec<_>>().join("\n             "),
    };
    let tools = match &locked.abilities.tools {
        Some(tools) => list(&tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()),
        None => "not recorded; `shelly-host plugin inspect` starts the plugin in its sandbox to list them".to_owned(),
    };
    vec![
        format!("source       {}", name(&locked.source)),
        format!("size         {}", size(locked.size)),
        format!("digest       {}", locked.files.get(&locked.component).map(ToString::to_string).unwrap_or_default()),
        format!("signed by    {}", signature_state(locked.signed_by.as_deref(), locked.signature.as_deref())),
        format!("kinds        {}", locked.abilities.kinds.join(", ")),
        format!("imports      {}", list(&locked.abilities.imports)),
        format!("wants        {}", list(&locked.abilities.wants)),
        format!("tools        {tools}"),
    ]
}

/// Returns who has signed a package, in words. `signed_by` is the name of the key in a rule.
pub fn signature_state(signed_by: Option<&str>, signature: Option<&str>) -> String {
    match (signed_by, signature.map(key_id)) {
        (Some(signer), _) => name(signer),
        (None, Some(Some(id))) => {
            format!("a key that says it has the id {id}; not verified, since no rule of the config names it")
        }
        (None, Some(None)) => "nobody: its signature is not one of minisign".to_owned(),
        (None, None) => "nobody".to_owned(),
    }
}

/// Returns the name and version of an installed plugin, as messages show them.
pub fn named(locked: &LockedPluginPackage) -> String {
    match locked.version.is_empty() {
        true => format!("`{}`", locked.id),
        false => format!("`{}` {}", locked.id, name(&locked.version)),
    }
}
