//! The messages of one subject, whose payloads together are a journal, recorded events, or an attachment.

use std::{
    pin::pin,
    time::{SystemTime, UNIX_EPOCH},
};

use async_nats::{
    HeaderMap,
    jetstream::{
        consumer::{AckPolicy, DeliverPolicy, pull},
        context::PublishErrorKind,
        message::{Message, PublishMessage, StreamMessage},
        stream::{LastRawMessageErrorKind, RawMessageError},
    },
};
use bytes::Bytes;
use futures_util::TryStreamExt;
use shelly_core::{hex, limits};
use tokio::time::timeout;

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterHandles, is_answer},
    encryption::{ContentSeals, NO_TAG, SealKind, SealPlace, SealTag},
};

/// The offset after the last byte of a message, in the whole.
const END: &str = "Shelly-End";
/// The writer of a message, with which it recognizes its own.
const WRITER: &str = "Shelly-Writer";
/// The time of writing in milliseconds since 1970.
const WRITTEN: &str = "Shelly-Written";
/// The tag of the message before, in hexadecimal digits; present on a message that is sealed.
const AFTER: &str = "Shelly-After";
/// Present on the last message of an attachment.
const FINAL: &str = "Shelly-Final";

/// The end of a subject, as its writer knows it.
#[derive(Debug, Clone)]
pub(crate) struct MessageLog {
    pub subject: String,
    /// The sequence of the last message; 0 if there is none.
    pub sequence: u64,
    /// The bytes of all messages.
    pub end: u64,
    /// The tag of the last message.
    pub tag: SealTag,
}

/// A message that was read.
#[derive(Debug, Clone)]
pub(crate) struct LogMessage {
    pub sequence: u64,
    /// The offset of its first byte.
    pub start: u64,
    pub end: u64,
    pub is_final: bool,
    /// The time of writing in milliseconds since 1970.
    pub written: u64,
    pub payload: Bytes,
    /// The tag of a sealed message, and the one that it names as that of the message before; `None` for a plain one.
    pub tag: SealTag,
    after: Option<SealTag>,
    writer: String,
}

impl LogMessage {
    /// Reads what a message says about itself, without opening it; an error is the reason for which it is not one of a log.
    fn parse(sequence: u64, headers: &HeaderMap, payload: Bytes) -> Result<Self, String> {
        let text = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
        let number = |name: &str| {
            let value = text(name).ok_or_else(|| format!("a message has no header {name}"))?;
            value.parse::<u64>().map_err(|_| format!("the header {name} of a message is not a number"))
        };
        let end = number(END)?;
        let (is_final, written, writer) = (text(FINAL).is_some(), number(WRITTEN)?, text(WRITER).unwrap_or_default());
        let after = match text(AFTER) {
            Some(digits) => {
                let after = hex::decode_lower::<TAG_BYTES>(&digits);
                Some(after.ok_or_else(|| format!("the header {AFTER} of a message is not a tag"))?)
            }
            None => None,
        };
        let tag = after.map_or(NO_TAG, |_| ContentSeals::tag_of(&payload));
        Ok(Self { sequence, start: 0, end, is_final, written, payload, tag, after, writer })
    }

    /// Opens the payload of a message of this subject.
    fn opened(mut self, seals: &ContentSeals, subject: &str) -> Result<Self, ClusterCallError> {
        let after = self.after.unwrap_or(NO_TAG);
        let position = position(self.end, self.is_final, &after);
        let place = SealPlace { kind: SealKind::Message, name: subject, position: &position };
        match self.after {
            Some(_) => self.payload = seals.open_sealed(place, &self.payload)?,
            None => seals.check_plain(place)?,
        }
        let start = self.end.checked_sub(self.payload.len() as u64);
        self.start = start.ok_or_else(|| ClusterCallError::failed("a message is longer than everything up to it"))?;
        Ok(self)
    }

    /// Returns `true` if the message was sealed.
    pub fn is_sealed(&self) -> bool {
        self.after.is_some()
    }

    /// Returns `true` if this message was written after the one with this tag. A plain one does not say so.
    pub fn follows(&self, tag: &SealTag) -> bool {
        self.after.is_none_or(|after| after == *tag)
    }

    /// Reads a message that a consumer has received; `None` if it is not one of a log.
    fn of_consumer(message: &Message) -> Option<Self> {
        let sequence = message.info().ok()?.stream_sequence;
        Self::parse(sequence, message.headers.as_ref()?, message.payload.clone()).ok()
    }
}

