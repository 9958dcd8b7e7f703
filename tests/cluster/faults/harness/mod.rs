//! Runs of a cluster under faults: real servers, workers as processes, a model, and checks of what came of it.
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | `plan` | the size of a trial |
//! | `servers`, `proxy`, `workers`, `config` | processes, and the connections between them |
//! | `small_disk`, `wall_clock` | a disk that becomes full, and clocks that jump |
//! | `tasks` | the tasks, and what comes of them without faults |
//! | `model` | a server that plays the model and counts what it is asked |
//! | `person` | answers, messages and cancels |
//! | `random`, `disturbance`, `disturbing` | faults |
//! | `trial` | all of it together, and the runs |
//! | `run_tree`, `checks`, `session_checks`, `report` | the checks, and the result |

mod checks;
mod config;
mod disturbance;
mod disturbing;
mod model;
mod person;
mod plan;
mod proxy;
mod random;
mod report;
mod run_tree;
mod servers;
mod session_checks;
mod small_disk;
mod tasks;
mod trial;
mod wall_clock;
mod workers;

use tokio::runtime::Builder;

pub use config::config_text;
pub use model::ScriptedModel;
pub use plan::{BoxError, FaultPlan};
pub use report::FaultReport;
pub use servers::NatsServers;
pub use tasks::TaskKind;
pub use trial::Trial;
pub use workers::Workers;

/// Makes a trial, and returns its result; `None` if there is no server, which `tests/cluster/nats-server.sh` gets.
///
/// # Errors
///
/// The checks that failed, with the seed and the folder of the logs, which stays.
pub fn run(plan: &FaultPlan) -> Result<Option<FaultReport>, BoxError> {
    let Some(program) = NatsServers::program() else { return Ok(None) };
    let folder = tempfile::Builder::new().prefix("faults").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let tried = Trial::prepare(plan, &program, folder.path()).and_then(|mut trial| {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let entries = runtime.block_on(trial.run());
        trial.heal();
        checks::check(&trial, &entries?)
    });
    let failure = match tried {
        Ok(report) if report.failures.is_empty() => return Ok(Some(report)),
        Ok(report) => report.to_string(),
        Err(error) => error.to_string(),
    };
    let FaultPlan { runs, seed, servers, workers, .. } = plan;
    let logs = folder.keep();
    Err(format!(
        "{failure}\nagain: cargo test --test faults -- --runs {runs} --seed {seed} --servers {servers} --workers {workers}\n\
         the faults in their order: {}\nlogs and stores, but that of the last server: {}",
        logs.join("trial.log").display(),
        logs.display()
    )
    .into())
}
