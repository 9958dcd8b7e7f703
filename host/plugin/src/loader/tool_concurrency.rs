use super::plugin_settings::PluginSettings;
use crate::package::PluginPackage;
use shelly_core::{
    capability::{FileAccess, Grant, Power, PromptableCapability},
    chat::ToolHints,
    tool::{ConcurrencyDomain, ToolConcurrency},
};

/// The concurrency of the calls of a plugin's tools, derived from what the plugin is linked to.
pub struct PluginToolConcurrency {
    /// For a tool that declares itself read-only.
    reading: ToolConcurrency,
    /// For any other tool.
    changing: ToolConcurrency,
}

impl PluginToolConcurrency {
    /// Returns the concurrency of a plugin with these settings.
    pub fn of(package: &PluginPackage, settings: &PluginSettings) -> Self {
        let manifest = &package.manifest;
        let Grant { files, kv, http, programs, powers, .. } = settings.granted(manifest);
        let may_ask = |what| settings.ask.contains(&what);
        if !programs.is_empty() {
            return Self {
                reading: ToolConcurrency::Anything { changes: false },
                changing: ToolConcurrency::Anything { changes: true },
            };
        }
        let own = ConcurrencyDomain::named(manifest.id.as_str());
        let writes_files =
            files.iter().any(|(_, access)| access == FileAccess::Write) || powers.contains(&Power::ProposeFiles);
        // A person opens files for reading only.
        let reads_files = !files.is_empty() || may_ask(PromptableCapability::Files);
        let writes_own = !kv.is_empty() || !http.only_reads() || package.offer.is_kept;
        let reads_own = !http.is_empty() || may_ask(PromptableCapability::Http);
        let touched = [(ConcurrencyDomain::Files, reads_files, writes_files), (own, reads_own, writes_own)];
        let touched = || touched.iter().filter(|(_, reads, writes)| *reads || *writes);
        let of =
            |wanted: bool| touched().filter(move |(.., writes)| *writes == wanted).map(|(domain, ..)| domain.clone());
        let (reads, changes): (Vec<_>, Vec<_>) = (of(false).collect(), of(true).collect());
        let all: Vec<_> = touched().map(|(domain, ..)| domain.clone()).collect();
        let only_reads = ToolHints { read_only: true, ..ToolHints::default() };
        Self {
            changing: match all.is_empty() {
                true => ToolConcurrency::Independent,
                false => ToolConcurrency::Touches { reads: reads.into(), changes: changes.into() },
            },
            reading: ToolConcurrency::touching(only_reads, all),
        }
    }

    /// Returns the concurrency of a tool with these hints beside the other calls of one reply. A plugin cannot touch
    /// anything that it is not linked to, whatever its hints say.
    pub fn concurrency(&self, hints: ToolHints) -> ToolConcurrency {
        if hints.read_only { self.reading.clone() } else { self.changing.clone() }
    }
}
