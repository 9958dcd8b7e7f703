use std::{collections::HashSet, fmt, sync::Arc};

use super::PermissionSubject;
use crate::{error::Fault, limits};

/// The decision on permissions while no front end attends the broker. An open question gets no answer then, whatever the
/// policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HeadlessPolicy {
    /// Grants no permission, not even for trusted subjects.
    #[default]
    Never,
    /// Grants a permission for trusted subjects only.
    Granted,
    /// Grants every permission, once.
    All,
}

/// Stores trusted subjects beyond this process. Called for each new subject, without a lock; it may block as long as
/// writing a small file takes.
pub trait TrustPersistence: Send + Sync {
    /// Stores one more subject.
    ///
    /// # Errors
    ///
    /// A [`Fault`], which is reported to the person who trusted the subject. It stays trusted in this process.
    fn keep(&self, subject: &PermissionSubject) -> Result<(), Fault>;
}

/// The subjects that need no question, at most [`limits::TRUSTED_SUBJECTS`].
#[derive(Clone, Default)]
pub struct TrustedSubjects {
    subjects: HashSet<PermissionSubject>,
    persistence: Option<Arc<dyn TrustPersistence>>,
}

impl TrustedSubjects {
    /// Returns a set of these subjects. Subjects trusted later are forgotten with the broker.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] if there are more than [`limits::TRUSTED_SUBJECTS`].
    pub fn new(subjects: impl IntoIterator<Item = PermissionSubject>) -> Result<Self, Fault> {
        let mut trusted = Self::default();
        for subject in subjects {
            if !trusted.takes(&subject) {
                let most = limits::TRUSTED_SUBJECTS;
                let message = format!("more than {most} trusted subjects; remove those that are not needed");
                return Err(Fault::TooLarge { message });
            }
            trusted.insert(subject);
        }
        Ok(trusted)
    }

    /// Stores subjects that are trusted later with `persistence`.
    pub fn kept_by(self, persistence: Arc<dyn TrustPersistence>) -> Self {
        Self { persistence: Some(persistence), ..self }
    }

    /// Returns `true` if the subject needs no question.
    pub fn contains(&self, subject: &PermissionSubject) -> bool {
        let is_above = |trusted: &PermissionSubject| match (trusted, subject) {
            (PermissionSubject::Folder { path: above }, PermissionSubject::Folder { path }) => path.starts_with(above),
            _ => false,
        };
        let is_there = || self.subjects.contains(&*subject.as_trusted()) || self.subjects.iter().any(is_above);
        !subject.is_always_asked() && is_there()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PermissionSubject> {
        self.subjects.iter()
    }

    /// Returns `true` if the subject can be added, or is there already.
    pub(super) fn takes(&self, subject: &PermissionSubject) -> bool {
        self.subjects.len() < limits::TRUSTED_SUBJECTS || self.subjects.contains(&*subject.as_trusted())
    }

    pub(super) fn insert(&mut self, subject: PermissionSubject) {
        self.subjects.insert(subject.as_trusted().into_owned());
    }

    pub(super) fn persistence(&self) -> Option<Arc<dyn TrustPersistence>> {
        self.persistence.clone()
    }
}

impl fmt::Debug for TrustedSubjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustedSubjects").field("subjects", &self.subjects).finish_non_exhaustive()
    }
}
