//! Sessions, runs and other state on a NATS server with JetStream, shared by several hosts.
//!
//! [`ClusterJournals`] is a [`JournalStorage`](shelly_session::JournalStorage): resume, fork, search, list and prune work
//! on it as on files. [`Cluster`] has in addition what runs on several hosts need. `docs/cluster.md` says how to set up a
//! server.
//!
//! # What is where
//!
//! For the namespace `team-a`, created when they are missing:
//!
//! | on the server | holds |
//! |---|---|
//! | stream `shelly-team-a` | journals, at `shelly.team-a.session.NAME.TOKEN`; recorded events, at
//! `shelly.team-a.events.NAME.TOKEN`; attachments, at `shelly.team-a.attachment.NAME.TOKEN.DIGEST` |
//! | key-value bucket `shelly-team-a-sessions` | one entry for each session: its token, mark, header, status and size |
//! | key-value bucket `shelly-team-a-leases` | one entry for each session in use and each run at work; it ends by itself |
//! | work queue `shelly-team-a-queue` | the id of each run that has not ended, at
//! `shelly.team-a.queue.PRIORITY.LABELS.RUN`, with one consumer for each priority and set of labels |
//! | key-value bucket `shelly-team-a-runs` | one entry for each run: its spec, its state, its end |
//! | key-value bucket `shelly-team-a-counters` | the reservations of the runs at work, if the namespace has limits |
//! | key-value bucket `shelly-team-a-workers` | one entry for each worker, which ends by itself |
//! | object store `shelly-team-a-objects` | config bundles and input files by their digest |
//! | no stream | commands to runs and their live events, at `shelly.team-a.bus.run.RUN.command` and `….events` |
//! | key-value buckets `shelly-team-a-kv`, `-notes`, `-boards`, `-rates` | the stores of plugins; notes and reflections;
//! boards; the use of rate limits in the last minute |
//!
//! A journal is a sequence of messages whose payloads together are its bytes; a line that is longer than a message is
//! split. Each message is published with the sequence that its writer expects to be the last of the subject, so the
//! server refuses all writers but one. The token differs between two sessions of one name, of which one was removed.
//!
//! # Runs
//!
//! The entry of a run is the truth about it, and each change of it is a compare-and-swap. The message in the queue says
//! only that somebody is to look. The lease says that a worker is alive. So, of two workers that are offered one run, the
//! one that gets the lease changes the entry; a worker whose lease passed to another finds another holder in the entry, and
//! changes nothing; and a run that is offered although it is at work is passed over while its lease is there.
//!
//! | if this happens | then |
//! |---|---|
//! | a submitter dies between the entry and the message | the same submission again, or any worker, puts the message |
//! | a worker dies, or is stopped for longer than the lease | the next one that is offered the run gets the lease, counts a
//! death and continues; what the first one writes afterwards is refused |
//! | the reply to a change is lost | it is repeated, and its writer recognizes its own value, which is random in a part |
//! | an acknowledgement is lost | the message is offered again, and acknowledged for a run that has ended |
//! | a worker stands still while another one ends the run, and dies after it has reserved a part of the limits for it | a
//! worker that looks for such reservations now and then removes it |
//! | somebody cancels a run that ends at this moment | one of both changes fails, looks again, and finds the other |
//! | the server is away | calls are repeated; heartbeats go on afterwards, and come before those who take over |
//!
//! Nothing that a server says is trusted: each message says where in its journal it belongs, the session store verifies
//! lines and attachments, objects have digests, and entries are bounded and checked.
//!
//! # Modules
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | `cluster_options`, `cluster_error` | the servers, the namespace and the credentials; failures |
//! | `seal_error`, `encryption` | keys that the server never has, and what is sealed under them |
//! | `connection`, `shared_connection` | the connection, its runtime, and calls that are repeated while a server is away |
//! | `session_entry` | the entry of a session |
//! | `message_log`, `attachment_messages` | the messages of one subject, read and appended |
//! | `message_source` | a journal or recorded events that are read |
//! | `lease_watch`, `offer_watch` | leases and runs that a server forgets whose clock has jumped back |
//! | `cluster_lease`, `cluster_draft` | a session that is written, and one that is created |
//! | `cluster_journals` | all sessions |
//! | `millis_since_epoch`, `run_spec`, `run_entry` | runs as they are submitted, and their entries |
//! | `run_streams` | the queue and the buckets of runs |
//! | `namespace_counters` | reservations |
//! | `taken_run`, `run_taking` | a run at work, and the way to it |
//! | `run_bus` | commands and live events |
//! | `unreadable_runs`, `run_queue` | all runs, also those that cannot be read |
//! | `queue_watch` | new messages of the queue |
//! | `object_storage`, `worker_registry` | config bundles and files; workers |
//! | `object_pruning` | what is removed that no run names any more |
//! | `state` | buckets, on which the core builds the state that hosts share besides sessions |
//! | `cluster`, `newer_entries` | all of it, and what later versions have written |
//! | `queued_run_context` | a run of the queue for the agents in it |
//! | `job_places`, `job_slot` | the places of a worker, which namespaces share; the place of a run among them |
//! | `child_runs`, `child_question`, `child_run_guard`, `placed_agent` | an agent that a worker runs, in the place of a model |

