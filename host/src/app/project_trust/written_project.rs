use std::path::PathBuf;

use crate::{
    assemble::App,
    error::Report,
    trust::{InstructionFile, TrustStore},
};

impl App {
    /// Stores the person's consent to the config of the project, which was just written for them, and to those instruction
    /// files that are among `written`. Plugins and permissions in the project are not covered: somebody else may have
    /// brought them.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it cannot be stored.
    pub fn trust_written(&self, store: &TrustStore, written: &[PathBuf]) -> Result<(), Report> {
        let (root, facts) = (&self.config.root, self.config_facts());
        if !facts.is_empty() {
            store.change(root, |answered| answered.facts = facts).map_err(|error| error.report())?;
        }
        // If no instruction files were ever stored, the first run stores them.
        if store.seen_instructions(root).map_err(|error| error.report())?.is_none() {
            return Ok(());
        }
        let written: Vec<_> = written.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let is_written =
            |file: &&InstructionFile| root.join(&file.path).canonicalize().is_ok_and(|path| written.contains(&path));
        let files: Vec<_> = self.project.instructions().iter().filter(is_written).cloned().collect();
        store.keep_instructions(root, &files).map_err(|error| error.report())
    }
}
