//! What a person has said yes to in a project that may be somebody else's.
//!
//! A config that was found in a project, and the permissions that lie there, are boiled down to [`TrustFacts`]: one line for
//! each thing that reaches beyond the project. What the person said yes to is kept in the person's own data, in a
//! [`TrustStore`], under the project's folder. What is not among it is asked for again, and so are [instruction
//! files](InstructionFile) that are not as the person last saw them. What the person's
//! [`UserKey`] has marked was made by this person, and did not come with a project.

mod facts;
mod instructions;
mod key;
mod store;

pub use facts::{FactGroup, RiskLevel, TrustFacts, quoted, quoted_path};
pub use instructions::{InstructionFile, SeenInstructions};
pub(crate) use key::DerivedKey;
pub use key::UserKey;
pub use store::{PinnedServer, ProjectTrust, TrustError, TrustStore, TrustedTool};
