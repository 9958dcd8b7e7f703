use serde::Serialize;

/// The result of one thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// The name of the check.
    pub check: &'static str,
    pub status: DoctorStatus,
    /// The result, on one line.
    pub message: String,
    /// Further facts, one on each line.
    pub details: Vec<String>,
    /// The next step, if there is something to do.
    pub hint: Option<String>,
}

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DoctorStatus {
    /// Nothing to do.
    Ok,
    /// Worth knowing; the host works all the same.
    Note,
    /// Something does not work.
    Problem,
}

impl DoctorStatus {
    /// Returns the word for people, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// A finding that its check does not name itself: the table of checks does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnnamedFinding {
    status: DoctorStatus,
    message: String,
    details: Vec<String>,
    hint: Option<String>,
}

impl UnnamedFinding {
    pub fn ok(message: impl Into<String>) -> Self {
        Self::new(DoctorStatus::Ok, message)
    }

    pub fn note(message: impl Into<String>) -> Self {
        Self::new(DoctorStatus::Note, message)
    }

    pub fn problem(message: impl Into<String>) -> Self {
        Self::new(DoctorStatus::Problem, message)
    }

    fn new(status: DoctorStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), details: Vec::new(), hint: None }
    }

    /// Adds lines below the message.
    pub fn details(mut self, lines: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.details.extend(lines.into_iter().map(Into::into));
        self
    }

    /// Says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says what to do, if there is something to do.
    pub fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    /// Turns `report` into a problem.
    pub fn of_report(report: &crate::error::Report) -> Self {
        Self::problem(report.message.clone()).details(report.causes.clone()).maybe_hint(report.hint.clone())
    }

    /// Returns the finding of the check `check`.
    pub fn of_check(self, check: &'static str) -> DoctorFinding {
        let Self { status, message, details, hint } = self;
        DoctorFinding { check, status, message, details, hint }
    }
}