impl MessageLog {
    /// Creates the log of a subject that has no messages.
    pub fn new(subject: String) -> Self {
        Self { subject, sequence: 0, end: 0, tag: NO_TAG }
    }
}

impl ClusterHandles {
    /// Returns the first message of a subject whose sequence is at least `from`; `None` if there is none.
    pub async fn next_message(&self, subject: &str, from: u64) -> Result<Option<LogMessage>, ClusterCallError> {
        let read = self.retry(|| self.stream.get_first_raw_message_by_subject(subject, from), is_answer).await;
        self.opened_message(read, subject)
    }

    /// Returns the last message of a subject; `None` if there is none.
    pub async fn last_message(&self, subject: &str) -> Result<Option<LogMessage>, ClusterCallError> {
        let read = self.retry(|| self.stream.get_last_raw_message_by_subject(subject), is_answer).await;
        self.opened_message(read, subject)
    }

    /// Returns the time of the last message of a subject, in milliseconds since 1970, also if it cannot be opened; `None` if
    /// there is none, or if it is not one of a log.
    pub async fn last_written(&self, subject: &str) -> Result<Option<u64>, ClusterCallError> {
        let read = self.retry(|| self.stream.get_last_raw_message_by_subject(subject), is_answer).await;
        match read {
            Ok(StreamMessage { sequence, headers, payload, .. }) => {
                Ok(LogMessage::parse(sequence, &headers, payload).ok().map(|last| last.written))
            }
            Err(error) if is_answer(&error) => Ok(None),
            Err(error) => Err(ClusterCallError::failed(error)),
        }
    }

    fn opened_message(
        &self,
        read: Result<StreamMessage, RawMessageError>,
        subject: &str,
    ) -> Result<Option<LogMessage>, ClusterCallError> {
        parsed(read)?.map(|message| message.opened(&self.seals, subject)).transpose()
    }

