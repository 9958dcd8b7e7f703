//! The file as it is written.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    agent::{OnFailure, Phase},
    capability::{Access, Http, KvScope, Powers},
    limits,
    plugin::functions::{Lifetime, OnFunction},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub id: String,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub description: String,
    pub component: String,
    pub kinds: Vec<String>,
    pub params: Option<Vec<String>>,
    #[serde(default)]
    pub wants: FileWants,
    pub effect: Option<FileEffect>,
    #[serde(rename = "run-middleware")]
    pub run_middleware: Option<FileRunMiddleware>,
    pub on_failure: Option<OnFailure>,
    pub only: Option<Vec<String>>,
    pub leave_out: Option<Vec<String>>,
    pub instance: Option<Lifetime>,
    pub functions: Option<BTreeMap<String, OnFunction>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileWants {
    #[serde(default)]
    pub files: FileFiles,
    #[serde(default)]
    pub clock: bool,
    #[serde(default)]
    pub random: bool,
    #[serde(default)]
    pub chat: bool,
    #[serde(default)]
    pub kv: FileKv,
    #[serde(default)]
    pub models: FileNames,
    #[serde(default)]
    pub http: FileHttp,
    #[serde(default)]
    pub credentials: FileNames,
    #[serde(default)]
    pub powers: Powers,
    #[serde(default)]
    pub programs: bool,
    pub wasi: Option<FileWasi>,
}

/// How it wants the base of WASI: there is one way.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileWasi {
    Powerless,
}

/// Whether it wants models beside the agent's own, or credentials, and whether it can do without.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "it is `true` or `\"optional\"`")]
pub(super) enum FileNames {
    Any(bool),
    Some(Optional),
}

impl FileNames {
    /// Whether it wants some, and can do without.
    pub fn wanted(self) -> (bool, bool) {
        match self {
            Self::Any(wanted) => (wanted, false),
            Self::Some(Optional::Optional) => (true, true),
        }
    }
}

/// Which access to files it wants, and whether it can do without.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileFiles {
    #[default]
    #[serde(skip)]
    None,
    Read,
    Write,
    /// To read, if it is given something to read.
    Optional,
}

impl FileFiles {
    pub fn wanted(self) -> Option<Access> {
        match self {
            Self::None => None,
            Self::Read | Self::Optional => Some(Access::Read),
            Self::Write => Some(Access::Write),
        }
    }
}

/// Whether it sends HTTP requests, and where to.
#[derive(Deserialize)]
#[serde(untagged, expecting = "it is `true`, or a list of URLs such as `[\"https://api.example.com\"]`")]
pub(super) enum FileHttp {
    Any(bool),
    Some(Vec<String>),
}

impl Default for FileHttp {
    fn default() -> Self {
        Self::Any(false)
    }
}

impl FileHttp {
    pub fn wanted(&self) -> Result<Http, String> {
        match self {
            Self::Any(false) => Ok(Http::default()),
            Self::Any(true) => Ok(Http::all()),
            Self::Some(urls) if urls.is_empty() || urls.len() > limits::HTTP_ENTRIES => {
                Err(format!("http: name 1 to {} places, or write `http = true`", limits::HTTP_ENTRIES))
            }
            Self::Some(urls) => urls.iter().try_fold(Http::default(), |all, url| {
                Http::place(url).map(|one| all.join(&one)).map_err(|error| format!("http: {error}"))
            }),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Optional {
    Optional,
}

impl Default for FileNames {
    fn default() -> Self {
        Self::Any(false)
    }
}

/// Whether it wants a store, and which one it is made for.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "it is `true`, or one of `run`, `session`, `agent` and `plugin`")]
pub(super) enum FileKv {
    Any(bool),
    One(KvScope),
}

impl Default for FileKv {
    fn default() -> Self {
        Self::Any(false)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileEffect {
    pub phases: Vec<Phase>,
    #[serde(default)]
    pub shortens: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRunMiddleware {
    #[serde(default)]
    pub before_only: bool,
}
