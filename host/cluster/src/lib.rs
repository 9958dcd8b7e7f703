//! Sessions on a NATS server with JetStream, shared by several hosts.
//!
//! [`ClusterJournals`] is a [`JournalStorage`](shelly_session::JournalStorage): resume, fork, search, list and prune work
//! on it as on files. `docs/cluster.md` says how to set up a server.
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
//! | key-value bucket `shelly-team-a-leases` | one entry for each session in use, which ends by itself |
//!
//! A journal is a sequence of messages whose payloads together are its bytes; a line that is longer than a message is
//! split. Each message is published with the sequence that its writer expects to be the last of the subject, so the
//! server refuses all writers but one. The token differs between two sessions of one name, of which one was removed.
//!
//! Nothing that a server says is trusted: each message says where in its journal it belongs, and the session store verifies
//! lines and attachments.
//!
//! # Modules
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | `cluster_options` | the servers, the namespace and the credentials |
//! | `connection` | the connection, its runtime, and calls that are repeated while a server is away |
//! | `session_entry` | the entry of a session |
//! | `message_log`, `attachment_messages` | the messages of one subject, read and appended |
//! | `message_source` | a journal or recorded events that are read |
//! | `cluster_lease`, `cluster_draft` | a session that is written, and one that is created |
//! | `cluster_journals` | all sessions |

mod attachment_messages;
mod cluster_draft;
mod cluster_journals;
mod cluster_lease;
mod cluster_options;
mod connection;
mod message_log;
mod message_source;
mod session_entry;

pub use cluster_journals::ClusterJournals;
pub use cluster_options::ClusterOptions;

#[cfg(test)]
mod server_tests;
