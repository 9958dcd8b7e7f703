//! Tools of the host itself, which a guest cannot be.

mod ask_user;
mod asking;
mod changing;
mod confirmed;
mod exec;
mod git;

pub use ask_user::ask_user;
pub use asking::ApprovalMiddleware;
pub use changing::{ChangeApprovalPolicy, FileChangeTool};
pub use confirmed::ConfirmedTool;
pub use exec::{ExecPolicy, exec_tools};
pub use git::{GitRepository, git_tools};
