use super::{
    catalog::PluginPackage,
    loader::{Plugin, Settings},
};
use crate::{
    capability::{Access, Askable, Grant, Power},
    chat::ToolHints,
    tool::{Concurrency, Domain},
};

/// What calls of a plugin's tools can touch outside of their sandbox, by what the plugin is linked to.
pub(super) struct Reach {
    /// Of a tool that says that it is read-only.
    reading: Concurrency,
    /// Of any other tool.
    changing: Concurrency,
}

impl Reach {
    /// The reach of a plugin with these settings.
    pub fn of(package: &PluginPackage, settings: &Settings) -> Self {
        let manifest = &package.manifest;
        let Grant { files, kv, http, programs, powers, .. } = settings.granted(manifest);
        let may_ask = |what| settings.ask.contains(&what);
        if !programs.is_empty() {
            return Self {
                reading: Concurrency::Anything { changes: false },
                changing: Concurrency::Anything { changes: true },
            };
        }
        let own = Domain::named(manifest.id.as_str());
        let writes_files =
            files.iter().any(|(_, access)| access == Access::Write) || powers.contains(&Power::ProposeFiles);
        // What a person opens is for reading.
        let reads_files = !files.is_empty() || may_ask(Askable::Files);
        let writes_own = !kv.is_empty() || !http.only_reads() || package.offer.is_kept;
        let reads_own = !http.is_empty() || may_ask(Askable::Http);
        let touched = [(Domain::Files, reads_files, writes_files), (own, reads_own, writes_own)];
        let touched = || touched.iter().filter(|(_, reads, writes)| *reads || *writes);
        let of =
            |wanted: bool| touched().filter(move |(.., writes)| *writes == wanted).map(|(domain, ..)| domain.clone());
        let (reads, changes): (Vec<_>, Vec<_>) = (of(false).collect(), of(true).collect());
        let all: Vec<_> = touched().map(|(domain, ..)| domain.clone()).collect();
        let only_reads = ToolHints { read_only: true, ..ToolHints::default() };
        Self {
            changing: match all.is_empty() {
                true => Concurrency::Independent,
                false => Concurrency::Touches { reads: reads.into(), changes: changes.into() },
            },
            reading: Concurrency::touching(only_reads, all),
        }
    }

    /// How a tool of these hints runs beside the other calls of one reply. What a plugin is not linked to it cannot touch,
    /// whatever its hints say.
    pub fn concurrency(&self, hints: ToolHints) -> Concurrency {
        if hints.read_only { self.reading.clone() } else { self.changing.clone() }
    }
}

impl Plugin {
    /// How a tool of these hints runs beside the other calls of one reply.
    pub(super) fn concurrency(&self, hints: ToolHints) -> Concurrency {
        self.reach.concurrency(hints)
    }
}
