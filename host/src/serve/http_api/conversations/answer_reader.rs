use super::{AnswerPiece, RunLease, SaidText};
use crate::serve::{
    hosted_runs::{HostedRun, RunEventReader, RunEventStep, RunHost, RunSnapshot},
    http_api::views::answer_text,
};

/// Reads the answer of a run as it is said. Dropping it cancels the run.
pub struct AnswerReader {
    host: RunHost,
    lease: RunLease,
    reader: RunEventReader,
    said: SaidText,
}

/// The next step of an answer.
pub enum AnswerStep {
    /// A piece has come.
    Piece(AnswerPiece),
    /// The run has ended.
    End {
        /// The part of the answer that was not said.
        rest: Option<String>,
        /// The run as it ended.
        run: Box<RunSnapshot>,
    },
}

impl AnswerReader {
    /// Returns a reader from the beginning of the run.
    pub fn new(host: RunHost, lease: RunLease, said: SaidText) -> Self {
        let reader = lease.run().events_after(0);
        Self { host, lease, reader, said }
    }

    /// Returns the host of the run.
    pub fn host(&self) -> &RunHost {
        &self.host
    }

    /// Returns the next step; none follows the end.
    pub async fn next(&mut self) -> AnswerStep {
        let run = self.lease.run();
        loop {
            match self.reader.next().await {
                RunEventStep::Event(record) => {
                    if let Some(piece) = self.said.take(run.id(), &record.event) {
                        return AnswerStep::Piece(piece);
                    }
                }
                RunEventStep::Gap { .. } => {}
                // What a client read too slowly is gone; the whole answer follows it.
                RunEventStep::Behind { .. } | RunEventStep::End => {
                    let run = run.finished().await;
                    let rest = text_of(&self.host, &run).and_then(|answer| self.said.rest(&answer));
                    return AnswerStep::End { rest, run: Box::new(run) };
                }
            }
        }
    }
}

/// Returns the text of the answer, without credentials; `None` if there is no answer. An answer that follows a schema
/// is its JSON.
fn text_of(host: &RunHost, run: &RunSnapshot) -> Option<String> {
    let answer = run.answer()?;
    let text = run.value().map_or_else(|| answer_text(answer), ToString::to_string);
    Some(host.secrets().clean_text(&text))
}

/// Returns the text of a run that has ended: its answer, or else what its agent has said in its last turn.
pub async fn text_of_run(host: &RunHost, run: &HostedRun, snapshot: &RunSnapshot) -> String {
    if let Some(answer) = text_of(host, snapshot) {
        return answer;
    }
    let (mut reader, mut said) = (run.events_after(0), SaidText::default());
    loop {
        match reader.next().await {
            RunEventStep::Event(record) => drop(said.take(run.id(), &record.event)),
            RunEventStep::Gap { .. } => {}
            RunEventStep::Behind { .. } | RunEventStep::End => return said.turn().to_owned(),
        }
    }
}
