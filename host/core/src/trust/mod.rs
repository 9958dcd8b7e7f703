//! The trust of a person in a project that may come from somebody else.
//!
//! A config found in a project, and its permissions, are reduced to [`TrustFacts`]: one line for each thing that reaches
//! beyond the project. The lines that the person has accepted are kept among the person's own data, in a [`TrustStore`],
//! under the project's folder; those about plugins in the person's own folders are kept once, for all projects. The person
//! is asked about any other line, and about [instruction files](InstructionFile) that have changed since the person last saw
//! them. A text that bears the mark of the person's [`UserKey`] was made by this person, and did not come with a project.

mod facts;
mod instructions;
mod key;
mod store;

pub use facts::{FactGroup, FactLine, RiskLevel, TrustFacts, quoted, quoted_path};
pub use instructions::{InstructionFile, SeenInstructions};
pub use key::DerivedKey;
pub use key::UserKey;
pub use store::{PinnedServer, ProjectTrust, TrustError, TrustStore, TrustedTool};
