use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::Agent;

/// Makes a fresh agent for each task that is delegated to it.
pub type Factory = Arc<dyn Fn() -> Agent + Send + Sync>;

/// What others are told of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its name.
    pub name: Arc<str>,
    /// What it is good for.
    pub description: Arc<str>,
    /// Words for what it can do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// What asking it costs, roughly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_cost: Option<Cost>,
    /// How many of it may work at once, at least 1; none: as many as there are places.
    #[serde(skip)]
    pub max_concurrency: Option<u32>,
}

impl Entry {
    /// An agent with a name and a description.
    pub fn new(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> Self {
        let (name, description) = (name.into(), description.into());
        Self { name, description, skills: Vec::new(), estimated_cost: None, max_concurrency: None }
    }
}

/// What asking an agent costs, roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cost {
    /// A little.
    Cheap,
    /// Some.
    Medium,
    /// A lot.
    Expensive,
}

impl Cost {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cheap => "cheap",
            Self::Medium => "medium",
            Self::Expensive => "expensive",
        }
    }
}

/// Who there is to delegate to. Clones are the same registry.
///
/// ```
/// use std::sync::Arc;
/// use shelly_host::{agent::{Agent, Entry, Registry}, model::ScriptedCompleter};
///
/// let registry = Registry::new();
/// registry.register(Entry::new("writer", "Writes summaries"), || {
///     Agent::new("writer", "Write clearly.", Arc::new(ScriptedCompleter::new([])))
/// });
/// assert_eq!(registry.list()[0].name.as_ref(), "writer");
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    agents: Arc<RwLock<BTreeMap<Arc<str>, Registered>>>,
}

struct Registered {
    entry: Entry,
    factory: Factory,
    places: Option<Arc<Semaphore>>,
    /// How many instances have been named.
    named: Arc<AtomicU32>,
}

/// An agent that was made for a task.
pub(super) struct Spawned {
    pub agent: Agent,
    pub places: Option<Arc<Semaphore>>,
}

impl Registry {
    /// Nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an agent. One of the same name is replaced; its instances go on, and numbers go on counting.
    pub fn register(&self, entry: Entry, factory: impl Fn() -> Agent + Send + Sync + 'static) {
        let mut agents = self.agents.write().unwrap_or_else(PoisonError::into_inner);
        let named = agents.get(&entry.name).map(|before| Arc::clone(&before.named)).unwrap_or_default();
        let places = entry.max_concurrency.map(|most| Arc::new(Semaphore::new(most.max(1) as usize)));
        let name = Arc::clone(&entry.name);
        agents.insert(name, Registered { entry, factory: Arc::new(factory), places, named });
    }

    /// What makes the agent of this name.
    pub fn get(&self, name: &str) -> Option<Factory> {
        self.look(name, |there| Arc::clone(&there.factory))
    }

    /// Everyone, sorted by name.
    pub fn list(&self) -> Vec<Entry> {
        let agents = self.agents.read().unwrap_or_else(PoisonError::into_inner);
        agents.values().map(|registered| registered.entry.clone()).collect()
    }

    /// A fresh agent of this name, whatever its factory calls it.
    pub fn spawn(&self, name: &str) -> Option<Agent> {
        self.make(name).map(|spawned| spawned.agent)
    }

    pub(super) fn make(&self, name: &str) -> Option<Spawned> {
        let (name, factory, places) =
            self.look(name, |there| (Arc::clone(&there.entry.name), Arc::clone(&there.factory), there.places.clone()))?;
        let mut agent = factory();
        agent.name = name;
        Some(Spawned { agent, places })
    }

    /// The next number for an instance of this name, from 1 on; 0 if there is no such agent.
    pub fn next_id(&self, name: &str) -> u32 {
        self.look(name, |there| there.named.fetch_add(1, Ordering::Relaxed).saturating_add(1)).unwrap_or(0)
    }

    /// Numbers for instances of this name go on after `last` at least, which were given before. Does nothing if there is
    /// no such agent.
    pub fn resume_ids(&self, name: &str, last: u32) {
        self.look(name, |there| there.named.fetch_max(last, Ordering::Relaxed));
    }

    fn look<T>(&self, name: &str, at: impl FnOnce(&Registered) -> T) -> Option<T> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).get(name).map(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ScriptedCompleter;

    fn agent(name: &str) -> Agent {
        Agent::new(name, "", Arc::new(ScriptedCompleter::new([])))
    }

    #[test]
    fn agents_are_listed_by_name_replaced_and_made_anew() {
        let registry = Registry::new();
        for name in ["zoe", "ada", "bob"] {
            registry.register(Entry::new(name, "old"), || agent("whatever"));
        }
        registry.register(Entry::new("bob", "new"), || agent("whatever"));
        let listed: Vec<_> = registry.list().iter().map(|e| format!("{}: {}", e.name, e.description)).collect();
        assert_eq!(listed, ["ada: old", "bob: new", "zoe: old"]);
        assert_eq!(registry.spawn("ada").unwrap().name.as_ref(), "ada", "the registry names it");
        assert!(registry.get("eve").is_none() && registry.spawn("eve").is_none());
    }

    #[test]
    fn numbers_are_counted_for_each_name_and_go_on() {
        let registry = Registry::new();
        registry.register(Entry::new("ada", ""), || agent("ada"));
        registry.register(Entry::new("bob", ""), || agent("bob"));
        assert_eq!([registry.next_id("ada"), registry.next_id("ada"), registry.next_id("bob")], [1, 2, 1]);
        registry.register(Entry::new("ada", "again"), || agent("ada"));
        assert_eq!((registry.next_id("ada"), registry.next_id("eve")), (3, 0));
        // As they were before.
        for (name, last, next) in [("bob", 7, 8), ("bob", 3, 9), ("ada", u32::MAX - 1, u32::MAX), ("eve", 5, 0)] {
            registry.resume_ids(name, last);
            assert_eq!(registry.next_id(name), next, "{name} {last}");
        }
        assert_eq!(registry.next_id("ada"), u32::MAX, "there are no more numbers, and that is no crash");
    }
}
