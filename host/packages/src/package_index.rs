//! Indexes of plugins: a JSON file that anyone can host.

use serde::{Deserialize, Serialize};
use shelly_core::limits;

use crate::{package_error::PackageError, package_source::PackageSource};

/// An index of plugins: `{"plugins": [{"id": …, "description": …, "source": …}]}`, and of agent packages under `agents`. Unknown keys
/// are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PackageIndex {
    plugins: Vec<IndexedPackage>,
    #[serde(default)]
    agents: Vec<IndexedPackage>,
}

/// A plugin or an agent package in an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedPackage {
    /// The id, by which a person installs it.
    pub id: String,
    /// The purpose of the plugin.
    #[serde(default)]
    pub description: String,
    /// The source: a URL, or an artifact in a registry.
    pub source: String,
}

impl PackageIndex {
    /// Parses an index. `of` names it in errors.
    ///
    /// # Errors
    ///
    /// [`PackageError::Index`].
    pub fn parse(of: &str, bytes: &[u8]) -> Result<Self, PackageError> {
        let wrong = |why: String| PackageError::Index { of: of.to_owned(), why };
        if bytes.len() as u64 > limits::PACKAGE_INDEX_BYTES {
            return Err(wrong(format!("it has more than {} bytes", limits::PACKAGE_INDEX_BYTES)));
        }
        serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))
    }

    /// Returns the source of the plugin of this id.
    ///
    /// # Errors
    ///
    /// [`PackageError::Source`] if the index names none that others can use.
    pub fn find(&self, id: &str) -> Option<Result<PackageSource, PackageError>> {
        let found = self.plugins.iter().find(|plugin| plugin.id == id)?;
        Some(PackageSource::parse(&found.source).and_then(|source| found.checked(source)))
    }

    /// Returns the source of the agent package of this id.
    ///
    /// # Errors
    ///
    /// [`PackageError::Source`] if the index names none that others can use.
    pub fn find_agent(&self, id: &str) -> Option<Result<PackageSource, PackageError>> {
        let found = self.agents.iter().find(|package| package.id == id)?;
        Some(PackageSource::parse_agent(&found.source).and_then(|source| found.checked(source)))
    }

    /// Returns the plugins in whose id or description all of these words are, ignoring case.
    pub fn search<'a>(&'a self, words: &'a [String]) -> impl Iterator<Item = &'a IndexedPackage> {
        let words: Vec<_> = words.iter().map(|word| word.to_lowercase()).collect();
        self.plugins.iter().filter(move |plugin| {
            let text = format!("{} {}", plugin.id, plugin.description).to_lowercase();
            words.iter().all(|word| text.contains(word))
        })
    }

    /// Returns the ids of all plugins.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.plugins.iter().map(|plugin| plugin.id.as_str())
    }

    /// Returns the ids of all agent packages.
    pub fn agent_ids(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(|package| package.id.as_str())
    }
}

impl IndexedPackage {
    /// Refuses a path: an index of somebody else says nothing about the files of this machine.
    fn checked(&self, source: PackageSource) -> Result<PackageSource, PackageError> {
        match source {
            PackageSource::Path(_) => Err(PackageError::Source {
                text: self.source.chars().take(80).collect(),
                why: "an index names URLs and artifacts of registries".to_owned(),
            }),
            source => Ok(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = r#"{"plugins": [
        {"id": "dice", "description": "Rolls dice.", "source": "oci://ghcr.io/me/dice:1.0.0", "stars": 3},
        {"id": "words", "source": "https://plugins.example/words.wasm"},
        {"id": "local", "source": "/etc/passwd"}
    ], "agents": [{"id": "reviewer", "source": "https://agents.example/agent.toml"}, {"id": "local", "source": "/etc"}]}"#;

    #[test]
    fn plugins_are_found_by_id_and_by_words() {
        let index = PackageIndex::parse("i", INDEX.as_bytes()).unwrap();
        assert_eq!(index.find("dice").unwrap().unwrap().to_string(), "oci://ghcr.io/me/dice:1.0.0");
        assert!(index.find("cards").is_none() && index.ids().count() == 3);
        let report = index.find("local").unwrap().unwrap_err().report();
        assert_eq!(report.causes, ["an index names URLs and artifacts of registries"]);
        assert_eq!(index.find_agent("reviewer").unwrap().unwrap().to_string(), "https://agents.example/agent.toml");
        assert!(index.find_agent("dice").is_none() && index.find_agent("local").unwrap().is_err());
        assert!(index.agent_ids().eq(["reviewer", "local"]));
        let found = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            index.search(&words).map(|plugin| plugin.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found(&["ROLLS", "dice"]), ["dice"]);
        assert_eq!(found(&["rolls", "words"]), [""; 0]);
        assert_eq!(found(&[]).len(), 3);
    }

    #[test]
    fn malformed_or_large_index_is_refused() {
        let large = " ".repeat(usize::try_from(limits::PACKAGE_INDEX_BYTES).unwrap() + 1);
        for (text, says) in [
            ("[1", "line 1"),
            (r#"{"plugins": [{"id": "x"}]}"#, "`source`"),
            (large.as_str(), "more than 8388608 bytes"),
        ] {
            let report = PackageIndex::parse("i", text.as_bytes()).unwrap_err().report();
            assert!(report.causes[0].contains(says), "{report}");
        }
    }
}
