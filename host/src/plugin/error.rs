use std::{io, path::PathBuf};

use super::{
    anatomy::{CONTRACT, Kind, Misshapen},
    manifest,
};
use crate::{
    capability::Missing,
    error::{ErrorKind, Fault, Report, why_unreadable, without_number},
};

/// Why a plugin cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum PluginError {
    /// A file of its folder cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// A file is larger than is read.
    #[error("{} has {size} bytes, at most {most} are read", path.display())]
    TooLarge { path: PathBuf, size: u64, most: u64 },
    /// The manifest says something that it cannot.
    #[error("{} has a mistake", path.display())]
    Manifest { path: PathBuf, message: String },
    /// The component's file is not a component of this contract.
    #[error("{} is not a plugin's component", path.display())]
    Component { path: PathBuf, source: Misshapen },
    /// Manifest and component disagree.
    #[error("plugin `{id}`: plugin.toml says its kinds are [{said}], but its component exports [{exported}]")]
    KindsDiffer { id: String, said: String, exported: String },
    /// It imports an interface that this version does not provide.
    #[error("plugin `{id}` imports `{import}`, which this version of shelly-host does not provide")]
    ImportUnsupported { id: String, import: String },
    /// It imports something that its manifest does not ask for.
    #[error("plugin `{id}` imports `{import}`, but its plugin.toml does not ask for it")]
    NotAskedFor { id: String, import: String, line: &'static str },
    /// It imports what only plugins of another kind have.
    #[error("plugin `{id}` imports `{import}`, which only a plugin of kind {} has", one_of(kinds))]
    OfAnotherKind { id: String, import: String, kinds: Vec<Kind> },
    /// Two folders hold a plugin of one id.
    #[error("two plugins have the id `{id}`")]
    SameId { id: String, first: PathBuf, second: PathBuf },
    /// The agent does not give what it needs.
    #[error("plugin `{id}` needs `{}`, which {} does not {}", missing.capability, giver(agent, place, *withheld), giving(*withheld))]
    NotGranted { id: String, agent: String, place: String, withheld: bool, import: String, missing: Box<Missing> },
    /// A folder that the agent grants is not there.
    #[error("{} grants plugin `{id}` the folder {}, which cannot be opened", user(agent), path.display())]
    NoFolder { id: String, agent: String, path: PathBuf, message: String },
    /// The engine does not take the component.
    #[error("plugin `{id}` cannot be made ready to run")]
    NotRunnable { id: String, message: String },
    /// It failed when it was tried at load.
    #[error("plugin `{id}` failed when it was tried")]
    Probe { id: String, fault: Fault, log: Vec<String> },
    /// An effect lies there without a manifest.
    #[error("plugin `{id}` is an effect without a plugin.toml, which says when it is called")]
    EffectAlone { id: String },
    /// Its manifest says of its functions what cannot be.
    #[error("plugin `{id}`: its functions cannot be tools as its plugin.toml says")]
    Functions { id: String, message: String },
    /// None of its functions can be a tool.
    #[error("plugin `{id}` has no function that can be a tool")]
    NoFunction { id: String, why: String },
    /// Its tools are not acceptable.
    #[error("plugin `{id}` has a tool that cannot be offered to a model")]
    BadTool { id: String, message: String },
}

const AUTHOR: &str = "this is a mistake in the plugin: tell its author, or leave the plugin out";

