//! Attachments as messages of subjects of their own.

use bytes::Bytes;
use shelly_core::{digest::Sha256Digest, hex, limits};
use shelly_session::{AttachmentError, JournalAttachment};

use super::{
    connection::{ClusterCallError, ClusterHandles},
    message_log::MessageLog,
};

/// The bytes of a digest. A sealed attachment begins with its own: its subject does not say it.
const DIGEST_BYTES: usize = 32;

impl ClusterHandles {
    /// Returns the subjects at which an attachment may be, the first of which is that of a new one.
    fn attachment_subjects(&self, id: &str, token: &str, digest: &Sha256Digest) -> Vec<String> {
        let prefix = self.part_subject("attachment", id, token);
        let names = self.seals.hidden_names(&prefix, &digest.hex());
        names.into_iter().map(|name| format!("{prefix}.{name}")).collect()
    }

    /// Stores an attachment unless it is there, and returns the bytes that were stored.
    pub async fn store_attachment(
        &self,
        (id, token): (&str, &str),
        writer: &str,
        attachment: JournalAttachment,
    ) -> Result<u64, ClusterCallError> {
        let subject = self.attachment_subjects(id, token, &attachment.digest).swap_remove(0);
        let (length, mut bytes) = (attachment.bytes.len() as u64, attachment.bytes);
        if self.seals.is_on() {
            let digest = hex::decode_lower::<DIGEST_BYTES>(&attachment.digest.hex()).unwrap_or_default();
            drop(bytes.splice(..0, digest));
        }
        match self.last_message(&subject).await? {
            Some(last) if last.is_final && last.end == bytes.len() as u64 => return Ok(0),
            // A process died while it stored it.
            Some(_) => self.purge(&subject).await?,
            None => {}
        }
        let mut log = MessageLog::new(subject);
        match self.append(&mut log, writer, Bytes::from(bytes), true).await? {
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
        for subject in self.attachment_subjects(id, token, digest) {
            match self.read_attachment_at(&subject).await? {
                Err(AttachmentError::Missing) => {}
                read => return Ok(read),
            }
        }
        Ok(Err(AttachmentError::Missing))
    }

    async fn read_attachment_at(&self, subject: &str) -> Result<Result<Vec<u8>, AttachmentError>, ClusterCallError> {
        let (mut bytes, mut from, mut head) = (Vec::new(), 1, 0);
        while let Some(message) = self.next_message(subject, from).await? {
            let is_next = message.start == bytes.len() as u64;
            if bytes.is_empty() && message.is_sealed() {
                head = DIGEST_BYTES;
            }
            if !is_next || message.end > (limits::SESSION_RECORD_BYTES + head) as u64 {
                return Ok(Err(AttachmentError::Unusable("lacks a part, or is larger than a record can be")));
            }
            bytes.extend_from_slice(&message.payload);
            from = message.sequence + 1;
            if message.is_final {
                bytes.drain(..head.min(bytes.len()));
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
            if all.len() >= most {
                break;
            }
            let Some(last) = self.last_message(&subject).await?.filter(|last| last.is_final) else { continue };
            let (digest, bytes) = match last.is_sealed() {
                true => {
                    let first = self.next_message(&subject, 1).await?;
                    let digest = first.and_then(|first| first.payload.get(..DIGEST_BYTES).map(hex::encode));
                    (digest, last.end.saturating_sub(DIGEST_BYTES as u64))
                }
                false => (subject.strip_prefix(&prefix).map(str::to_owned), last.end),
            };
            all.extend(digest.as_deref().and_then(Sha256Digest::of_hex).map(|digest| (digest, bytes)));
        }
        Ok(all)
    }
}
