//! A journal or recorded events that are read, from the messages of one subject.

use std::{collections::VecDeque, mem, path::PathBuf, sync::Arc};

use bytes::Bytes;
use shelly_session::{JournalSource, SessionError};

use super::{
    connection::ClusterConnection,
    encryption::{NO_TAG, SealTag},
    message_log::LogMessage,
};

/// The distance in bytes between messages whose place is remembered.
const REMEMBERED_STEP: u64 = 64 << 10;

/// The messages of one subject as one text.
pub(crate) struct MessageSource {
    connection: Arc<ClusterConnection>,
    location: PathBuf,
    subject: String,
    /// The sequence of the last message that is read, and the bytes up to its end at most.
    last: u64,
    most: u64,
    place: MessagePosition,
    /// The last message that was received, and the part of it that was not read.
    current: Bytes,
    rest: Bytes,
    /// Messages that were received ahead, and the number of calls in a row of which each brought the next message.
    ahead: VecDeque<LogMessage>,
    calls: u32,
    /// Messages that begin at least [`REMEMBERED_STEP`] apart, as far as was read.
    remembered: Vec<MessagePosition>,
    /// The offset at which reading began.
    begin: u64,
}

/// A place between two messages.
#[derive(Debug, Clone, Copy)]
struct MessagePosition {
    /// The sequence from which the next message is looked for.
    next: u64,
    /// The bytes of all messages before, and the line ends in them.
    end: u64,
    lines: u64,
    /// The tag of the message before.
    tag: SealTag,
}

impl MessagePosition {
    const START: Self = Self { next: 1, end: 0, lines: 0, tag: NO_TAG };
}

impl MessageSource {
    /// Creates the source of a subject, up to the message with the sequence `last`, of at most `most` bytes. `location` is
    /// named in errors.
    pub fn new(
        connection: Arc<ClusterConnection>,
        location: PathBuf,
        subject: String,
        (last, most): (u64, u64),
    ) -> Self {
        Self {
            connection,
            location,
            subject,
            last,
            most,
            place: MessagePosition::START,
            current: Bytes::new(),
            rest: Bytes::new(),
            ahead: VecDeque::new(),
            calls: 0,
            remembered: Vec::new(),
            begin: 0,
        }
    }

    /// Begins after this many lines.
    pub fn skip_lines(&mut self, mut lines: u64) -> Result<(), SessionError> {
        while lines > 0 && (!self.rest.is_empty() || self.receive()?) {
            let ends = memchr::memchr_iter(b'\n', &self.rest).take(usize::try_from(lines).unwrap_or(usize::MAX));
            let (count, last) = ends.fold((0, 0), |(count, _), end| (count + 1, end + 1));
            lines -= count;
            let skipped = if lines == 0 { last } else { self.rest.len() };
            self.rest = self.rest.slice(skipped..);
        }
        self.begin = self.at();
        Ok(())
    }

    /// Returns the offset of the next byte.
    fn at(&self) -> u64 {
        self.place.end - self.rest.len() as u64
    }

    /// Receives the next message; returns `false` at the end.
    fn receive(&mut self) -> Result<bool, SessionError> {
        let received = match self.ahead.pop_front() {
            None => self.request()?,
            ahead => ahead,
        };
        let Some(message) = received.filter(|message| message.sequence <= self.last) else { return Ok(false) };
        let follows = message.start == self.place.end && message.follows(&self.place.tag);
        if !follows || message.end > self.most {
            return Err(SessionError::Damaged {
                path: self.location.clone(),
                line: self.place.lines + 1,
                byte: self.place.end,
                reason: "a message is missing, stands in another place, or exceeds the size of a session".into(),
            });
        }
        let known_to = self.remembered.last().map_or(0, |known| known.end);
        if message.start >= known_to.saturating_add(REMEMBERED_STEP) {
            self.remembered.push(self.place);
        }
        self.place = MessagePosition {
            next: message.sequence.saturating_add(1),
            end: message.end,
            lines: self.place.lines + memchr::memchr_iter(b'\n', &message.payload).count() as u64,
            tag: message.tag,
        };
        (self.current, self.rest) = (message.payload.clone(), message.payload);
        Ok(true)
    }

    /// Asks the server for the next message. Whoever goes on reading is given more of them at once.
    fn request(&mut self) -> Result<Option<LogMessage>, SessionError> {
        let (subject, from, reads_on) = (self.subject.clone(), self.place.next, self.calls > 0);
        let (next, ahead) = self.connection.wait(
            "read",
            || self.location.clone(),
            |handles| async move {
                let Some(next) = handles.next_message(&subject, from).await? else { return Ok((None, Vec::new())) };
                let ahead = match reads_on {
                    true => handles.messages_after(&subject, next.sequence).await,
                    false => Vec::new(),
                };
                Ok((Some(next), ahead))
            },
        )?;
        self.calls = self.calls.saturating_add(1);
        // Those after a gap are asked for again: it may be none of the log, but of the connection.
        let mut end = next.as_ref().map_or(0, |next| next.end);
        let follows = |message: &LogMessage| message.start == mem::replace(&mut end, message.end);
        self.ahead = ahead.into_iter().take_while(follows).collect();
        Ok(next)
    }
}

impl JournalSource for MessageSource {
    fn read_more(&mut self, buffer: &mut Vec<u8>, most: usize) -> Result<usize, SessionError> {
        // A message may be empty.
        while self.rest.is_empty() {
            if !self.receive()? {
                return Ok(0);
            }
        }
        let part = self.rest.split_to(self.rest.len().min(most));
        buffer.extend_from_slice(&part);
        Ok(part.len())
    }

    fn seek(&mut self, at: u64) -> Result<(), SessionError> {
        let at = self.begin.saturating_add(at);
        if let Some(back) = self.place.end.checked_sub(at)
            && back <= self.current.len() as u64
        {
            self.rest = self.current.slice(self.current.len() - usize::try_from(back).unwrap_or_default()..);
            return Ok(());
        }
        let known = self.remembered.partition_point(|known| known.end <= at);
        let known = known.checked_sub(1).map_or(MessagePosition::START, |known| self.remembered[known]);
        if at < self.at() || known.end > self.place.end {
            (self.place, self.calls) = (known, 0);
            (self.current, self.rest) = (Bytes::new(), Bytes::new());
            self.ahead.clear();
        }
        while self.at() < at && (!self.rest.is_empty() || self.receive()?) {
            let left = usize::try_from(at - self.at().min(at)).unwrap_or(usize::MAX);
            self.rest = self.rest.slice(left.min(self.rest.len())..);
        }
        Ok(())
    }
}
