use std::{io, path::PathBuf};

use super::{compile_failure::CompileFailure, component_error::ComponentError};
use crate::contract::{CONTRACT, MANIFEST_FILE, PluginKind};
use shelly_core::{
    capability::MissingCapability,
    digest::Sha256Digest,
    error::{ErrorKind, Fault, Report, why_unreadable, without_number},
};

/// The reason why a plugin cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum PluginError {
    /// A file of the plugin folder cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// A link in the plugin folder leads out of it.
    #[error("{} is a link that leads out of the plugin's folder", path.display())]
    LeadsOut { path: PathBuf },
    /// The component has changed since it was checked.
    #[error("{} was changed after it was checked", path.display())]
    Changed { path: PathBuf },
    /// A lock file names the plugin, and its files are not in the store.
    #[error("plugin `{id}` is in {}, but not in {}", lock.display(), folder.display())]
    NotInStore { id: String, folder: PathBuf, lock: PathBuf },
    /// A file of the plugin is not the one that a lock file names.
    #[error("{} is {found}, but {} names {locked}", path.display(), lock.display())]
    NotAsLocked { path: PathBuf, lock: PathBuf, locked: Sha256Digest, found: Sha256Digest },
    /// The folder of the plugin has a file that the lock file does not name.
    #[error("{} is a file of a plugin that {} does not name", path.display(), lock.display())]
    NotLocked { path: PathBuf, lock: PathBuf },
    /// A rule of the config forbids the installed plugin.
    #[error("plugin `{id}` must not be used: {why}")]
    Refused { id: String, why: String, mend: String },
    /// The folder has no manifest.
    #[error("{} has no plugin.toml", folder.display())]
    NoManifest { folder: PathBuf },
    /// A file is larger than the bound for reading it.
    #[error("{} has {size} bytes, the maximum is {most}", path.display())]
    TooLarge { path: PathBuf, size: u64, most: u64 },
    /// The manifest is invalid.
    #[error("invalid manifest {}", path.display())]
    Manifest { path: PathBuf, message: String },
    /// The WIT file beside the component is invalid.
    #[error("invalid WIT file {}", path.display())]
    Wit { path: PathBuf, message: String },
    /// The file is not a component of this contract.
    #[error("{} is not a plugin component", path.display())]
    Component { path: PathBuf, source: ComponentError },
    /// The kinds in the manifest differ from those that the component exports.
    #[error("plugin `{id}`: plugin.toml declares the kinds [{declared}], but the component exports [{exported}]")]
    KindsDiffer { id: String, declared: String, exported: String },
    /// The component imports an interface that this version does not provide.
    #[error("plugin `{id}` imports `{import}`, which this version of shelly-host does not provide")]
    ImportUnsupported { id: String, import: String },
    /// The component imports an interface that its manifest does not ask for.
    #[error("plugin `{id}` imports `{import}`, but {} does not request it", manifest_of(*is_lone))]
    NotAskedFor { id: String, import: String, line: &'static str, is_lone: bool },
    /// The component imports an interface that only plugins of another kind have.
    #[error("plugin `{id}` imports `{import}`, which is only for plugins of kind {}", one_of(kinds))]
    OfAnotherKind { id: String, import: String, kinds: Vec<PluginKind>, is_lone: bool },
    /// Two folders hold plugins with the same id.
    #[error("two plugins have the id `{id}`")]
    SameId { id: String, first: PathBuf, second: PathBuf },
    /// A folder or file in which the plugin of one id is looked for contains the plugin of another id.
    #[error("{} contains the plugin `{own_id}`, not `{id}`", path.display())]
    OtherId { id: String, own_id: String, path: PathBuf },
    /// The agent, or a ceiling above it, does not grant a capability that the plugin needs.
    #[error("plugin `{id}` needs `{}`, which {} does not {}", missing.capability, giver(agent, place, *withheld), giving(*withheld))]
    NotGranted {
        id: String,
        agent: String,
        place: String,
        withheld: bool,
        import: String,
        missing: Box<MissingCapability>,
    },
    /// A folder that the agent grants cannot be opened.
    #[error("{} grants plugin `{id}` the folder {}, which cannot be opened", user(agent), path.display())]
    NoFolder { id: String, agent: String, path: PathBuf, message: String },
    /// The engine rejects the component.
    #[error("plugin `{id}` cannot be prepared to run")]
    NotRunnable { id: String, message: String },
    /// The process that validates and compiles the component gave no answer, or exceeded its limits.
    #[error("plugin `{id}` cannot be compiled")]
    NotCompiled { id: String, failure: CompileFailure },
    /// The plugin failed in the probe at load.
    #[error("plugin `{id}` failed at load")]
    Probe { id: String, fault: Fault, log: Vec<String> },
    /// An effect has no manifest.
    #[error("plugin `{id}` is an effect without a plugin.toml, which sets the phases in which the effect is called")]
    EffectAlone { id: String },
    /// The manifest configures the functions in an impossible way.
    #[error("plugin `{id}`: its functions cannot be tools as {}", as_said(*is_lone))]
    Functions { id: String, message: String, is_lone: bool },
    /// None of the functions can be a tool.
    #[error("plugin `{id}` has no function that can be a tool")]
    NoFunction { id: String, why: String },
    /// The tools of the plugin are not acceptable.
    #[error("plugin `{id}` has a tool that cannot be offered to a model")]
    BadTool { id: String, message: String },
}

