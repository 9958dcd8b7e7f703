//! The forms in which capabilities are granted, and those in which a plugin requests them.

use std::{collections::BTreeSet, path::Path};

use super::{FileAccess, FileGrant, HttpGrant, KvScope, KvScopes, MissingCapability, NameSet, Power, Powers};

/// A lattice, whose least value allows nothing.
pub(super) trait Lattice {
    /// Returns `true` if nothing is allowed.
    fn is_nothing(&self) -> bool;

    /// Returns what both allow.
    fn meet(&self, other: &Self) -> Self;

    /// Returns what at least one of them allows.
    fn join(&self, other: &Self) -> Self;
}

/// The granted part of one capability.
pub(super) trait Permission: Lattice {
    /// Returns what `other` allows and this does not, with the config lines that would grant it. `name` is the config key,
    /// and `example` stands for a value that is not known.
    fn lacking(&self, other: &Self, name: &str, example: &str) -> Vec<MissingCapability>;
}

/// The request of a plugin for one capability.
pub(super) trait CapabilityRequest {
    /// Returns what both request.
    fn meet(&self, other: &Self) -> Self;

    /// Adds the least that can be requested, unless a request has to say what it is for.
    fn add_least(&mut self);
}

/// A request for a capability that is granted as `G`.
pub(super) trait RequestFor<G: Permission> {
    /// Returns the grant of all that is requested.
    fn grant(&self) -> G;

    /// Returns what has to be granted besides `given` before the request counts as satisfied.
    fn unsatisfied(&self, given: &G) -> G;

    /// Returns the parts of `given` that are not requested, as they are named in a config.
    fn unwanted(&self, given: &G, name: &str) -> Option<String>;
}

fn line(name: &str, value: impl std::fmt::Display) -> Vec<MissingCapability> {
    vec![MissingCapability { capability: name.into(), line: format!("{name}: {value}") }]
}

/// Returns a line with a list; none for an empty list.
fn list(name: &str, values: &[impl AsRef<str>]) -> Vec<MissingCapability> {
    match values {
        [] => Vec::new(),
        values => line(name, listed(values)),
    }
}

fn listed(values: &[impl AsRef<str>]) -> String {
    let values: Vec<_> = values.iter().map(AsRef::as_ref).collect();
    format!("[{}]", values.join(", "))
}

/// Returns the name of a capability that is granted as a whole and not requested at all.
fn unrequested<G: Permission>(given: &G, is_requested: bool, name: &str) -> Option<String> {
    (!given.is_nothing() && !is_requested).then(|| name.to_owned())
}

impl Lattice for bool {
    fn is_nothing(&self) -> bool {
        !self
    }

    fn meet(&self, other: &Self) -> Self {
        *self && *other
    }

    fn join(&self, other: &Self) -> Self {
        *self || *other
    }
}

/// Sets of scopes and of powers.
impl<T: Ord + Clone> Lattice for BTreeSet<T> {
    fn is_nothing(&self) -> bool {
        self.is_empty()
    }

    fn meet(&self, other: &Self) -> Self {
        self & other
    }

    fn join(&self, other: &Self) -> Self {
        self | other
    }
}

/// Implements [`Lattice`] for grants by their methods of the same meaning.
macro_rules! lattices {
    ($($grant:ty),*) => {$(
        impl Lattice for $grant {
            fn is_nothing(&self) -> bool {
                self.is_empty()
            }

            fn meet(&self, other: &Self) -> Self {
                self.meet(other)
            }

            fn join(&self, other: &Self) -> Self {
                self.join(other)
            }
        }
    )*};
}

lattices!(FileGrant, NameSet, HttpGrant);

impl Permission for bool {
    fn lacking(&self, other: &Self, name: &str, _: &str) -> Vec<MissingCapability> {
        if *other && !self { line(name, true) } else { Vec::new() }
    }
}

impl Permission for FileGrant {
    fn lacking(&self, other: &Self, name: &str, example: &str) -> Vec<MissingCapability> {
        let lacks = |(path, access): &(&Path, FileAccess)| self.access(path) < Some(*access);
        let folder = |(path, access): (&Path, FileAccess)| {
            let path = if path.as_os_str().is_empty() { example.into() } else { path.to_string_lossy() };
            let mode = if access == FileAccess::Write { "write" } else { "read" };
            line(name, format!("[{{path: {path}, mode: {mode}}}]"))
        };
        other.iter().filter(lacks).flat_map(folder).collect()
    }
}

