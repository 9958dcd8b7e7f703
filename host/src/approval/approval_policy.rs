use std::{collections::HashSet, fmt, sync::Arc};

use super::PermissionSubject;
use crate::{error::Fault, limits};

/// What is decided while no front end attends the desk. An open question has no answer then, whatever the policy: nobody
/// is there to choose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HeadlessPolicy {
    /// No permission is given, not even for what is trusted.
    #[default]
    Never,
    /// A permission is given for what is trusted, and for nothing else.
    Granted,
    /// Every permission is given, once.
    All,
}

/// Keeps what a person trusts beyond this process. Called for each new subject, without a lock; it may block as long as
/// writing a small file takes.
pub trait TrustPersistence: Send + Sync {
    /// Keeps one more subject.
    ///
    /// # Errors
    ///
    /// A [`Fault`], which the person who trusted it is told. It stays trusted in this process.
    fn keep(&self, subject: &PermissionSubject) -> Result<(), Fault>;
}

/// What may be done without asking, at most [`limits::TRUSTED_SUBJECTS`].
#[derive(Clone, Default)]
pub struct TrustedSubjects {
    subjects: HashSet<PermissionSubject>,
    keeper: Option<Arc<dyn TrustPersistence>>,
}

impl TrustedSubjects {
    /// These subjects. What is trusted later is forgotten with the desk.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] if there are more than [`limits::TRUSTED_SUBJECTS`].
    pub fn new(subjects: impl IntoIterator<Item = PermissionSubject>) -> Result<Self, Fault> {
        let mut trusted = Self::default();
        for subject in subjects {
            if !trusted.takes(&subject) {
                let most = limits::TRUSTED_SUBJECTS;
                let message = format!("more than {most} things are trusted: take out what is not needed");
                return Err(Fault::TooLarge { message });
            }
            trusted.insert(subject);
        }
        Ok(trusted)
    }

    /// The same, and `keeper` is told what is trusted later.
    pub fn kept_by(self, keeper: Arc<dyn TrustPersistence>) -> Self {
        Self { keeper: Some(keeper), ..self }
    }

    /// Whether this may be done without asking.
    pub fn contains(&self, subject: &PermissionSubject) -> bool {
        let is_above = |trusted: &PermissionSubject| match (trusted, subject) {
            (PermissionSubject::Folder { path: above }, PermissionSubject::Folder { path }) => path.starts_with(above),
            _ => false,
        };
        let is_there = || self.subjects.contains(&*subject.as_trusted()) || self.subjects.iter().any(is_above);
        !subject.is_always_asked() && is_there()
    }

    /// Whether there is room for it, or it is there.
    pub(super) fn takes(&self, subject: &PermissionSubject) -> bool {
        self.subjects.len() < limits::TRUSTED_SUBJECTS || self.subjects.contains(&*subject.as_trusted())
    }

    pub(super) fn insert(&mut self, subject: PermissionSubject) {
        self.subjects.insert(subject.as_trusted().into_owned());
    }

    pub(super) fn keeper(&self) -> Option<Arc<dyn TrustPersistence>> {
        self.keeper.clone()
    }
}

impl fmt::Debug for TrustedSubjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trusted").field("subjects", &self.subjects).finish_non_exhaustive()
    }
}
