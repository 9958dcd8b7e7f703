//! The subcommands `run` and `session resume`: an invocation is prepared, admitted, executed and reported.

mod admit;
mod common_run_args;
mod execute;
mod finished_invocation;
mod prepare;
mod report;
mod run_args;
mod run_invocation;
mod task_material_args;

pub use common_run_args::CommonRunArgs;
pub use run_args::{RunArgs, SessionResumeArgs, once};
pub use task_material_args::TaskMaterialArgs;