impl Permission for KvScopes {
    fn lacking(&self, other: &Self, name: &str, _: &str) -> Vec<MissingCapability> {
        let scopes: Vec<_> = (other - self).iter().map(KvScope::to_string).collect();
        match &scopes[..] {
            [one] => line(name, one),
            scopes => list(name, scopes),
        }
    }
}

impl Permission for NameSet {
    fn lacking(&self, other: &Self, name: &str, example: &str) -> Vec<MissingCapability> {
        list(name, &self.lacking(other, example))
    }
}

impl Permission for HttpGrant {
    fn lacking(&self, other: &Self, name: &str, _: &str) -> Vec<MissingCapability> {
        list(name, &self.lacking(other))
    }
}

impl Permission for Powers {
    fn lacking(&self, other: &Self, name: &str, _: &str) -> Vec<MissingCapability> {
        let powers: Vec<_> = (other - self).iter().map(Power::to_string).collect();
        list(name, &powers)
    }
}

impl CapabilityRequest for bool {
    fn meet(&self, other: &Self) -> Self {
        *self && *other
    }

    fn add_least(&mut self) {
        *self = true;
    }
}

impl RequestFor<bool> for bool {
    fn grant(&self) -> bool {
        *self
    }

    fn unsatisfied(&self, _: &bool) -> bool {
        *self
    }

    fn unwanted(&self, given: &bool, name: &str) -> Option<String> {
        unrequested(given, *self, name)
    }
}

/// A store: any one of the scopes is enough.
impl RequestFor<KvScopes> for bool {
    fn grant(&self) -> KvScopes {
        if *self { KvScope::ALL.into() } else { KvScopes::new() }
    }

    fn unsatisfied(&self, given: &KvScopes) -> KvScopes {
        if *self && given.is_empty() { [KvScope::Run].into() } else { KvScopes::new() }
    }

    fn unwanted(&self, given: &KvScopes, name: &str) -> Option<String> {
        unrequested(given, *self, name)
    }
}

/// Named things: any one of them is enough.
impl RequestFor<NameSet> for bool {
    fn grant(&self) -> NameSet {
        if *self { NameSet::all() } else { NameSet::default() }
    }

    fn unsatisfied(&self, given: &NameSet) -> NameSet {
        if *self && given.is_empty() { NameSet::all() } else { NameSet::default() }
    }

    fn unwanted(&self, given: &NameSet, name: &str) -> Option<String> {
        unrequested(given, *self, name)
    }
}

impl CapabilityRequest for Option<FileAccess> {
    fn meet(&self, other: &Self) -> Self {
        *self.min(other)
    }

    fn add_least(&mut self) {
        *self = (*self).max(Some(FileAccess::Read));
    }
}

impl RequestFor<FileGrant> for Option<FileAccess> {
    fn grant(&self) -> FileGrant {
        self.map(FileGrant::everywhere).unwrap_or_default()
    }

    fn unsatisfied(&self, given: &FileGrant) -> FileGrant {
        // One writable folder is enough, the others may be meant for reading.
        self.filter(|wanted| !given.iter().any(|(_, given)| given >= *wanted)).grant()
    }

    fn unwanted(&self, given: &FileGrant, name: &str) -> Option<String> {
        unrequested(given, self.is_some(), name)
    }
}

impl CapabilityRequest for HttpGrant {
    fn meet(&self, other: &Self) -> Self {
        self.meet(other)
    }

    /// Adds nothing: a request names its servers.
    fn add_least(&mut self) {}
}

impl RequestFor<Self> for HttpGrant {
    fn grant(&self) -> Self {
        self.clone()
    }

    fn unsatisfied(&self, given: &Self) -> Self {
        // A partial grant of the requested URLs is a deliberate choice.
        if given.meet(self).is_empty() { self.clone() } else { Self::default() }
    }

    fn unwanted(&self, given: &Self, name: &str) -> Option<String> {
        if self.is_empty() {
            return unrequested(given, false, name);
        }
        let elsewhere = given.apart_from(self);
        (!elsewhere.is_empty()).then(|| format!("{name}: {}", listed(&elsewhere)))
    }
}

impl CapabilityRequest for Powers {
    fn meet(&self, other: &Self) -> Self {
        self & other
    }

    /// Adds nothing: a request names its powers.
    fn add_least(&mut self) {}
}

impl RequestFor<Self> for Powers {
    fn grant(&self) -> Self {
        self.clone()
    }

    fn unsatisfied(&self, _: &Self) -> Self {
        self.clone()
    }

    fn unwanted(&self, given: &Self, name: &str) -> Option<String> {
        let powers: Vec<_> = (given - self).iter().map(Power::to_string).collect();
        (!powers.is_empty()).then(|| format!("{name}: {}", listed(&powers)))
    }
}
