//! Sessions: a journal of what the agents did, written as it happens, from which runs resume after a crash.
//!
//! A [`SessionStore`] has all sessions of a project, in a [`JournalStorage`]: files, unless the program brings another
//! one. A [`Session`] is open for writing: it is the [`Recorder`](shelly_core::agent::journal::Recorder) of its runs.
//! `docs/session-format.md` describes the files for readers other than this program.
//!
//! The store blocks: call it from a thread that may block. An open session never blocks; a thread of its own writes.
//!
//! # Modules
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | `journal_storage`, `journal_lease`, `journal_source` | the storage of sessions as a trait, and the ways to write and to read |
//! | `storage_contract` | the checks that every storage must pass |
//! | `storage`, `memory_disk` | the operations on a disk, and a disk in memory that fails when a test says so |
//! | `file_journals`, `file_lease`, `file_draft` | sessions as files on a disk |
//! | `memory_journals` | sessions in memory |
//! | `error`, `file_names` | what can be wrong with a session; the names in its folder |
//! | `session_header`, `session_record`, `line_format` | the lines of a journal |
//! | `journal_start`, `journal_status` | the header of a journal, and the status that its lines say |
//! | `line_chain`, `session_mark`, `session_origin`, `authorship` | how a session shows that this person created it |
//! | `ownership`, `journal_verifier` | the key, and the check of marks and lines |
//! | `attachments`, `attachment_files` | long strings of records, in files of their own |
//! | `secrets`, `event_redactor` | values that must not reach the disk, and those in events for people |
//! | `message_place`, `event_facts`, `event_body` | events without what the journal holds already |
//! | `event_lines`, `event_log` | the log of recorded events |
//! | `known_runs`, `writer`, `session` | the thread that writes, and the session that is open for writing |
//! | `reader`, `transcript`, `recall` | a journal read back: its lines, its conversations, results that were cut |
//! | `session_events` | events read back |
//! | `store`, `list`, `measured_usage`, `search`, `fork`, `copy`, `prune` | all sessions of a project |
//!
//! # What it must not name
//!
//! No terminal, no config and no plugin: it records what `shelly-core` reports, and of the crates of this project depends
//! on that one alone. The folders are given to it.
//!
//! # A session
//!
//! ```
//! use std::sync::Arc;
//! use shelly_core::{
//!     agent::{Agent, AgentGroup, AgentRegistry, journal::JournalState},
//!     chat::{Chat, Message},
//!     event::RunCx,
//!     model::ScriptedCompleter,
//! };
//! use shelly_session::{DiskStorage, NewSession, SessionOpenOptions, SessionStore, SessionStoreOptions};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path().to_owned();
//! let model = |says: &str| Arc::new(ScriptedCompleter::new([ScriptedCompleter::text(says)]));
//! let agent = |says: &str| Agent::new("ada", "Be brief.", model(says));
//! let options = SessionStoreOptions { root: Some(folder.clone()), ..SessionStoreOptions::default() };
//! let store = SessionStore::new(Arc::new(DiskStorage), folder.join("sessions"), options);
//!
//! let session = Arc::new(store.create(NewSession { agent: "ada".into(), ..NewSession::default() })?);
//! let group = Arc::new(AgentGroup::new(AgentRegistry::new()).with_recorder(session.clone()));
//! let chat = Chat::recorded();
//! agent("Four.").with_agent_group(group, 0).run(&RunCx::new("ada"), &chat, vec![Message::user("2 + 2?")]).await?;
//! let id = session.id().to_owned();
//! session.close().await?;
//! drop(session);
//!
//! // In another process: `Agent::resume` continues an interrupted run; a finished conversation continues with a new task.
//! let opened = store.open(&id, SessionOpenOptions::default())?;
//! let past = JournalState::of(opened.records)?;
//! let chat = past.chat()?;
//! let group = Arc::new(AgentGroup::new(AgentRegistry::new()).resuming(Arc::new(opened.session), past, &chat));
//! let ada = agent("Six.").with_agent_group(group, 0);
//! assert!(ada.resume(&RunCx::new("ada"), &chat, vec![]).await.is_none());
//! let answer = ada.run(&RunCx::new("ada"), &chat, vec![Message::user("And 2 more?")]).await?;
//! assert_eq!((answer.message.text_content().as_str(), chat.snapshot().len()), ("Six.", 5));
//! # Ok(()) }
//! ```

mod attachment_files;
mod attachments;
mod authorship;
mod copy;
mod disk_usage;
mod error;
mod event_body;
mod event_facts;
mod event_lines;
mod event_log;
mod event_redactor;
mod file_draft;
mod file_journals;
mod file_lease;
mod file_names;
mod fork;
mod journal_lease;
mod journal_source;
mod journal_start;
mod journal_status;
mod journal_storage;
mod journal_verifier;
mod known_runs;
mod line_chain;
mod line_format;
mod list;
mod measured_usage;
mod memory_disk;
mod memory_journals;
mod message_place;
mod ownership;
mod prune;
mod reader;
mod recall;
mod search;
mod secrets;
mod session;
mod session_events;
mod session_header;
mod session_mark;
mod session_origin;
mod session_record;
mod storage;
pub mod storage_contract;
mod store;
mod transcript;
mod writer;

pub use authorship::Authorship;
pub use disk_usage::SessionDiskUsage;
pub use error::SessionError;
pub use event_redactor::EventRedactor;
pub use file_journals::FileJournals;
pub use journal_lease::{AttachmentError, EventLogEnd, JournalAttachment, JournalBatch, JournalDraft, JournalLease};
pub use journal_source::JournalSource;
pub use journal_status::SessionStatus;
pub use journal_storage::{JournalRemoval, JournalStat, JournalStorage};
#[doc(hidden)]
pub use line_format::journal_line;
pub use list::SessionSummary;
pub use measured_usage::MeasuredUsage;
pub use memory_disk::{DiskFault, MemoryDisk};
pub use memory_journals::MemoryJournals;
pub use ownership::SessionReview;
pub use prune::{PrunePolicy, PruneReport};
pub use reader::{JournalLine, JournalLineContent, JournalReader};
pub use search::{SessionSearchHit, SessionSearchResults};
pub use secrets::{SecretStream, Secrets};
pub use session::Session;
pub use session_events::{RecordedEvent, SessionEvents};
pub use session_header::{ForkOrigin, LaunchOptions, SessionHeader, SessionPart, SessionPartKind, VERSION};
pub use storage::{DiskStorage, SessionStorage, StorageEntry, StorageEntryKind, StoredFile};
pub use store::{NewSession, OpenedSession, SessionOpenOptions, SessionStore, SessionStoreOptions};
pub use transcript::{RunTranscript, Transcript, TranscriptMessage};

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod event_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;
