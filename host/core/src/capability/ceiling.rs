use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Serialize;

use super::{Budget, Grant, MissingCapability};

/// The bounds that one config path sets: on everything that an agent does itself (`use`), or on everything that it starts
/// (`delegable`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CeilingBound {
    /// The permissions of plugins; `None`: not bounded here.
    pub grant: Option<Grant>,
    /// Permissions beyond `grant` that a person may add while the plugins work.
    pub openable: Grant,
    /// The names of the agents that may be started; `None`: all.
    pub agents: Option<BTreeSet<String>>,
    /// The budget of one started agent.
    pub budget: Budget,
}

impl CeilingBound {
    fn meet(&self, other: &Self) -> Self {
        let grant = match (&self.grant, &other.grant) {
            (Some(one), Some(other)) => Some(one.meet(other)),
            (one, other) => one.as_ref().or(other.as_ref()).cloned(),
        };
        let agents = match (&self.agents, &other.agents) {
            (Some(one), Some(other)) => Some(one & other),
            (one, other) => one.as_ref().or(other.as_ref()).cloned(),
        };
        let openable = match (&self.grant, &other.grant) {
            (Some(_), None) => self.openable.clone(),
            (None, Some(_)) => other.openable.clone(),
            (Some(_), Some(_)) | (None, None) => self.openable.meet(&other.openable),
        };
        Self { grant, openable, agents, budget: self.budget.meet(&other.budget) }
    }
}

/// Bounds that all hold at once, by the config path that sets each: the agent's own `use`, and the `delegable` of the agent
/// that started it, of that agent's starter, and so on. More bounds never allow more.
///
/// ```
/// use shelly_core::capability::{Ceiling, CeilingBound, Grant};
///
/// let clock = CeilingBound { grant: Some(Grant { clock: true, ..Grant::default() }), ..CeilingBound::default() };
/// let given = Grant { clock: true, random: true, ..Grant::default() };
/// let ceiling = Ceiling::of("agents.lead.delegable", clock);
/// assert_eq!(ceiling.narrow(&given), Grant { clock: true, ..Grant::default() });
/// assert_eq!(Ceiling::default().narrow(&given), given);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ceiling(pub(super) BTreeMap<Arc<str>, Arc<CeilingBound>>);

impl Ceiling {
    /// Creates a ceiling of one bound.
    pub fn of(path: impl Into<Arc<str>>, bound: CeilingBound) -> Self {
        Self([(path.into(), Arc::new(bound))].into())
    }

    /// Returns the ceiling that allows no permission and no agent.
    pub fn nothing() -> Self {
        let (grant, agents) = (Some(Grant::default()), Some(BTreeSet::new()));
        Self::of("nothing", CeilingBound { grant, agents, ..CeilingBound::default() })
    }

    /// Returns the ceiling that allows what both allow. A config path normally has one bound; if the two differ, both hold.
    pub fn meet(&self, other: &Self) -> Self {
        let mut both = self.0.clone();
        for (path, bound) in &other.0 {
            let there = both.entry(Arc::clone(path)).or_insert_with(|| Arc::clone(bound));
            if there != bound {
                *there = Arc::new(there.meet(bound));
            }
        }
        Self(both)
    }

    /// Returns the config paths that set a bound: two ceilings of one config with the same paths are equal.
    pub fn paths(&self) -> Vec<Arc<str>> {
        self.0.keys().cloned().collect()
    }

    /// Returns the part of a grant that the ceiling allows.
    pub fn narrow(&self, grant: &Grant) -> Grant {
        self.grants().fold(grant.clone(), |left, (_, bound)| left.meet(bound))
    }

    /// Returns the part of a grant added by a person that the ceiling allows; a bound without a `grant` does not restrict
    /// it.
    pub fn narrow_opened(&self, opened: &Grant) -> Grant {
        let bounds = self.0.values().filter_map(|bound| Some(bound.grant.as_ref()?.join(&bound.openable)));
        bounds.fold(opened.clone(), |left, bound| left.meet(&bound))
    }

