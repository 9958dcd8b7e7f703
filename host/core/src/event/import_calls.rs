use schemars::JsonSchema;
use serde::Serialize;

/// The calls of one imported interface within a call of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportCalls {
    /// The interface of the contract, such as `kv`, or the package of WASI, such as `wasi:filesystem`.
    pub interface: &'static str,
    /// The number of calls of its functions.
    pub calls: u64,
}
