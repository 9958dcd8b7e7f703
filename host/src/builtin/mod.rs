//! Tools of the host itself, which a guest cannot be.

mod ask_user;
mod asking;
mod changing;
mod confirmed;
mod exec;
mod git;

pub use ask_user::ask_user;
pub use asking::AskingMiddleware;
pub use changing::{AsksFor, ChangingTool};
pub use confirmed::ConfirmedTool;
pub use exec::{Runs, exec_tools};
pub use git::{Repository, git_tools};
