use std::{collections::VecDeque, sync::Arc};

use super::{
    RunEventLine,
    run_event_file::StoredLines,
    run_events::{EventPlace, RunEvents},
};

/// The next step of a reader of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunLineStep {
    /// The next event.
    Line(RunEventLine),
    /// Events that this reader wanted are gone. The events after them follow.
    Gap {
        /// The sequence of the first one.
        from: u64,
        /// The sequence of the last one.
        to: u64,
    },
    /// This reader was too slow: the event after the sequence `after` was gone before it was read.
    Behind {
        /// The sequence of the last event that was read.
        after: u64,
    },
    /// The run has ended, and all of its events were read.
    End,
}

/// Reads the events of a run as JSON from any sequence on: from its file first, then from memory. It never delays the run
/// for longer than it takes to read a part of the file.
pub struct RunLineReader {
    events: Arc<RunEvents>,
    /// The position of the next event; `None` until it was looked up in the file.
    next: Option<u64>,
    /// The sequence of the last event that was read, or after which the reader began.
    after: u64,
    /// Events that were read from the file, from the next position on.
    ahead: VecDeque<RunEventLine>,
}

impl RunLineReader {
    /// Returns a reader that begins after this sequence; 0: at the first event.
    pub(super) fn new(events: Arc<RunEvents>, after: u64) -> Self {
        let next = events.position_after(after);
        Self { events, next, after, ahead: VecDeque::new() }
    }

    /// Returns the next step. After [`RunLineStep::Behind`] and [`RunLineStep::End`] it returns the same step again. Cancel
    /// safe.
    pub async fn next(&mut self) -> RunLineStep {
        let events = Arc::clone(&self.events);
        loop {
            if let Some(line) = self.ahead.pop_front() {
                return self.pass(line);
            }
            let changed = events.changed();
            let place = match self.next {
                Some(next) => events.at(next),
                None => EventPlace::Left,
            };
            match place {
                EventPlace::Memory(record) => return self.pass(RunEventLine::from(record)),
                EventPlace::End => return RunLineStep::End,
                EventPlace::Future => changed.await,
                EventPlace::Left => {
                    if let Some(step) = self.read_ahead().await {
                        return step;
                    }
                }
            }
        }
    }

    fn pass(&mut self, line: RunEventLine) -> RunLineStep {
        self.next = self.next.map(|next| next + 1);
        self.after = line.sequence;
        RunLineStep::Line(line)
    }

    /// Reads the next events from the file. Returns a step if some of them are gone.
    async fn read_ahead(&mut self) -> Option<RunLineStep> {
        let (events, next, after) = (Arc::clone(&self.events), self.next, self.after);
        let read = tokio::task::spawn_blocking(move || match next {
            Some(next) => events.file().lines_from(next),
            None => events.file().lines_after(after),
        });
        // The runtime ends.
        let Ok(StoredLines { first, lost_to, lines }) = read.await else { return Some(RunLineStep::Behind { after }) };
        if next.is_some_and(|next| next != first) {
            return Some(RunLineStep::Behind { after });
        }
        let is_gap = next.is_none() && lost_to > after;
        (self.next, self.ahead) = (Some(first), lines.into());
        is_gap.then(|| {
            self.after = lost_to;
            RunLineStep::Gap { from: after.saturating_add(1), to: lost_to }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::{super::run_event_file::RunFileSpace, *};
    use crate::{
        event::{Event, StreamEvent},
        limits,
        session::{EventRedactor, Secrets},
    };

    fn new(space: u64) -> Arc<RunEvents> {
        Arc::new(RunEvents::new(&RunFileSpace::new(space)))
    }

    async fn push(events: &RunEvents, sequence: u64, message: &str) {
        let event = Event::Warning { message: message.into() };
        let event = StreamEvent { sequence, time: UNIX_EPOCH, run: None, parent: None, event };
        events.push(&event, &mut EventRedactor::default(), &Secrets::default());
        events.make_room().await;
    }

    /// Returns the number of events that have left memory.
    fn left(events: &RunEvents) -> u64 {
        (0..).find(|position| matches!(events.at(*position), EventPlace::Memory(_))).unwrap()
    }

    /// Returns the sequences of the lines that can be read before the run goes on, and the step after them.
    async fn read_lines(reader: &mut RunLineReader, last: u64) -> (Vec<u64>, Option<RunLineStep>) {
        let mut sequences = Vec::new();
        while sequences.last() != Some(&last) {
            match reader.next().await {
                RunLineStep::Line(line) => {
                    assert!(line.json.contains(&format!("\"sequence\":{},", line.sequence)), "{}", line.json);
                    sequences.push(line.sequence);
                }
                other => return (sequences, Some(other)),
            }
        }
        (sequences, None)
    }

    #[tokio::test]
    async fn reader_of_lines_gets_those_that_have_left_memory() {
        let events = new(limits::SERVE_RUN_FILES_BYTES);
        let mut slow = RunLineReader::new(Arc::clone(&events), 0);
        let last = 2 * limits::SERVE_RUN_EVENTS as u64 + 7;
        for sequence in 1..=last {
            push(&events, sequence, "").await;
        }
        let left = left(&events);
        assert!(left > limits::SERVE_RUN_EVENTS as u64);
        assert_eq!(read_lines(&mut slow, last).await, ((1..=last).collect(), None));
        // From each part: the file, its end, memory, and its end.
        for after in [0, 1, left - 1, left, left + 1, last - 1] {
            let mut late = RunLineReader::new(Arc::clone(&events), after);
            assert_eq!(read_lines(&mut late, last).await, ((after + 1..=last).collect(), None), "after {after}");
        }
        push(&events, last + 1, "").await;
        events.end();
        assert_eq!(read_lines(&mut slow, u64::MAX).await, (vec![last + 1], Some(RunLineStep::End)));
        assert_eq!(events.lost(), 0);
    }

    #[tokio::test]
    async fn reader_of_lines_is_told_what_is_gone() {
        // There is space for about one block.
        let events = new(3 * limits::SERVE_RUN_BLOCK_BYTES as u64 / 2);
        let mut slow = RunLineReader::new(Arc::clone(&events), 0);
        let message = "x".repeat(limits::SERVE_RUN_BLOCK_BYTES / 4);
        let last = (2 * limits::SERVE_RUN_EVENT_BYTES / message.len()) as u64;
        push(&events, 1, &message).await;
        assert!(matches!(slow.next().await, RunLineStep::Line(line) if line.sequence == 1));
        for sequence in 2..=last {
            push(&events, sequence, &message).await;
        }
        let lost = events.lost();
        assert!(lost > 1 && lost < left(&events), "{lost}");
        assert_eq!(slow.next().await, RunLineStep::Behind { after: 1 });
        assert_eq!(slow.next().await, RunLineStep::Behind { after: 1 });
        let mut late = RunLineReader::new(Arc::clone(&events), 1);
        assert_eq!(late.next().await, RunLineStep::Gap { from: 2, to: lost });
        assert_eq!(read_lines(&mut late, last).await, ((lost + 1..=last).collect(), None), "all that are left");
    }
}