    /// Returns the config path that forbids a person to add this grant; `None` if there is none.
    pub fn keeps_shut(&self, wanted: &Grant) -> Option<Arc<str>> {
        let shuts = |bound: &CeilingBound| {
            bound.grant.as_ref().is_some_and(|grant| !grant.join(&bound.openable).covers(wanted))
        };
        self.0.iter().find(|(_, bound)| shuts(bound)).map(|(path, _)| Arc::clone(path))
    }

    /// Returns what the ceiling removes from a grant: the config path, and the line there that would allow it.
    pub fn withheld(&self, grant: &Grant) -> Vec<(Arc<str>, MissingCapability)> {
        let of_path = |(path, bound): (&Arc<str>, &Grant)| {
            let path = Arc::clone(path);
            bound.lacking(grant).into_iter().map(move |missing| (Arc::clone(&path), missing)).collect::<Vec<_>>()
        };
        self.grants().flat_map(of_path).collect()
    }

    /// Returns `true` if an agent of this name may be started.
    pub fn admits(&self, agent: &str) -> bool {
        self.0.values().all(|bound| bound.agents.as_ref().is_none_or(|agents| agents.contains(agent)))
    }

    /// Returns the maximum budget of a started agent.
    pub fn budget(&self) -> Budget {
        self.0.values().fold(Budget::default(), |left, bound| left.meet(&bound.budget))
    }

    fn grants(&self) -> impl Iterator<Item = (&Arc<str>, &Grant)> {
        self.0.iter().filter_map(|(path, bound)| Some((path, bound.grant.as_ref()?)))
    }
}

/// The decision on a capability that a plugin of an agent wants, and the rule that decided it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CapabilityDecision {
    /// The plugin's id.
    pub plugin: Arc<str>,
    /// The name of the capability in manifest and config.
    pub capability: String,
    /// `true` if it is granted.
    pub allowed: bool,
    /// The config path that grants it, or that would have to: `agents.helper.plugins.read-files`.
    pub rule: Arc<str>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::grant::tests::grants, *};

    fn bounds() -> impl Strategy<Value = CeilingBound> {
        let names = prop::collection::btree_set(prop_oneof![Just("x".to_owned()), Just("y".to_owned())], 0..2);
        let tokens = prop::option::of(1_u64..5).prop_map(|tokens| Budget { tokens, ..Budget::default() });
        (prop::option::of(grants()), grants(), prop::option::of(names), tokens)
            .prop_map(|(grant, openable, agents, budget)| CeilingBound { grant, agents, budget, openable })
    }

    /// Ceilings that share config paths, possibly with different bounds.
    fn ceilings() -> impl Strategy<Value = [Ceiling; 3]> {
        let one = || {
            prop::collection::vec((0..4, bounds()), 0..4).prop_map(|bounds| {
                let one = |(at, bound): (i32, CeilingBound)| Ceiling::of(at.to_string(), bound);
                bounds.into_iter().map(one).fold(Ceiling::default(), |all, one| all.meet(&one))
            })
        };
        (one(), one(), one()).prop_map(|(a, b, c)| [a, b, c])
    }

    proptest! {
        #[test]
        fn additional_ceiling_bounds_never_allow_more([a, b, c] in ceilings(), grant in grants()) {
            prop_assert_eq!(a.meet(&a), a.clone());
            prop_assert_eq!(a.meet(&b), b.meet(&a));
            prop_assert_eq!(a.meet(&b).meet(&c), a.meet(&b.meet(&c)));
            let both = a.meet(&b);
            prop_assert_eq!(both.narrow(&grant), a.narrow(&b.narrow(&grant)));
            prop_assert!(grant.covers(&both.narrow(&grant)));
            for name in ["x", "y"] {
                prop_assert_eq!(both.admits(name), a.admits(name) && b.admits(name));
            }
            prop_assert_eq!(both.budget(), a.budget().meet(&b.budget()));
            // A grant added by a person stays below every bound, and is no less than what was granted anyway.
            let opened = a.narrow_opened(&grant);
            prop_assert!(grant.covers(&opened) && opened.covers(&a.narrow(&grant)));
            prop_assert!(opened.covers(&both.narrow_opened(&grant)));
            prop_assert_eq!(a.keeps_shut(&grant).is_none(), opened == grant);
            // Everything that is removed is reported, and nothing else.
            prop_assert_eq!(a.withheld(&grant).is_empty(), a.narrow(&grant) == grant);
        }
    }
}
