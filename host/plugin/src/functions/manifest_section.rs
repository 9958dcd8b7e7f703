//! The settings in `plugin.toml` for the functions of a component.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use shelly_core::chat::ToolHints;

/// The mapping of functions to tools, as far as the component does not determine it. Functions are identified by the
/// names that their tools have without these settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FunctionsManifest {
    /// The functions that become tools; `None` for all.
    pub only: Option<Vec<String>>,
    /// The functions that do not become tools.
    pub leave_out: Vec<String>,
    /// The lifetime of an instance.
    pub instance: InstanceLifetime,
    /// Settings of single functions.
    pub functions: BTreeMap<String, FunctionOverrides>,
}

/// The lifetime of an instance of a component of kind `functions`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceLifetime {
    /// One call; one run if functions pass handles, which last no longer than their instance.
    #[default]
    Call,
    /// One run of one agent: state that a call leaves behind is there for the next one.
    Run,
}

/// The settings of one function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FunctionOverrides {
    /// The name of its tool.
    pub tool: Option<String>,
    /// The description of the tool for the model.
    pub description: Option<String>,
    /// The hints about the tool's effects.
    pub hints: Vec<FunctionHint>,
    /// The descriptions of its parameters.
    pub params: BTreeMap<String, String>,
}

/// A hint about the effects of a tool.
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
    /// Returns the hints of the tool.
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
