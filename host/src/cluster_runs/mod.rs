//! Runs in the queue of a cluster: they are submitted, done by workers on any host, and steered from anywhere.
//!
//! The queue itself, its entries and its subjects are in the crate `shelly-cluster`. Here is what the program does with
//! them.
//! Nothing here prints, reads the environment or asks a person: the commands `submit`, `worker`, `attach` and `cluster` do.
//!
//! - `config_bundle.rs` packs the config of a project with its plugins, each by its digest, and `bundle_folder.rs` unpacks
//!   it on another host.
//! - `run_submission.rs` puts a run into the queue.
//! - `cluster_worker.rs` does the runs of some namespaces until it is told to stop: `served_namespace.rs` takes those of
//!   one, with `worker_state.rs`, and `queued_run_work.rs` does one of them. `bundle_hosts.rs` decides which runs this host
//!   accepts, and has what each config needs.
//! - `recorded_progress.rs` reads from the journal of a session how far a run has come, and `queued_run_end.rs` writes its
//!   end.
//! - `run_steering.rs` answers the commands of those who watch a run, and sends them its events.
//! - `cluster_pruning.rs` removes what no run needs any more.
//! - `worker_status.rs` counts for Prometheus.

mod bundle_folder;
mod bundle_hosts;
mod cluster_pruning;
mod cluster_worker;
mod config_bundle;
mod queued_run_end;
mod queued_run_work;
mod recorded_progress;
mod run_steering;
mod run_submission;
mod served_namespace;
mod worker_state;
mod worker_status;

pub use bundle_hosts::{AcceptPolicy, BundleEnvironment};
pub use cluster_pruning::ClusterPruning;
pub use cluster_worker::ClusterWorker;
pub use config_bundle::{ConfigBundle, PackedBundle};
pub use queued_run_end::failure_report;
pub use run_submission::RunSubmission;
pub use worker_state::{ClusterWorkerOptions, ServedNamespace, WorkerNotice};
pub use worker_status::{WorkerHttp, WorkerStatus};
