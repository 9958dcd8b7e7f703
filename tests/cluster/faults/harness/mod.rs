//! Runs of a cluster under faults: real servers, workers as processes, a model, and checks of what came of it.
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | `plan` | the size of a trial |
//! | `servers`, `proxy`, `workers` | processes, and the connections between them |
//! | `model` | a server that plays the model and counts what it is asked |
//! | `random`, `disturbance`, `disturbing` | faults |
//! | `trial` | all of it together, and the runs |
//! | `checks`, `report` | the checks, and the result |

mod checks;
mod disturbance;
mod disturbing;
mod model;
mod plan;
mod proxy;
mod random;
mod report;
mod servers;
mod trial;
mod workers;

use tokio::runtime::Builder;

pub use model::{ScriptedModel, TaskKind};
pub use plan::{BoxError, FaultPlan};
pub use report::FaultReport;
pub use servers::NatsServers;
pub use trial::{Trial, config_text};
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
    let FaultPlan { runs, seed, servers, .. } = plan;
    let logs = folder.keep();
    Err(format!(
        "{failure}\nagain: cargo test --test faults -- --runs {runs} --seed {seed} --servers {servers}\nlogs and stores: {}",
        logs.display()
    )
    .into())
}
