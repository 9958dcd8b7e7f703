use serde::Deserialize;
use serde_json::{Map, Value};

use super::{case_host::CaseHostFixture, expectation::CaseExpectation};
use crate::{
    config::PluginUse,
    trial::fixture::{RequestFixture, StepFixture},
};

/// A test case of a plugin: one call with its grants, the answers of its host, and the expected outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginCase {
    /// The name, which no other case of the file has.
    pub name: String,
    /// The expected outcome.
    pub expect: CaseExpectation,
    pub(super) input: CaseInput,
    /// The grants, with the params and the limits of the case.
    pub(super) uses: PluginUse,
    pub(super) host: CaseHostFixture,
}

impl PluginCase {
    /// Returns `true` if the grants name programs or credentials, which only a config can define.
    pub fn names_config_entries(&self) -> bool {
        !self.uses.programs.is_empty() || !self.uses.credentials.is_empty()
    }
}

/// The call of a test case.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CaseInput {
    Call(CaseToolCall),
    Step(Box<StepFixture>),
    Complete(Box<RequestFixture>),
}

/// The tool call of a test case.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseToolCall {
    /// The name of the tool.
    pub tool: String,
    /// The arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}
