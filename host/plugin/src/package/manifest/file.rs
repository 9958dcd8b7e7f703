//! The syntax of `plugin.toml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::functions::{FunctionOverrides, InstanceLifetime};
use shelly_core::{
    agent::{EffectPhase, OnFailure},
    capability::{FileAccess, HttpGrant, KvScope, Powers, RequestedCapabilities},
    limits,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestFile {
    pub id: String,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub description: String,
    pub component: String,
    pub kinds: Vec<String>,
    pub params: Option<Vec<String>>,
    #[serde(default)]
    pub wants: ManifestWants,
    pub effect: Option<ManifestEffect>,
    #[serde(rename = "run-middleware")]
    pub run_middleware: Option<ManifestRunMiddleware>,
    pub on_failure: Option<OnFailure>,
    pub only: Option<Vec<String>>,
    pub leave_out: Option<Vec<String>>,
    pub instance: Option<InstanceLifetime>,
    pub functions: Option<BTreeMap<String, FunctionOverrides>>,
    #[serde(default)]
    pub build: ManifestBuild,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestWants {
    #[serde(default)]
    pub files: ManifestFilesAccess,
    #[serde(default)]
    pub clock: bool,
    #[serde(default)]
    pub random: bool,
    #[serde(default)]
    pub chat: bool,
    #[serde(default)]
    pub kv: ManifestKvAccess,
    #[serde(default)]
    pub models: ManifestNamesAccess,
    #[serde(default)]
    pub http: ManifestHttpAccess,
    #[serde(default)]
    pub credentials: ManifestNamesAccess,
    #[serde(default)]
    pub powers: Powers,
    #[serde(default)]
    pub programs: bool,
    pub wasi: Option<ManifestWasiBase>,
}

impl ManifestWants {
    /// Returns the requested capabilities, without what only a manifest says of them.
    pub fn requested(self) -> Result<RequestedCapabilities, String> {
        let Self { files, clock, random, chat, kv, models, http, credentials, powers, programs, wasi: _ } = self;
        Ok(RequestedCapabilities {
            files: files.wanted(),
            clock,
            random,
            chat,
            kv: kv.wanted().is_some(),
            models: models.wanted().0,
            http: http.wanted()?,
            credentials: credentials.wanted().0,
            powers,
            programs,
        })
    }
}

/// The request for the base of WASI, which has one form.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ManifestWasiBase {
    Powerless,
}

/// The request for models beside the agent's own, or for credentials; either can be optional.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected `true` or `\"optional\"`")]
pub(super) enum ManifestNamesAccess {
    Any(bool),
    Some(ManifestOptionalKeyword),
}

impl ManifestNamesAccess {
    /// Returns whether anything is wanted, and whether it is optional.
    pub fn wanted(self) -> (bool, bool) {
        match self {
            Self::Any(wanted) => (wanted, false),
            Self::Some(ManifestOptionalKeyword::Optional) => (true, true),
        }
    }
}

/// The request for access to files, which can be optional.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ManifestFilesAccess {
    #[default]
    #[serde(skip)]
    None,
    Read,
    Write,
    /// Read access, if the config grants any folder.
    Optional,
}

impl ManifestFilesAccess {
    pub fn wanted(self) -> Option<FileAccess> {
        match self {
            Self::None => None,
            Self::Read | Self::Optional => Some(FileAccess::Read),
            Self::Write => Some(FileAccess::Write),
        }
    }
}

/// The request to send HTTP requests: anywhere, or to these URLs.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected `true`, or a list of URLs such as `[\"https://api.example.com\"]`")]
pub(super) enum ManifestHttpAccess {
    Any(bool),
    Some(Vec<String>),
}

impl Default for ManifestHttpAccess {
    fn default() -> Self {
        Self::Any(false)
    }
}

impl ManifestHttpAccess {
    pub fn wanted(&self) -> Result<HttpGrant, String> {
        match self {
            Self::Any(false) => Ok(HttpGrant::default()),
            Self::Any(true) => Ok(HttpGrant::all()),
            Self::Some(urls) if urls.is_empty() || urls.len() > limits::HTTP_ENTRIES => {
                Err(format!("http: name 1 to {} URLs, or write `http = true`", limits::HTTP_ENTRIES))
            }
            Self::Some(urls) => urls.iter().try_fold(HttpGrant::default(), |all, url| {
                HttpGrant::all_below(url).map(|one| all.join(&one)).map_err(|error| format!("http: {error}"))
            }),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ManifestOptionalKeyword {
    Optional,
}

impl Default for ManifestNamesAccess {
    fn default() -> Self {
        Self::Any(false)
    }
}

/// The request for a key-value store, and the scope that the plugin is made for.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "expected `true`, or one of `run`, `session`, `agent` and `plugin`")]
pub(super) enum ManifestKvAccess {
    Any(bool),
    One(KvScope),
}

impl ManifestKvAccess {
    /// Returns the scope of the requested store; `None`: no store is requested.
    pub fn wanted(self) -> Option<KvScope> {
        match self {
            Self::Any(false) => None,
            Self::Any(true) => Some(KvScope::Session),
            Self::One(scope) => Some(scope),
        }
    }
}

impl Default for ManifestKvAccess {
    fn default() -> Self {
        Self::Any(false)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestEffect {
    pub phases: Vec<EffectPhase>,
    #[serde(default)]
    pub shortens: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestRunMiddleware {
    #[serde(default)]
    pub before_only: bool,
}

/// The table `[build]`: what a project is built from. Only `shelly-host plugin build` reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestBuild {
    /// The language; without it the files of the project tell it.
    pub language: Option<String>,
    /// The engine of JavaScript; without it SpiderMonkey.
    pub engine: Option<String>,
    /// The world in the project's WIT; without it the only one.
    pub world: Option<String>,
    /// The source, below the folder of the manifest; without it the usual one of the language.
    pub source: Option<String>,
}
