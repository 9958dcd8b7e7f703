//! A project's folder `.shelly`, and the project description in an agent's system prompt.
//!
//! All functions access only the folder that they are given, except that the search for the git repository also examines
//! parent folders. They block: call them from a thread that may block.

mod context;
mod error;
mod index;
mod layout;
mod permissions;
mod staleness;

pub use context::{ContextOptions, ProjectContext};
pub use error::ProjectError;
pub use index::{IndexBounds, structural_index};
pub use layout::ProjectLayout;
pub use permissions::ProjectPermissions;
pub use staleness::{Staleness, staleness};
