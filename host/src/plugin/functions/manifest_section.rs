//! What a `plugin.toml` says of the functions of its component.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::chat::ToolHints;

/// How functions become tools where the component alone does not say enough. Functions go by the names of their tools, as they
/// are without this.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FunctionsManifest {
    /// These alone are tools; none: all of them.
    pub only: Option<Vec<String>>,
    /// These are none.
    pub leave_out: Vec<String>,
    /// How long an instance lasts.
    pub instance: InstanceLifetime,
    /// More on single functions.
    pub functions: BTreeMap<String, FunctionOverrides>,
}

/// How long an instance of a component of kind `functions` lasts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceLifetime {
    /// One call; one run where functions take or give handles, which last no longer than their instance.
    #[default]
    Call,
    /// One run of one agent: what a call leaves behind is there for the next one.
    Run,
}

/// What is said of one function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FunctionOverrides {
    /// The name of its tool.
    pub tool: Option<String>,
    /// What it does, for the model.
    pub description: Option<String>,
    /// What it does to the world.
    pub hints: Vec<FunctionHint>,
    /// What its parameters are.
    pub params: BTreeMap<String, String>,
}

/// One of the hints of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "they are those of `ToolHints`")]
pub enum FunctionHint {
    ReadOnly,
    NonDestructive,
    Idempotent,
    ClosedWorld,
}

impl FunctionOverrides {
    /// Its hints.
    pub fn tool_hints(&self) -> ToolHints {
        let has = |hint| self.hints.contains(&hint);
        ToolHints {
            read_only: has(FunctionHint::ReadOnly),
            non_destructive: has(FunctionHint::NonDestructive),
            idempotent: has(FunctionHint::Idempotent),
            closed_world: has(FunctionHint::ClosedWorld),
        }
    }
}
