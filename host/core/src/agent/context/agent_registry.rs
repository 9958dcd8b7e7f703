use std::sync::{Arc, PoisonError, atomic::Ordering};

use tokio::sync::Semaphore;

use super::{
    AgentEntry, AgentFactory, AgentRefusal, AgentRegistry, Runner, SpawnedAgent, agent_group::RegisteredAgent,
    is_same_name,
};
use crate::capability::Ceiling;

impl AgentRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an agent that is the same under every ceiling: one without plugins, or whose plugins may do the same for every
    /// caller. An agent of the same name is replaced; its instances continue, and their numbers keep counting.
    pub fn register<R: Runner + 'static>(&self, entry: AgentEntry, factory: impl Fn() -> R + Send + Sync + 'static) {
        self.register_under(entry, move |_| Ok(factory()));
    }

    /// Adds an agent that is made to fit the ceiling of the agent that starts it; otherwise like
    /// [`AgentRegistry::register`].
    pub fn register_under<R: Runner + 'static>(
        &self,
        entry: AgentEntry,
        factory: impl Fn(&Ceiling) -> Result<R, AgentRefusal> + Send + Sync + 'static,
    ) {
        let mut agents = self.agents.write().unwrap_or_else(PoisonError::into_inner);
        let named = agents.get(&entry.name).map(|before| Arc::clone(&before.named)).unwrap_or_default();
        let permits = entry.max_concurrency.map(|most| Arc::new(Semaphore::new(most.max(1) as usize)));
        let name = Arc::clone(&entry.name);
        let factory: AgentFactory = Arc::new(move |ceiling| factory(ceiling).map(|runner| Arc::new(runner) as _));
        agents.insert(name, RegisteredAgent { entry, factory, permits, named });
    }

    /// Returns all agents that may be started under this ceiling, sorted by name.
    pub fn list(&self, ceiling: &Ceiling) -> Vec<AgentEntry> {
        let agents = self.agents.read().unwrap_or_else(PoisonError::into_inner);
        let admitted = agents.values().filter(|registered| ceiling.admits(&registered.entry.name));
        admitted.map(|registered| registered.entry.clone()).collect()
    }

    /// Returns all agents but this one that may be started under this ceiling, sorted by name.
    pub fn others(&self, agent: &str, ceiling: &Ceiling) -> Vec<AgentEntry> {
        self.list(ceiling).into_iter().filter(|entry| !is_same_name(&entry.name, agent)).collect()
    }

    /// Makes a fresh agent of this name under this ceiling, and gives it this name. Returns `None` if the ceiling admits no
    /// such agent.
    ///
    /// # Errors
    ///
    /// [`AgentRefusal`] if the ceiling takes away something that the agent needs.
    pub fn spawn(&self, name: &str, ceiling: &Ceiling) -> Option<Result<Arc<dyn Runner>, AgentRefusal>> {
        self.make(name, ceiling).map(|made| made.map(|spawned| spawned.runner))
    }

    /// Makes an agent that another agent starts. No other code does, so that nothing bypasses the ceiling.
    pub(crate) fn make(&self, name: &str, ceiling: &Ceiling) -> Option<Result<SpawnedAgent, AgentRefusal>> {
        let (name, factory, permits) = self
            .look(name, |there| (Arc::clone(&there.entry.name), Arc::clone(&there.factory), there.permits.clone()))
            .filter(|(name, ..)| ceiling.admits(name))?;
        let named = |runner: Arc<dyn Runner>| runner.with_name_and_budget(name, &ceiling.budget());
        Some(factory(ceiling).map(|runner| SpawnedAgent { runner: named(runner), permits }))
    }

    /// Returns the permits that bound how many instances of this agent work at once; `None` without a bound or without such
    /// an agent.
    pub(crate) fn permits(&self, name: &str) -> Option<Arc<Semaphore>> {
        self.look(name, |there| there.permits.clone()).flatten()
    }

    /// Returns the next instance number of this agent, from 1 on; 0 if there is no such agent.
    pub fn next_id(&self, name: &str) -> u32 {
        self.look(name, |there| there.named.fetch_add(1, Ordering::Relaxed).saturating_add(1)).unwrap_or(0)
    }

    /// Ensures that instance numbers of this agent continue after `last`, which was given before. Does nothing if there is
    /// no such agent.
    pub fn resume_ids(&self, name: &str, last: u32) {
        self.look(name, |there| there.named.fetch_max(last, Ordering::Relaxed));
    }

    fn look<T>(&self, name: &str, at: impl FnOnce(&RegisteredAgent) -> T) -> Option<T> {
        self.agents.read().unwrap_or_else(PoisonError::into_inner).get(name).map(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Agent;
    use crate::{
        capability::{Budget, CeilingBound},
        model::ScriptedCompleter,
    };

    fn agent(name: &str) -> Agent {
        Agent::new(name, "", Arc::new(ScriptedCompleter::new([])))
    }

    #[test]
    fn registry_lists_replaces_and_spawns_agents() {
        let registry = AgentRegistry::new();
        for name in ["zoe", "ada", "bob"] {
            registry.register(AgentEntry::new(name, "old"), || agent("whatever"));
        }
        registry.register(AgentEntry::new("bob", "new"), || agent("whatever"));
        let listed: Vec<_> =
            registry.list(&Ceiling::default()).iter().map(|e| format!("{}: {}", e.name, e.description)).collect();
        assert_eq!(listed, ["ada: old", "bob: new", "zoe: old"]);
        let open = Ceiling::default();
        assert_eq!(registry.spawn("ada", &open).unwrap().unwrap().name().as_ref(), "ada", "the registry names it");
        assert!(registry.spawn("eve", &open).is_none());
    }

    #[test]
    fn registry_spawns_no_agent_beyond_the_ceiling() {
        let registry = AgentRegistry::new();
        registry.register(AgentEntry::new("ada", ""), || agent("ada"));
        registry.register_under(AgentEntry::new("bob", ""), |ceiling| match ceiling.paths().is_empty() {
            true => Ok(agent("bob").with_budget(Budget { tool_calls: Some(3), ..Budget::default() })),
            false => Err(AgentRefusal("bob needs more".into())),
        });
        let bound = |agents: &[&str]| CeilingBound {
            agents: Some(agents.iter().map(|name| name.to_string()).collect()),
            budget: Budget { tokens: Some(7), ..Budget::default() },
            ..CeilingBound::default()
        };
        let (both, ada) = (Ceiling::of("both", bound(&["ada", "bob"])), Ceiling::of("ada", bound(&["ada"])));
        let names = |ceiling| registry.list(ceiling).iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>();
        assert_eq!((names(&both), names(&ada)), (vec!["ada".into(), "bob".into()], vec!["ada".to_owned()]));
        assert_eq!(registry.spawn("ada", &ada.meet(&both)).unwrap().unwrap().budget().tokens, Some(7));
        assert!(registry.spawn("bob", &ada).is_none(), "as if there were no such agent");
        assert_eq!(registry.spawn("bob", &both).unwrap().err(), Some(AgentRefusal("bob needs more".into())));
        let bob = registry.spawn("bob", &Ceiling::default()).unwrap().unwrap();
        assert_eq!((bob.budget().tool_calls, bob.budget().tokens), (Some(3), None));
    }

    #[test]
    fn instance_numbers_are_counted_per_agent_and_continue() {
        let registry = AgentRegistry::new();
        registry.register(AgentEntry::new("ada", ""), || agent("ada"));
        registry.register(AgentEntry::new("bob", ""), || agent("bob"));
        assert_eq!([registry.next_id("ada"), registry.next_id("ada"), registry.next_id("bob")], [1, 2, 1]);
        registry.register(AgentEntry::new("ada", "again"), || agent("ada"));
        assert_eq!((registry.next_id("ada"), registry.next_id("eve")), (3, 0));
        // Earlier numbers do not set the counter back.
        for (name, last, next) in [("bob", 7, 8), ("bob", 3, 9), ("ada", u32::MAX - 1, u32::MAX), ("eve", 5, 0)] {
            registry.resume_ids(name, last);
            assert_eq!(registry.next_id(name), next, "{name} {last}");
        }
        assert_eq!(registry.next_id("ada"), u32::MAX, "there are no more numbers, and that is no crash");
    }
}
