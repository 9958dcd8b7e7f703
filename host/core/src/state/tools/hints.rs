//! The declared side effects of the tools for shared state.

use crate::{
    chat::ToolHints,
    tool::{ConcurrencyDomain, ToolConcurrency},
};

/// The hints of a tool that only reads.
pub(super) const READS: ToolHints =
    ToolHints { read_only: true, non_destructive: true, idempotent: true, closed_world: true };
/// The hints of a tool that adds something with each call.
pub(super) const ADDS: ToolHints =
    ToolHints { read_only: false, non_destructive: true, idempotent: false, closed_world: true };
/// The hints of a tool that replaces or removes something.
pub(super) const CHANGES: ToolHints =
    ToolHints { read_only: false, non_destructive: false, idempotent: false, closed_world: true };

/// Returns the concurrency of a tool with these hints, relative to other calls on the named resource.
pub(super) fn concurrency(hints: ToolHints, of: &str) -> ToolConcurrency {
    ToolConcurrency::touching(hints, [ConcurrencyDomain::named(of)])
}

/// Returns the concurrency of a tool that waits for changes of the named resource.
pub(super) fn watches(of: &str) -> ToolConcurrency {
    ToolConcurrency::Watches([ConcurrencyDomain::named(of)].into())
}
