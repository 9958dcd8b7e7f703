//! Permissions of plugins and budgets of runs: plain data and its algebra, no I/O.
//!
//! A manifest states which capabilities a plugin [requests](RequestedCapabilities), an agent's config which it is
//! [granted](Grant). A plugin gets the meet of both and of the [`Ceiling`] under which its agent was started: nothing that
//! it did not request, nothing that the agent does not grant, nothing that the starting agent may not pass on.
//!
//! A [`Budget`] states what a run may spend; a [`BudgetAccount`] tracks what is left of it.

mod address;
mod budget;
mod budget_account;
mod budget_exhausted;
mod ceiling;
mod ceiling_json;
mod files;
mod grant;
mod http;
mod kv;
mod missing_capability;
mod money;
mod names;
mod permission;
mod power;
mod promptable_capability;

pub use address::is_public;
pub use budget::{AllocationBounds, Budget};
pub use budget_account::{
    BudgetAccount, BudgetAllocation, BudgetBreakdown, BudgetOvershoot, BudgetUsage, RestoredAllocation,
};
pub use budget_exhausted::BudgetExhausted;
pub use ceiling::{CapabilityDecision, Ceiling, CeilingBound};
pub use files::{FileAccess, FileGrant};
pub use grant::{Capability, Grant, RequestedCapabilities};
pub use http::{AllowedAddresses, HttpGrant, HttpRule, READING_METHODS, is_localhost, is_method, loopback};
pub use kv::{KvScope, KvScopes};
pub use missing_capability::MissingCapability;
pub use money::{ParseUsdError, Price, Usd};
pub use names::NameSet;
pub use power::{Power, Powers};
pub use promptable_capability::PromptableCapability;
