//! Approvals of tools that sources outside of the config describe: MCP servers, and OpenAPI documents at URLs.

use super::App;
use crate::{error::Report, limits, mcp::Pins, trust::PinnedServer};

impl App {
    /// Returns the approved tools of a source with this name and this target; `None` if nothing was approved yet.
    pub(super) fn pins_of(&self, name: &str, target: &str) -> Result<Option<Pins>, Report> {
        let answered = self.trust.of(&self.config.root).map_err(|error| error.report())?;
        let pinned = answered.servers.into_iter().find(|pinned| pinned.name == name && pinned.target == target);
        Ok(pinned.map(|pinned| pinned.tools.into_iter().collect()))
    }

    /// Stores the approved tools of a source.
    pub(super) fn keep_pins(&self, name: String, target: String, pins: &Pins) -> Result<(), Report> {
        let tools = pins.iter().map(|(name, digest)| (name.to_owned(), digest.to_owned())).collect();
        let pinned = PinnedServer { name, target, tools };
        let kept = self.trust.change(&self.config.root, |answered| answered.pin(pinned));
        kept.map_err(|error| error.report())
    }
}

/// Returns warnings about tools that are ignored because they are new, or have changed since they were approved. `place` is
/// the position of the source in the config, and `command` the one that lists and approves its tools.
pub(super) fn unapproved_warnings(
    place: &str,
    (command, name): (&str, &str),
    new: &[&str],
    changed: &[&str],
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (what, names) in [("new", new), ("changed since you approved it", changed)] {
        if names.is_empty() {
            continue;
        }
        let (count, beyond) = (names.len(), names.len().saturating_sub(limits::NAMES_SHOWN));
        let more = if beyond > 0 { format!(" and {beyond} more") } else { String::new() };
        let shown = names[..count - beyond].iter().map(|name| format!("`{}`", name.escape_debug()));
        let shown = shown.collect::<Vec<_>>().join(", ");
        warnings.push(format!(
            "{place}: ignoring {shown}{more} ({what}); review with `shelly-host {command} list {name}`, approve with \
             `shelly-host {command} approve {name}`"
        ));
    }
    warnings
}
