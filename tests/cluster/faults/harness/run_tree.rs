//! The runs of a trial, each with those that it has begun on other workers.

use std::collections::BTreeMap;

use shelly_host::cluster::{RunEndState, RunEntry};

use super::{
    model::ModelRecord,
    tasks::{PLACED, PlacedPart, TaskKind, kind_of},
    trial::Trial,
};

/// A run, those that it has begun on other workers, and its model.
pub struct RunTree<'a> {
    pub root: &'a RunEntry,
    pub children: Vec<&'a RunEntry>,
    pub kind: TaskKind,
    pub record: ModelRecord,
}

impl<'a> RunTree<'a> {
    /// Returns the trees of these entries; those whose root is not there are left out.
    pub fn all(trial: &Trial<'_>, entries: &'a [RunEntry]) -> Vec<Self> {
        let parents: BTreeMap<&str, &RunEntry> =
            entries.iter().map(|entry| (entry.spec.session.as_str(), entry)).collect();
        let root_of = |entry: &'a RunEntry| {
            let mut root = entry;
            // A chain is not longer than there are agents.
            for _ in 0..PLACED.len() {
                let Some(parent) = &root.spec.parent else { break };
                root = *parents.get(parent.session.as_str())?;
            }
            Some(root.spec.id.as_str())
        };
        let mut children: BTreeMap<&str, Vec<&RunEntry>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.spec.parent.is_some()) {
            if let Some(root) = root_of(entry) {
                children.entry(root).or_default().push(entry);
            }
        }
        let roots = entries.iter().filter(|entry| entry.spec.parent.is_none());
        let tree = |root: &'a RunEntry| {
            let id = root.spec.id.as_str();
            let children = children.remove(id).unwrap_or_default();
            Self { root, children, kind: kind_of(id), record: trial.model.record(id) }
        };
        roots.map(tree).collect()
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &'a str {
        &self.root.spec.id
    }

    /// Returns all runs of the tree with their parts.
    pub fn runs(&self) -> impl Iterator<Item = (&'a RunEntry, u32)> {
        let part = |entry: &'a RunEntry| (entry, part_of(entry));
        std::iter::once((self.root, 0)).chain(self.children.clone().into_iter().map(part))
    }

    /// Returns the part whose run does this part: that of the root, unless an agent on another worker does it.
    pub fn owner(&self, part: u32) -> u32 {
        let is_placed = PLACED.iter().any(|placed| placed.kind == self.kind && placed.part == part);
        if is_placed { part } else { 0 }
    }

    /// Returns `true` if three workers died with one of the runs that it has begun.
    pub fn has_poisoned_child(&self) -> bool {
        self.children.iter().any(|child| is_poisoned(child))
    }
}

/// Returns the part of the agent with a place that a run is of; 0 if it is of another one.
pub fn part_of(entry: &RunEntry) -> u32 {
    entry.spec.agent.as_deref().and_then(PlacedPart::of).map_or(0, |placed| placed.part)
}

/// Returns `true` if three workers died with a run.
pub fn is_poisoned(entry: &RunEntry) -> bool {
    entry.ending().is_some_and(|ending| ending.state == RunEndState::Poisoned)
}