const AUTHOR: &str = "report this to the author of the plugin, or remove the plugin";

impl PluginError {
    /// Returns the report for a person: message, causes and hint.
    pub fn report(&self) -> Report {
        let report = Report::new(ErrorKind::Plugin, self.to_string());
        match self {
            Self::Unreadable { source, path } => {
                let hint = match source.kind() {
                    io::ErrorKind::PermissionDenied => "change its permissions so that you can read it",
                    _ if path.ends_with(MANIFEST_FILE) => {
                        "a plugin folder has a plugin.toml and the component that it names"
                    }
                    _ => "check `component` in its plugin.toml, and that the plugin was built",
                };
                report.cause(why_unreadable(source)).hint(hint)
            }
            Self::LeadsOut { .. } => report.hint("replace the link with the file"),
            Self::Changed { .. } => report.hint("run again when no build or copy of the file is running"),
            Self::NotInStore { .. } => {
                report.hint("run `shelly-host plugin install` without a name: it gets what the lock file names")
            }
            Self::NotAsLocked { .. } | Self::NotLocked { .. } => report.hint(
                "`shelly-host plugin install` without a name gets the locked files again; `shelly-host plugin update` shows \
                 what a newer plugin changes, and takes it if you agree",
            ),
            Self::Refused { mend, .. } => report.hint(mend.clone()),
            Self::NoManifest { folder } => report.hint(format!(
                "create a plugin.toml with `id`, `component` and `kinds`, for example id = \"x\", component = \"x.wasm\", \
                 kinds = [\"tool\"], or put the component alone into {}",
                folder.parent().unwrap_or(folder).display()
            )),
            Self::TooLarge { path, .. } => report.hint(match path.ends_with(MANIFEST_FILE) {
                true => "check that the file is the manifest of a plugin",
                false if path.extension().is_some_and(|end| end == "wit") => {
                    "remove what the component beside it does not export, or rename the file"
                }
                false => "build it for release, without debug information",
            }),
            Self::Manifest { message, .. } => {
                report.cause(message).hint("correct the file, or remove the plugin's folder")
            }
            Self::Component { source, .. } => report.cause(source).hint(source.mend()),
            Self::Wit { message, .. } => report.cause(message).hint(
                "correct the file, or rename it: a WIT file with the name of a component documents its functions",
            ),
            Self::KindsDiffer { exported, .. } => report.hint(format!("write kinds = [{exported}] in its plugin.toml")),
            Self::ImportUnsupported { .. } => {
                report.hint("remove the import from the plugin's world, or use a newer shelly-host")
            }
            Self::NotAskedFor { line, is_lone: true, .. } => report.hint(format!(
                "put the component into its own folder, with a plugin.toml that has `{line}` under [wants], or remove \
                 the import"
            )),
            Self::NotAskedFor { line, .. } => {
                report.hint(format!("add `{line}` to [wants] in its plugin.toml, or remove the import"))
            }
            Self::OfAnotherKind { kinds, is_lone, .. } => {
                let and_say = if *is_lone { "" } else { " and name it in `kinds` of its plugin.toml" };
                report.hint(format!("remove the import, or export {}{and_say}", one_of(kinds)))
            }
            Self::SameId { first, second, .. } => {
                report.cause(format!("found in {} and {}", first.display(), second.display())).hint(
                    "remove one of them, or change its id in its plugin.toml (without a plugin.toml, rename its file)",
                )
            }
            Self::OtherId { own_id, .. } => report.hint(format!(
                "use `{own_id}` in the config and name the folder or file after it, or correct `id` in its plugin.toml"
            )),
            Self::NotGranted { place, import, missing, .. } => {
                // Several interfaces come with one capability: name the one that matters.
                let import = match missing.capability.as_str() {
                    "files" => "wasi:filesystem",
                    "http" if import.starts_with("wasi:") => "wasi:http",
                    _ => import,
                };
                report
                    .cause(format!("the plugin imports `{import}`, which requires `{}`", missing.capability))
                    .hint(format!("grant it under {place} in the config: `{}`", missing.line))
            }
            Self::NoFolder { id, agent, message, .. } => report
                .cause(without_number(message))
                .hint(format!("correct `files` under agents.{agent}.plugins.{id} in the config")),
            Self::NotRunnable { message, .. } => {
                report.cause(message).hint(format!("build it with an SDK for version {CONTRACT} of the contract"))
            }
            Self::NotCompiled { failure, .. } => report.cause(failure).hint(match failure {
                failure if failure.is_of_component() => {
                    "remove the plugin, or report this to its author: typical components stay far below this limit"
                }
                CompileFailure::Start(_) => "check that shelly-host can be executed, and your limit of processes",
                _ => "run again; if the error remains, remove the plugin and report this to its author",
            }),
            Self::EffectAlone { .. } => report.hint("put the component into its own folder, with a plugin.toml"),
            Self::Functions { message, is_lone: true, .. } => report
                .cause(message)
                .hint("put the component into its own folder, with a plugin.toml that selects the functions"),
            Self::Functions { message, .. } => report.cause(message).hint("correct its plugin.toml"),
            Self::NoFunction { why, .. } => {
                report.cause(why).hint(
                    "export a function whose types have a JSON form: numbers, booleans, strings, lists, records, variants",
                )
            }
            Self::BadTool { message, .. } => report.cause(message).hint(AUTHOR),
            // The SDK writes the text of a panic to the log.
            Self::Probe { fault, log, .. } => log
                .iter()
                .fold(report.cause(fault), |report, entry| report.cause(format!("log: {entry}")))
                .hint(match fault {
                    Fault::Exhausted { .. } => {
                        "raise the limit under `limits` in the config, or report this to the author of the plugin"
                    }
                    _ => AUTHOR,
                }),
        }
    }
}

/// Returns the source of the tool names, for a message: the functions themselves, or `plugin.toml`.
fn as_said(is_lone: bool) -> &'static str {
    if is_lone { "they are" } else { "configured in its plugin.toml" }
}

/// Returns the name of the manifest for a message, or of the component that has none.
fn manifest_of(is_lone: bool) -> &'static str {
    if is_lone { "a component without a plugin.toml" } else { "its plugin.toml" }
}

/// Joins kinds for a message: `tool`, or `effect` or `tool`.
fn one_of(kinds: &[PluginKind]) -> String {
    let kinds: Vec<_> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
    kinds.join(" or ")
}

/// Returns the party that would have to grant the capability: the agent or model that uses the plugin, or the ceiling
/// above it.
fn giver(agent: &str, place: &str, withheld: bool) -> String {
    if withheld { format!("`{place}`") } else { user(agent) }
}

fn giving(withheld: bool) -> &'static str {
    if withheld { "allow" } else { "grant it" }
}

/// Returns the user of a plugin: an agent, or a model, which is named by its place in the config.
fn user(agent: &str) -> String {
    agent
        .strip_prefix("providers.")
        .map_or_else(|| format!("agent `{agent}`"), |model| format!("the config of model `{model}`"))
}
