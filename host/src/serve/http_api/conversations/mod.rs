//! Runs of clients that send the whole conversation with each request, and read the answer as it is said.
//!
//! - `client_conversation.rs` makes a list of messages the history and the task of a run.
//! - `content_file.rs` reads the images and files among their content.
//! - `said_text.rs` tells from the events of a run how far its answer was said; `answer_reader.rs` reads them to the
//!   end.
//! - `run_lease.rs` cancels a run whose client goes.

mod answer_reader;
mod client_conversation;
mod content_file;
mod run_lease;
mod said_text;

pub(super) use answer_reader::{AnswerReader, AnswerStep, text_of_run};
pub(super) use client_conversation::{ClientConversation, ClientMessage, ClientRole};
pub(super) use content_file::{encoded_file, image};
pub(super) use run_lease::RunLease;
pub(super) use said_text::{AnswerPiece, SaidText};
