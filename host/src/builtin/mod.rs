//! Tools of the host itself, which a sandboxed plugin cannot implement, and wrappers around other tools that ask a person: for
//! a call, for the changes that it proposes, or for a capability that it lacks, or that tell of unsaved text in an editor.

mod approval_middleware;
mod ask_user;
mod confirmed_tool;
mod editor_files;
mod exec;
mod file_change_tool;
mod git;
mod runtime_grants;
mod unsaved_notes;

pub use approval_middleware::ApprovalMiddleware;
pub use ask_user::ask_user;
pub use confirmed_tool::ConfirmedTool;
pub use exec::{ExecPolicy, exec_tools};
pub use file_change_tool::{ChangeApprovalPolicy, FileChangeTool};
pub use git::{GitRepository, git_tools};
pub use runtime_grants::{EscalationContext, GrantPrompter, RuntimeGrants};
pub use unsaved_notes::{ToolPathResolver, UnsavedNotes};
