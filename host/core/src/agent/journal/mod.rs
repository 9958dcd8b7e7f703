//! The journal of runs, from which they are resumed after the process that ran them is gone.
//!
//! A [`JournalRecord`] is one entry, [`JournalState`] the state that the records add up to. A [`Recorder`] stores them.

mod delegation_report;
#[expect(clippy::module_inception, reason = "the type that the module is named after")]
mod journal;
mod journal_record;
mod journal_state;
mod recorded_run;
mod recorded_run_end;
mod recorder;
mod remote_task_record;
mod run_journal;

pub(crate) use delegation_report::{DelegationReport, PendingQuestion, fit};
pub use journal::Journal;
pub use journal_record::{
    BoardTaskOutcome, ChosenMember, DelegatedTask, DelegationKey, EffectMemory, JournalRecord, SideChatRef,
};
pub use journal_state::{JournalReplayError, JournalState};
pub(crate) use recorded_run::{
    DelegationState, EffectModelReply, PassedMiddleware, QuestionResult, RecordedCallEnd, RecordedDelegateCall,
    RecordedQuestion, RecordedRun, RecordedToolCall, RecordedTurnState, is_open_call,
};
pub(crate) use recorded_run_end::RecordedFailure;
pub use recorded_run_end::RecordedRunEnd;
pub use recorder::{JournalPosition, Recorder};
pub use remote_task_record::RemoteTaskRecord;
pub(crate) use run_journal::RunJournal;

pub use super::outcome::JournalWriteError;
