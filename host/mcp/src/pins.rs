//! Approvals of a server's tools, by digest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::listing::McpToolListing;

/// The approved tools of one server, each by the digest of its whole description: name, title, description, schemas,
/// annotations. In JSON, an object of digests by the server's own tool names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pins(BTreeMap<String, String>);

/// The relation of a tool to its approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PinStatus {
    /// Unchanged since its approval.
    Unchanged,
    /// Never approved.
    New,
    /// Described in another way than when it was approved.
    Changed,
    /// Approved, and no longer there.
    Gone,
}

impl FromIterator<(String, String)> for Pins {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(tools: T) -> Self {
        Self(tools.into_iter().collect())
    }
}

impl Pins {
    /// Approves all tools of a listing as they are now.
    pub fn of(listing: &McpToolListing) -> Self {
        Self(listing.tools.iter().map(|tool| (tool.name.clone(), tool.digest.clone())).collect())
    }

    /// Adds the approvals of `more`.
    pub fn extend(&mut self, more: &Self) {
        self.0.extend(more.0.clone());
    }

    /// Approves one tool with this digest.
    pub fn approve(&mut self, tool: impl Into<String>, digest: impl Into<String>) {
        self.0.insert(tool.into(), digest.into());
    }

    /// Iterates over the approved tools: the server's own name and the digest.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, digest)| (name.as_str(), digest.as_str()))
    }

    /// Returns the status of a tool with this digest.
    pub fn state(&self, tool: &str, digest: &str) -> PinStatus {
        match self.0.get(tool) {
            None => PinStatus::New,
            Some(approved) if approved == digest => PinStatus::Unchanged,
            Some(_) => PinStatus::Changed,
        }
    }

    /// Returns the status of each tool that is listed or was approved, by the server's own names.
    pub fn compare(&self, listing: &McpToolListing) -> BTreeMap<String, PinStatus> {
        let gone = self.0.keys().map(|name| (name.clone(), PinStatus::Gone));
        let there = listing.tools.iter().map(|tool| (tool.name.clone(), self.state(&tool.name, &tool.digest)));
        gone.chain(there).collect()
    }

    /// Returns `true` if no tool was approved.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_compared_with_what_was_approved() {
        let mut pins = Pins::default();
        assert!(pins.is_empty());
        for (name, digest) in [("same", "1"), ("other", "2"), ("gone", "3")] {
            pins.approve(name, digest);
        }
        let listing = McpToolListing::of_digests([("same", "1"), ("other", "9"), ("new", "4")]);
        let states: Vec<_> = pins.compare(&listing).into_iter().collect();
        let expected = [
            ("gone", PinStatus::Gone),
            ("new", PinStatus::New),
            ("other", PinStatus::Changed),
            ("same", PinStatus::Unchanged),
        ];
        assert_eq!(states, expected.map(|(name, state)| (name.to_owned(), state)));
        let json = serde_json::to_string(&pins).unwrap();
        assert_eq!(json, r#"{"gone":"3","other":"2","same":"1"}"#);
        assert_eq!(serde_json::from_str::<Pins>(&json).unwrap(), pins);
        assert!(Pins::of(&listing).compare(&listing).values().all(|state| *state == PinStatus::Unchanged));
    }
}