    /// Returns messages of a subject that follow the sequence `after`, in order: as many as one call brings, none if that
    /// fails. The first of them need not be the one that follows, and others may be missing between them.
    pub async fn messages_after(&self, subject: &str, after: u64) -> Vec<LogMessage> {
        let mut all = Vec::new();
        let reading = async {
            let config = pull::Config {
                deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: after.saturating_add(1) },
                ack_policy: AckPolicy::None,
                filter_subject: subject.to_owned(),
                inactive_threshold: limits::CLUSTER_CALL,
                num_replicas: 1,
                memory_storage: true,
                ..pull::Config::default()
            };
            let Ok(consumer) = self.stream.create_consumer(config).await else { return };
            let (messages, bytes) = (limits::CLUSTER_READ_MESSAGES, limits::CLUSTER_READ_BYTES);
            let Ok(mut batch) = consumer.fetch().max_messages(messages).max_bytes(bytes).messages().await else {
                return;
            };
            while let Ok(Some(message)) = batch.try_next().await {
                let message = LogMessage::of_consumer(&message).map(|message| message.opened(&self.seals, subject));
                let Some(Ok(message)) = message else { return };
                all.push(message);
            }
        };
        // What came before the time was over is used.
        let _ = timeout(limits::CLUSTER_CALL, reading).await;
        all
    }

    /// Returns the subjects with messages that a pattern matches, at most [`limits::SESSION_FILES`].
    pub async fn subjects(&self, pattern: &str) -> Result<Vec<String>, ClusterCallError> {
        let info = self.retry(|| self.stream.info_with_subjects(pattern), |_| false).await;
        let mut info = pin!(info.map_err(ClusterCallError::failed)?);
        let mut all = Vec::new();
        while let Some((subject, _)) = info.try_next().await.map_err(ClusterCallError::failed)? {
            if all.len() >= limits::SESSION_FILES {
                break;
            }
            all.push(subject);
        }
        Ok(all)
    }

    /// Appends bytes to a log, in messages of at most [`ClusterHandles::message_bytes`]. Returns `false` if the last
    /// message of the subject is another one than the log says: then nothing more is appended.
    pub async fn append(
        &self,
        log: &mut MessageLog,
        writer: &str,
        mut bytes: Bytes,
        is_final: bool,
    ) -> Result<bool, ClusterCallError> {
        loop {
            let part = bytes.split_to(bytes.len().min(self.message_bytes));
            let (end, is_last) = (log.end.saturating_add(part.len() as u64), bytes.is_empty());
            let position = position(end, is_final && is_last, &log.tag);
            let place = SealPlace { kind: SealKind::Message, name: &log.subject, position: &position };
            let payload = self.seals.seal(place, part)?;
            let tag = if self.seals.is_on() { ContentSeals::tag_of(&payload) } else { NO_TAG };
            let written = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            let mut message = PublishMessage::build()
                .payload(payload)
                .header(END, end.to_string())
                .header(WRITER, writer)
                .header(WRITTEN, written.to_string())
                .expected_last_subject_sequence(log.sequence);
            if self.seals.is_on() {
                message = message.header(AFTER, hex::encode(log.tag));
            }
            if is_final && is_last {
                message = message.header(FINAL, "1");
            }
            let Some(sequence) = self.publish_after(log, writer, end, message).await? else { return Ok(false) };
            (log.sequence, log.end, log.tag) = (sequence, end, tag);
            if is_last {
                return Ok(true);
            }
        }
    }

    /// Appends complete lines to a log, in messages that end with a line unless the line is longer than a message. Returns
    /// `false` as [`ClusterHandles::append`] does.
    pub async fn append_lines(
        &self,
        log: &mut MessageLog,
        writer: &str,
        mut lines: Bytes,
    ) -> Result<bool, ClusterCallError> {
        while !lines.is_empty() {
            let most = lines.len().min(self.message_bytes);
            let end = if most < lines.len() { memchr::memrchr(b'\n', &lines[..most]) } else { None };
            let part = lines.split_to(end.map_or(most, |end| end + 1));
            if !self.append(log, writer, part, false).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes what follows the byte `end` of a log, whose messages are not known yet, the last message first. Returns
    /// `false` if the log ends before, or if `may_remove` refuses a part; what follows that part is gone then.
    pub async fn cut(
        &self,
        log: &mut MessageLog,
        writer: &str,
        end: u64,
        may_remove: impl Fn(&[u8]) -> bool + Send,
    ) -> Result<bool, ClusterCallError> {
        // The part of a message before the end, if the message is longer.
        let mut rest = Bytes::new();
        loop {
            let there = self.last_message(&log.subject).await?;
            let (sequence, start, there_to) = there.as_ref().map_or((0, 0, 0), |m| (m.sequence, m.start, m.end));
            let tag = there.as_ref().map_or(NO_TAG, |last| last.tag);
            if there_to.saturating_add(rest.len() as u64) == end {
                (log.sequence, log.end, log.tag) = (sequence, there_to, tag);
                break;
            }
            let Some(message) = there.filter(|_| there_to > end) else { return Ok(false) };
            let kept = usize::try_from(end.saturating_sub(start)).unwrap_or_default().min(message.payload.len());
            if !may_remove(&message.payload[kept..]) {
                return Ok(false);
            }
            rest = message.payload.slice(..kept);
            let removed = self.retry(|| self.stream.delete_message(sequence), |_| false).await;
            removed.map_err(ClusterCallError::failed)?;
        }
        match rest.is_empty() {
            true => Ok(true),
            false => self.append(log, writer, rest, false).await,
        }
    }

    /// Publishes a message after the last one of a log, and returns its sequence; `None` if another message is the last.
    async fn publish_after(
        &self,
        log: &MessageLog,
        writer: &str,
        end: u64,
        message: PublishMessage,
    ) -> Result<Option<u64>, ClusterCallError> {
        let publish = || async { self.context.send_publish(log.subject.clone(), message.clone()).await?.await };
        let published = self.retry(publish, |error| error.kind() == PublishErrorKind::WrongLastSequence).await;
        match published {
            Ok(ack) => Ok(Some(ack.sequence)),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {
                // The reply to a call that had published it may be lost.
                let last = self.last_message(&log.subject).await?;
                let own = last.filter(|last| last.sequence > log.sequence && last.writer == writer && last.end == end);
                Ok(own.map(|own| own.sequence))
            }
            Err(error) => Err(ClusterCallError::failed(error)),
        }
    }
}

/// The bytes of a tag.
const TAG_BYTES: usize = size_of::<SealTag>();

/// Returns the place of a message in its subject: its end, whether it is the last one, and the message before.
fn position(end: u64, is_final: bool, after: &SealTag) -> Vec<u8> {
    [&end.to_be_bytes()[..], &[u8::from(is_final)], after].concat()
}

/// Reads a message without opening it.
fn parsed(read: Result<StreamMessage, RawMessageError>) -> Result<Option<LogMessage>, ClusterCallError> {
    match read {
        Ok(StreamMessage { sequence, headers, payload, .. }) => {
            // Every host writes the headers: the server is not to be blamed.
            let read = LogMessage::parse(sequence, &headers, payload);
            read.map(Some).map_err(|reason| ClusterError::invalid("a message", reason).into())
        }
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(ClusterCallError::failed(error)),
    }
}
