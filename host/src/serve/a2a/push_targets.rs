use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{
    a2a::{A2aError, wire::TaskPushNotificationConfig},
    event::new_id,
    limits,
};

/// The addresses that are told of the updates of one task, at most [`limits::A2A_PUSH_CONFIGS`].
#[derive(Default)]
pub(super) struct PushTargets(Mutex<PushTargetsState>);

#[derive(Default)]
struct PushTargetsState {
    targets: Vec<PushTarget>,
    /// `true` while the updates of the task are followed for these addresses.
    is_followed: bool,
}

/// One address.
struct PushTarget {
    config: TaskPushNotificationConfig,
    /// `true` once an update is sent to it.
    is_told: bool,
    /// The number of updates in a row that it did not take.
    failures: u32,
}

impl PushTarget {
    fn new(config: TaskPushNotificationConfig) -> Self {
        Self { config, is_told: false, failures: 0 }
    }
}

impl PushTargets {
    /// Adds a config, or replaces the one with its id. One without an id that is there already is the same. Returns the
    /// config with its id.
    ///
    /// # Errors
    ///
    /// An [`A2aError`] if there are too many.
    pub fn add(&self, mut config: TaskPushNotificationConfig) -> Result<TaskPushNotificationConfig, A2aError> {
        let mut state = self.state();
        if config.id.is_empty() {
            let same = |there: &&PushTarget| {
                TaskPushNotificationConfig { id: String::new(), ..there.config.clone() } == config
            };
            if let Some(there) = state.targets.iter().find(same) {
                return Ok(there.config.clone());
            }
            config.id = new_id("push");
        }
        match state.targets.iter().position(|there| there.config.id == config.id) {
            Some(at) => state.targets[at] = PushTarget::new(config.clone()),
            None if state.targets.len() >= limits::A2A_PUSH_CONFIGS => {
                let most = limits::A2A_PUSH_CONFIGS;
                let error = format!("{most} addresses are told of this task already; delete one first");
                return Err(A2aError::invalid_params(error));
            }
            None => state.targets.push(PushTarget::new(config.clone())),
        }
        Ok(config)
    }

    /// Returns all configs, in the order in which they were added.
    pub fn all(&self) -> Vec<TaskPushNotificationConfig> {
        self.state().targets.iter().map(|target| target.config.clone()).collect()
    }

    /// Returns the config with this id.
    pub fn get(&self, id: &str) -> Option<TaskPushNotificationConfig> {
        self.state().targets.iter().find(|target| target.config.id == id).map(|target| target.config.clone())
    }

    /// Removes the config with this id. Does nothing if there is none.
    pub fn remove(&self, id: &str) {
        self.state().targets.retain(|target| target.config.id != id);
    }

    /// Takes note of an update that an address has taken, or has not. One that has not taken
    /// [`limits::A2A_PUSH_FAILURES`] in a row is removed.
    pub fn note(&self, id: &str, is_taken: bool) {
        let mut state = self.state();
        if let Some(target) = state.targets.iter_mut().find(|target| target.config.id == id) {
            target.failures = if is_taken { 0 } else { target.failures + 1 };
        }
        state.targets.retain(|target| target.failures < limits::A2A_PUSH_FAILURES);
    }

    /// Returns the configs to which an update is sent now: all of them.
    pub fn begin_update(&self) -> Vec<TaskPushNotificationConfig> {
        let mut state = self.state();
        state.targets.iter_mut().for_each(|target| target.is_told = true);
        state.targets.iter().map(|target| target.config.clone()).collect()
    }

    /// Returns `true` if the caller is the one that follows the task from now on.
    pub fn begin_following(&self) -> bool {
        !std::mem::replace(&mut self.state().is_followed, true)
    }

    /// Lets another caller follow the task once all addresses are told of it. Returns the configs that came too late for an
    /// update: the caller tells them, and calls this again.
    pub fn end_following(&self) -> Vec<TaskPushNotificationConfig> {
        let mut state = self.state();
        let mut late = Vec::new();
        for target in state.targets.iter_mut().filter(|target| !target.is_told) {
            target.is_told = true;
            late.push(target.config.clone());
        }
        state.is_followed = !late.is_empty();
        late
    }

    fn state(&self) -> MutexGuard<'_, PushTargetsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(id: &str, url: &str) -> TaskPushNotificationConfig {
        TaskPushNotificationConfig { id: id.into(), url: url.into(), ..TaskPushNotificationConfig::default() }
    }

    #[test]
    fn addresses_of_a_task_are_bounded() {
        let targets = PushTargets::default();
        let first = targets.add(config("", "https://a.example")).unwrap();
        assert_eq!(targets.add(config("", "https://a.example")).unwrap(), first, "it is there");
        targets.add(config(&first.id, "https://b.example")).unwrap();
        assert_eq!(targets.get(&first.id).unwrap().url, "https://b.example", "it is replaced");
        for id in 1..limits::A2A_PUSH_CONFIGS {
            targets.add(config(&id.to_string(), "https://a.example")).unwrap();
        }
        let error = targets.add(config("more", "https://a.example")).unwrap_err();
        assert!(error.message.contains("8 addresses"), "{error}");
        targets.remove("1");
        assert!(targets.add(config("more", "https://a.example")).is_ok());
        assert_eq!(targets.all().len(), limits::A2A_PUSH_CONFIGS);
    }

    #[test]
    fn address_that_takes_nothing_is_forgotten() {
        let targets = PushTargets::default();
        targets.add(config("a", "https://a.example")).unwrap();
        for is_taken in [false, false, true] {
            targets.note("a", is_taken);
        }
        (1..limits::A2A_PUSH_FAILURES).for_each(|_| targets.note("a", false));
        assert!(targets.get("a").is_some());
        targets.note("a", false);
        assert!(targets.get("a").is_none());
    }

    #[test]
    fn task_is_followed_once() {
        let targets = PushTargets::default();
        assert!(targets.begin_following() && !targets.begin_following());
        assert!(targets.end_following().is_empty());
        assert!(targets.begin_following());
    }

    #[test]
    fn late_address_is_told_before_following_ends() {
        let targets = PushTargets::default();
        targets.add(config("a", "https://a.example")).unwrap();
        assert!(targets.begin_following());
        assert_eq!(targets.begin_update().len(), 1);
        targets.add(config("b", "https://b.example")).unwrap();
        assert!(!targets.begin_following(), "the address relies on the caller that follows");
        let late: Vec<_> = targets.end_following().into_iter().map(|config| config.id).collect();
        assert_eq!(late, ["b"], "the other one was told");
        assert!(!targets.begin_following(), "the late one is being told");
        assert!(targets.end_following().is_empty() && targets.begin_following());
        targets.add(config("a", "https://other.example")).unwrap();
        assert_eq!(targets.end_following().len(), 1, "a replaced address is a new one");
    }
}
