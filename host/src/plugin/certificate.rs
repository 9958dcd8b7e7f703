//! What a plugin can reach for an agent, for a program to read: proof rather than promise, since it is told by what is
//! linked.

use std::{env, sync::Arc};

use serde::Serialize;

use super::{
    Plugin, PluginError,
    anatomy::PluginKind,
    catalog::PluginPackage,
    functions::FunctionTool,
    imports::{self, ImportRequirement},
    loader::PluginSettings,
    runtime::PluginEngine,
};
use crate::capability::{CapabilityDecision, Grant};

/// What a plugin can reach for one agent, and why. Nothing else was linked: what is not `satisfied` here cannot be called.
#[derive(Debug, Clone, Serialize)]
pub struct Certificate {
    /// The plugin's id.
    pub plugin: String,
    /// SHA-256 of its component.
    pub digest: String,
    /// What it is.
    pub kinds: Vec<PluginKind>,
    /// The agent, or the model that it is for.
    pub agent: String,
    /// Whether it was linked and tried. If not, `error` says why, and no code of it can run.
    pub runs: bool,
    /// Why it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Every interface that the component imports.
    pub imports: Vec<CertifiedImport>,
    /// Of kind `functions`: what a model can call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<CertifiedFunction>,
    /// What it has got. Of an import that is satisfied this is all that it reaches.
    pub grant: Grant,
    /// Of each capability that it wants, whether it has it, and which line of the config says so.
    pub decisions: Vec<CapabilityDecision>,
    /// The host.
    pub host: HostBuildInfo,
}

/// An interface that a component imports.
#[derive(Debug, Clone, Serialize)]
pub struct CertifiedImport {
    /// As the component names it.
    pub name: String,
    /// Whether it is linked.
    pub state: ImportState,
    /// The capability that it takes; none for what every plugin of its kind has, as an effect has its conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<&'static str>,
}

/// A function of a component that knows nothing of us.
#[derive(Debug, Clone, Serialize)]
pub struct CertifiedFunction {
    /// The tool that it is.
    pub tool: String,
    /// As the component names it: interface and function.
    pub function: String,
    /// Whether its instance lasts as long as a run, and not as long as one call.
    pub is_kept: bool,
}

/// Whether an import is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportState {
    /// To what the grant says.
    Satisfied,
    /// Not at all.
    Refused,
    /// To something that reaches nothing: it holds types alone, or it is of WASI's base, which plugins have that declare it.
    Powerless,
}

/// Which host says so.
#[derive(Debug, Clone, Serialize)]
pub struct HostBuildInfo {
    /// `shelly-host` and its version.
    pub version: &'static str,
    /// The version of the contract that it speaks.
    pub contract: &'static str,
    /// The machine that it was built for.
    pub target: String,
}

impl Certificate {
    /// Links a plugin to what its settings give it, tries it, and tells what came of that.
    pub async fn issue(engine: &Arc<PluginEngine>, package: &Arc<PluginPackage>, settings: &PluginSettings) -> Self {
        let error = Plugin::load(engine, package, settings).await.err();
        Self::of(package, settings, error.as_ref())
    }

    fn of(package: &PluginPackage, settings: &PluginSettings, error: Option<&PluginError>) -> Self {
        let manifest = &package.manifest;
        let (grant, linked) = (settings.granted(manifest), settings.linked(manifest));
        let import = |name: &String| {
            let need = imports::need_of_import(name);
            let state = match need {
                Some(need) if need.is_given_by(&grant, manifest) => ImportState::Satisfied,
                // Until a person opens something to it, or for good.
                Some(need) if need.is_linked_with(&linked, manifest) => ImportState::Powerless,
                _ => ImportState::Refused,
            };
            let has_none = |need: &ImportRequirement| {
                // Types alone.
                need.comes_with_kind(&grant, manifest) || *need == ImportRequirement::WasiClock && !manifest.wasi
            };
            let need = need.filter(|need| !has_none(need));
            CertifiedImport { name: name.clone(), state, capability: need.and_then(ImportRequirement::capability) }
        };
        let is_kept = package.offer.is_kept;
        let function = |tool: &Arc<FunctionTool>| {
            let (tool, function) = (tool.spec.name.clone(), tool.function.path.to_string());
            CertifiedFunction { tool, function, is_kept }
        };
        Self {
            plugin: manifest.id.clone(),
            digest: package.named_digest(),
            kinds: manifest.kinds.clone(),
            agent: settings.agent.clone(),
            runs: error.is_none(),
            error: error.map(|error| error.report().to_string()),
            imports: package.anatomy.imports.iter().map(import).collect(),
            functions: package.offer.tools.iter().map(function).collect(),
            decisions: settings.decisions(manifest),
            grant,
            host: HostBuildInfo {
                version: concat!("shelly-host ", env!("CARGO_PKG_VERSION")),
                contract: super::anatomy::CONTRACT,
                target: format!("{}-{}", env::consts::ARCH, env::consts::OS),
            },
        }
    }
}
