//! A machine-readable account of the capabilities that a plugin has for an agent, derived from what is actually linked.

use std::{env, sync::Arc};

use serde::Serialize;

use super::{plugin::Plugin, plugin_settings::PluginSettings};
use crate::{
    contract::{CONTRACT, ImportRequirement, PluginKind, need_of_import},
    error::PluginError,
    functions::FunctionTool,
    package::PluginPackage,
    runtime::PluginEngine,
};
use shelly_core::capability::{Capability, CapabilityDecision, Grant};

/// The imports, grant and decisions of one plugin for one agent. An import that is not `satisfied` reaches nothing.
#[derive(Debug, Clone, Serialize)]
pub struct Certificate {
    /// The plugin's id.
    pub plugin: String,
    /// SHA-256 of its component.
    pub digest: String,
    /// The kinds of the plugin.
    pub kinds: Vec<PluginKind>,
    /// The agent, or the model, that uses the plugin.
    pub agent: String,
    /// `true` if the plugin was linked and probed. If `false`, `error` says why, and none of its code can run.
    pub runs: bool,
    /// The reason why the plugin does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Every interface that the component imports.
    pub imports: Vec<CertifiedImport>,
    /// The functions that a model can call, for a plugin of kind `functions`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<CertifiedFunction>,
    /// The capabilities that the plugin has. A satisfied import reaches these and nothing else.
    pub grant: Grant,
    /// One decision per requested capability: allowed or refused, and the line of the config that decides.
    pub decisions: Vec<CapabilityDecision>,
    /// The host that issued the certificate.
    pub host: HostBuildInfo,
}

/// An interface that a component imports.
#[derive(Debug, Clone, Serialize)]
pub struct CertifiedImport {
    /// The name of the interface in the component.
    pub name: String,
    /// The way in which the interface is linked.
    pub state: ImportState,
    /// The capability that the import takes; `None` for one that every plugin of its kind has, as an effect has its
    /// conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<&'static str>,
}

/// An exported function of a component that does not use the contract.
#[derive(Debug, Clone, Serialize)]
pub struct CertifiedFunction {
    /// The name of the tool that calls the function.
    pub tool: String,
    /// The interface and the name of the function in the component.
    pub function: String,
    /// `true` if the instance lasts as long as a run, `false` if it lasts as long as one call.
    pub is_kept: bool,
}

/// The way in which an import is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportState {
    /// Linked to what the grant allows.
    Satisfied,
    /// Not linked.
    Refused,
    /// Linked to an implementation that reaches nothing: the interface holds types alone, it belongs to the WASI base
    /// of a plugin that declares it, or nobody has opened anything to the plugin yet.
    Powerless,
}

/// The host build that issued a certificate.
#[derive(Debug, Clone, Serialize)]
pub struct HostBuildInfo {
    /// `shelly-host` and its version.
    pub version: &'static str,
    /// The newest version of the contract that the host serves.
    pub contract: &'static str,
    /// The architecture and operating system of the host build.
    pub target: String,
}

impl Certificate {
    /// Links a plugin to what its settings grant, probes it, and reports the result.
    pub async fn issue(engine: &Arc<PluginEngine>, package: &Arc<PluginPackage>, settings: &PluginSettings) -> Self {
        let error = Plugin::load(engine, package, settings).await.err();
        Self::of(package, settings, error.as_ref())
    }

    fn of(package: &PluginPackage, settings: &PluginSettings, error: Option<&PluginError>) -> Self {
        let manifest = &package.manifest;
        let (grant, linked) = (settings.granted(manifest), settings.linked(manifest));
        let import = |name: &String| {
            let need = need_of_import(name);
            let state = match need {
                Some(need) if need.is_given_by(&grant, manifest) => ImportState::Satisfied,
                // Reaches nothing until a person opens something to it, or for good.
                Some(need) if need.is_linked_with(&linked, manifest) => ImportState::Powerless,
                _ => ImportState::Refused,
            };
            let has_none = |need: &ImportRequirement| {
                // The plugin has it because of its kind, or uses its types alone.
                need.comes_with_kind(&grant, manifest) || *need == ImportRequirement::WasiClock && !manifest.wasi
            };
            let need = need.filter(|need| !has_none(need));
            CertifiedImport {
                name: name.clone(),
                state,
                capability: need.and_then(ImportRequirement::capability).map(Capability::name),
            }
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
                contract: CONTRACT,
                target: format!("{}-{}", env::consts::ARCH, env::consts::OS),
            },
        }
    }
}
