use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use super::MemberProfile;
use crate::{agent::Runner, error::OnFailure, limits};

/// A member of a team.
#[derive(Clone)]
pub struct Member {
    /// The name by which other members know it, unique in the team.
    pub name: Arc<str>,
    /// The role in the team; several members may share one.
    pub role: Arc<str>,
    /// The purpose of the member.
    pub description: Arc<str>,
    /// The agent or team that works.
    pub runner: Arc<dyn Runner>,
    /// The number of retries in one step if it fails; at most [`limits::MEMBER_RETRIES`].
    pub retries: u32,
    /// The consequence for the team if it fails and no retry is left.
    pub on_failure: OnFailure,
}

impl Member {
    /// Creates a member with the name of its runner, which is also its role.
    pub fn new(runner: impl Runner + 'static) -> Self {
        let (name, description) = (Arc::clone(runner.name()), Arc::clone(runner.description()));
        let (role, runner) = (Arc::clone(&name), Arc::new(runner));
        Self { name, role, description, runner, retries: 0, on_failure: OnFailure::Stop }
    }

    /// Sets the role in the team.
    pub fn with_role(mut self, role: impl Into<Arc<str>>) -> Self {
        self.role = role.into();
        self
    }

    /// Sets the name in the team.
    pub fn with_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the number of retries in one step if it fails.
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries.min(limits::MEMBER_RETRIES);
        self
    }

    /// Sets the consequence for the team if it fails and no retry is left.
    pub fn with_on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    pub(super) fn profile(&self) -> MemberProfile {
        let Self { name, role, description, .. } = self;
        MemberProfile { name: Arc::clone(name), role: Arc::clone(role), description: Arc::clone(description) }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// The members of a team. Clones share one list: any of them lets members join and leave, also between two steps of a run.
#[derive(Debug, Clone, Default)]
pub struct Members(Arc<RwLock<Vec<Arc<Member>>>>);

/// The reason why a member cannot join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum JoinError {
    /// The team has a member of this name.
    #[error("the team already has a member `{0}`")]
    Taken(Arc<str>),
    /// The team has the maximum number of members.
    #[error("the team has reached its maximum of {} members", limits::TEAM_MEMBERS)]
    Full,
    /// The name is empty.
    #[error("a member needs a name")]
    Nameless,
}

impl Members {
    /// Adds a member after the existing ones.
    ///
    /// # Errors
    ///
    /// Returns a [`JoinError`] if the member cannot join.
    pub fn join(&self, member: Member) -> Result<(), JoinError> {
        let mut members = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if member.name.trim().is_empty() {
            return Err(JoinError::Nameless);
        }
        if members.iter().any(|there| there.name == member.name) {
            return Err(JoinError::Taken(member.name));
        }
        if members.len() >= limits::TEAM_MEMBERS {
            return Err(JoinError::Full);
        }
        members.push(Arc::new(member));
        Ok(())
    }

    /// Removes a member, which finishes its current work. Returns `false` if there is none of this name.
    pub fn leave(&self, name: &str) -> bool {
        let mut members = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = members.len();
        members.retain(|member| *member.name != *name);
        members.len() < before
    }

    /// Returns the current members, in order.
    pub fn now(&self) -> Vec<Arc<Member>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