mod attachment_messages;
mod child_question;
mod child_run_guard;
mod child_runs;
mod cluster;
mod cluster_draft;
mod cluster_error;
mod cluster_journals;
mod cluster_lease;
mod cluster_options;
mod connection;
mod encryption;
mod job_places;
mod job_slot;
mod lease_watch;
mod message_log;
mod message_source;
mod millis_since_epoch;
mod namespace_counters;
mod newer_entries;
mod object_pruning;
mod object_storage;
mod offer_watch;
mod placed_agent;
mod queue_watch;
mod queued_run_context;
mod run_bus;
mod run_entry;
mod run_offer;
mod run_queue;
mod run_spec;
mod run_streams;
mod run_taking;
mod seal_error;
mod session_entry;
mod shared_connection;
mod state;
mod taken_run;
mod unreadable_runs;
mod worker_registry;

pub use child_run_guard::spent_by_runs_left;
pub use child_runs::ChildRuns;
pub use cluster::{Cluster, StreamSize};
pub use cluster_error::ClusterError;
pub use cluster_journals::ClusterJournals;
pub use cluster_options::{ClusterEncryption, ClusterOptions};
pub use encryption::ContentKey;
pub use job_places::{JobPlace, JobPlaces, NamespaceJobs};
pub use job_slot::{JobSlot, JobWait, RunJob};
pub use namespace_counters::{NamespaceCounters, NamespaceLimits, NamespaceUse};
pub use newer_entries::NewerEntries;
pub use object_pruning::{ObjectPruning, RunObjects};
pub use object_storage::ObjectStorage;
pub use placed_agent::{PlacedAgentModel, PlacedAgentOptions};
pub use queue_watch::QueueWatch;
pub use queued_run_context::QueuedRunContext;
pub use run_bus::{CommandService, RunBus, RunCommand, RunReply};
pub use run_entry::{QueuedRunEnd, RunEndState, RunEntry, RunPhase};
pub use run_offer::{LeftRun, RunOffer};
pub use run_queue::{QueueDepth, RunListing, RunQueue, Submission};
pub use run_spec::{RunParent, RunPriority, RunSpec, SpecFile};
pub use run_taking::WorkerIdentity;
pub use seal_error::SealError;
pub use state::{ClusterBucket, ClusterBucketKind};
pub use taken_run::TakenRun;
pub use unreadable_runs::UnreadableRuns;
pub use worker_registry::{WorkerEntry, WorkerPresence, WorkerRegistry, WorkerState};

#[cfg(test)]
mod clock_server_tests;
#[cfg(test)]
mod cluster_server_tests;
#[cfg(test)]
mod encryption_tests;
#[cfg(test)]
mod nats_server;
#[cfg(test)]
mod queue_model;
#[cfg(test)]
mod reservation_server_tests;
#[cfg(test)]
mod run_server_tests;
#[cfg(test)]
mod secured_server_tests;
#[cfg(test)]
mod server_tests;