impl PluginError {
    /// As a person reads it.
    pub fn report(&self) -> Report {
        let report = Report::new(ErrorKind::Plugin, self.to_string());
        match self {
            Self::Unreadable { source, path } => {
                let hint = match path.ends_with(manifest::FILE) {
                    true => "a plugin folder holds a plugin.toml and the component that it names",
                    false => "check `component` in its plugin.toml, and that the plugin was built",
                };
                report.cause(why_unreadable(source)).hint(hint)
            }
            Self::TooLarge { path, .. } => report.hint(match path.ends_with(manifest::FILE) {
                true => "check that it is a plugin's manifest: those are short",
                false => "build it for release, without debug information",
            }),
            Self::Manifest { message, .. } => {
                report.cause(message).hint("correct the file, or remove the plugin's folder")
            }
            Self::Component { source, .. } => {
                let hint = match source {
                    Misshapen::NotWasm => {
                        "`component` in plugin.toml must name the component that the build made".to_owned()
                    }
                    Misshapen::CoreModule => {
                        "link it with wasm-component-ld, or make a component of it with `wasm-tools component new`"
                            .to_owned()
                    }
                    Misshapen::Damaged { .. } => "build or copy it again".to_owned(),
                    Misshapen::OtherContract { .. } => {
                        format!(
                            "build the plugin with an SDK for version {CONTRACT} of the contract, or use a host that speaks its version"
                        )
                    }
                    Misshapen::TooMuchCode { .. } | Misshapen::TooManyFunctions { .. } => {
                        "leave out what it does not need; a plugin of many parts is better several plugins".to_owned()
                    }
                    Misshapen::NoKind => {
                        let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Functions).map(Kind::name);
                        let kinds = kinds.collect::<Vec<_>>().join(", ");
                        format!("export functions, or a kind of `shelly:plugin`: {kinds}")
                    }
                };
                report.cause(source).hint(hint)
            }
            Self::KindsDiffer { exported, .. } => report.hint(format!("write kinds = [{exported}] in its plugin.toml")),
            Self::ImportUnsupported { .. } => {
                report.hint("remove the import from the plugin's world, or use a newer shelly-host")
            }
            Self::NotAskedFor { line, .. } => {
                report.hint(format!("add `{line}` to [wants] in its plugin.toml, or remove the import"))
            }
            Self::OfAnotherKind { kinds, .. } => report.hint(format!(
                "remove the import, or export {} and name it in `kinds` of its plugin.toml",
                one_of(kinds)
            )),
            Self::SameId { first, second, .. } => report
                .cause(format!("they are in {} and {}", first.display(), second.display()))
                .hint("remove one of them, or give it another id in its plugin.toml"),
            Self::NotGranted { place, import, missing, .. } => {
                // Of the several interfaces that come with one, the one that is meant.
                let import = match missing.capability.as_str() {
                    "files" => "wasi:filesystem",
                    "http" if import.starts_with("wasi:") => "wasi:http",
                    _ => import,
                };
                report
                    .cause(format!("it imports `{import}`, and its plugin.toml asks for `{}`", missing.capability))
                    .hint(format!("grant it under {place} in the config: `{}`", missing.line))
            }
            Self::NoFolder { id, agent, message, .. } => report
                .cause(without_number(message))
                .hint(format!("correct `files` under agents.{agent}.plugins.{id} in the config")),
            Self::NotRunnable { message, .. } => {
                report.cause(message).hint(format!("build it with an SDK for version {CONTRACT} of the contract"))
            }
            Self::EffectAlone { .. } => report.hint("put it into a folder of its own, with a plugin.toml"),
            Self::Functions { message, .. } => report.cause(message).hint("correct its plugin.toml"),
            Self::NoFunction { why, .. } => {
                report.cause(why).hint("export a function of values that JSON has: see host/docs/any-component.md")
            }
            Self::BadTool { message, .. } => report.cause(message).hint(AUTHOR),
            // The SDK writes the text of a panic to the log.
            Self::Probe { fault, log, .. } => log
                .iter()
                .fold(report.cause(fault), |report, entry| report.cause(format!("it logged: {entry}")))
                .hint(match fault {
                    Fault::Exhausted { .. } => "give it more under `limits` in the config, or tell its author",
                    _ => AUTHOR,
                }),
        }
    }
}

/// `tool`, or `effect` or `tool`.
fn one_of(kinds: &[Kind]) -> String {
    let kinds: Vec<_> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
    kinds.join(" or ")
}

/// Who would have to give it: whoever the plugin serves, or the ceiling above them.
fn giver(agent: &str, place: &str, withheld: bool) -> String {
    if withheld { format!("`{place}`") } else { user(agent) }
}

fn giving(withheld: bool) -> &'static str {
    if withheld { "allow" } else { "grant it" }
}

/// Whom a plugin serves: an agent, or a model, whose name is its place in the config.
fn user(agent: &str) -> String {
    agent
        .strip_prefix("providers.")
        .map_or_else(|| format!("agent `{agent}`"), |model| format!("the config of model `{model}`"))
}
