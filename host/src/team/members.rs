use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use super::MemberProfile;
use crate::{agent::Runner, error::OnFailure, limits};

/// One of a team.
#[derive(Clone)]
pub struct Member {
    /// Unique in the team: what the others know it by.
    pub name: Arc<str>,
    /// What it is in the team; several may share one.
    pub role: Arc<str>,
    /// What it is good for.
    pub description: Arc<str>,
    /// What works.
    pub runner: Arc<dyn Runner>,
    /// How often it is asked again in one step if it fails; at most [`limits::MEMBER_RETRIES`].
    pub retries: u32,
    /// Whether the team goes on without its reply if it fails for good.
    pub on_failure: OnFailure,
}

impl Member {
    /// A member that is called as it is called everywhere, whose role is its name.
    pub fn new(runner: impl Runner + 'static) -> Self {
        let (name, description) = (Arc::clone(runner.name()), Arc::clone(runner.description()));
        let (role, runner) = (Arc::clone(&name), Arc::new(runner));
        Self { name, role, description, runner, retries: 0, on_failure: OnFailure::Stop }
    }

    /// What it is in the team.
    pub fn with_role(mut self, role: impl Into<Arc<str>>) -> Self {
        self.role = role.into();
        self
    }

    /// What it is called in the team.
    pub fn with_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// How often it is asked again in one step if it fails.
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries.min(limits::MEMBER_RETRIES);
        self
    }

    /// Whether the team goes on without its reply if it fails for good.
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

/// Who is in a team. Clones are the same members: whoever has one lets members join and leave, between two steps of a run
/// as well.
#[derive(Debug, Clone, Default)]
pub struct Members(Arc<RwLock<Vec<Arc<Member>>>>);

/// Why somebody cannot join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum JoinError {
    /// One of this name is there.
    #[error("the team has a member `{0}` already")]
    Taken(Arc<str>),
    /// There are as many as there may be.
    #[error("a team has at most {} members", limits::TEAM_MEMBERS)]
    Full,
    /// Nobody can name it.
    #[error("a member has a name")]
    Nameless,
}

impl Members {
    /// Adds one, after those that are there.
    ///
    /// # Errors
    ///
    /// [`JoinError`].
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

    /// Removes one; what it is working on it finishes. False: there is none of this name.
    pub fn leave(&self, name: &str) -> bool {
        let mut members = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = members.len();
        members.retain(|member| *member.name != *name);
        members.len() < before
    }

    /// Who is there now, in order.
    pub fn now(&self) -> Vec<Arc<Member>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
