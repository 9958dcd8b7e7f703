//! Attachments as messages of subjects of their own.

use bytes::Bytes;
use shelly_core::{digest::Sha256Digest, limits};
use shelly_session::{AttachmentError, JournalAttachment};

use super::{
    connection::{ClusterCallError, ClusterHandles},
    message_log::MessageLog,
};

impl ClusterHandles {
    /// Returns the subject of an attachment.
    fn attachment_subject(&self, id: &str, token: &str, digest: &Sha256Digest) -> String {
        format!("{}.{}", self.part_subject("attachment", id, token), digest.hex())
    }

    /// Stores an attachment unless it is there, and returns the bytes that were stored.
    pub async fn store_attachment(
        &self,
        (id, token): (&str, &str),
        writer: &str,
        attachment: JournalAttachment,
    ) -> Result<u64, ClusterCallError> {
        let subject = self.attachment_subject(id, token, &attachment.digest);
        let length = attachment.bytes.len() as u64;
        match self.last_message(&subject).await? {
            Some(last) if last.is_final && last.end == length => return Ok(0),
            // A process died while it stored it.
            Some(_) => self.purge(&subject).await?,
            None => {}
        }
        let mut log = MessageLog::new(subject);
        match self.append(&mut log, writer, Bytes::from(attachment.bytes), true).await? {
            true => Ok(length),
            false => Err(ClusterCallError::lease_lost(id)),
        }
    }

    /// Reads an attachment; its digest is not checked.
    pub async fn read_attachment(
        &self,
        (id, token): (&str, &str),
        digest: &Sha256Digest,
    ) -> Result<Result<Vec<u8>, AttachmentError>, ClusterCallError> {
        let subject = self.attachment_subject(id, token, digest);
        let (mut bytes, mut from) = (Vec::new(), 1);
        while let Some(message) = self.next_message(&subject, from).await? {
            let is_next = message.start == bytes.len() as u64;
            if !is_next || message.end > limits::SESSION_RECORD_BYTES as u64 {
                return Ok(Err(AttachmentError::Unusable("lacks a part, or is larger than a record can be")));
            }
            bytes.extend_from_slice(&message.payload);
            from = message.sequence + 1;
            if message.is_final {
                return Ok(Ok(bytes));
            }
        }
        Ok(Err(AttachmentError::Missing))
    }

    /// Lists the attachments of a session as digest and size in bytes; at most `most`.
    pub async fn list_attachments(
        &self,
        (id, token): (&str, &str),
        most: usize,
    ) -> Result<Vec<(Sha256Digest, u64)>, ClusterCallError> {
        let prefix = format!("{}.", self.part_subject("attachment", id, token));
        let mut all = Vec::new();
        for subject in self.subjects(&format!("{prefix}*")).await? {
            let digest = subject.strip_prefix(&prefix).and_then(Sha256Digest::of_hex);
            let Some(digest) = digest.filter(|_| all.len() < most) else { continue };
            let last = self.last_message(&subject).await?;
            all.extend(last.filter(|last| last.is_final).map(|last| (digest, last.end)));
        }
        Ok(all)
    }
}
