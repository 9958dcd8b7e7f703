use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

/// A set of config names, such as models or credentials. A lattice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NameSet(Option<BTreeSet<String>>);

impl Default for NameSet {
    /// Returns the empty set.
    fn default() -> Self {
        Self(Some(BTreeSet::new()))
    }
}

impl NameSet {
    /// Returns the set of all names.
    pub fn all() -> Self {
        Self(None)
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Returns `true` if the set contains `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.contains(name))
    }

    /// Iterates over the names, sorted; empty for the set of all names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flatten().map(String::as_str)
    }

    /// Returns the names; `None` for the set of all names.
    pub(super) fn listed(&self) -> Option<&BTreeSet<String>> {
        self.0.as_ref()
    }

    /// Returns the set of these names; `None` for the set of all names.
    pub(super) fn of_listed(names: Option<BTreeSet<String>>) -> Self {
        Self(names)
    }

    /// Returns what both allow.
    pub fn meet(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) => Self(Some(one & two)),
            (one, two) => Self(one.clone().or_else(|| two.clone())),
        }
    }

    /// Returns what at least one of them allows.
    pub fn join(&self, other: &Self) -> Self {
        Self(self.0.as_ref().zip(other.0.as_ref()).map(|(one, two)| one | two))
    }

    /// Returns the names that `other` allows and this set does not; `any` is the placeholder for an unnamed one.
    pub(super) fn lacking<'a>(&'a self, other: &'a Self, any: &'a str) -> Vec<&'a str> {
        match (&self.0, &other.0) {
            (None, _) => Vec::new(),
            (Some(_), None) => vec![any],
            (Some(here), Some(wanted)) => wanted.difference(here).map(String::as_str).collect(),
        }
    }
}

impl FromIterator<String> for NameSet {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        Self(Some(names.into_iter().collect()))
    }
}

/// Serializes as a list of names, as in the config; `*` for all.
impl Serialize for NameSet {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(names) => to.collect_seq(names),
            None => to.collect_seq(["*"]),
        }
    }
}
