//! The stored bytes of one journal, or of its recorded events.

use super::SessionError;

/// A journal that is read from one of its lines on, or the recorded events of a session. Every call blocks.
pub trait JournalSource: Send {
    /// Appends at most `most` of the bytes that follow to `buffer` and returns their number. 0 is the present end of the
    /// journal; a writer may append more. Fewer bytes than `most` are not the end.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    fn read_more(&mut self, buffer: &mut Vec<u8>, most: usize) -> Result<usize, SessionError>;

    /// Continues at a byte that was read before, or after the last one: `at` of them precede it.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    fn seek(&mut self, at: u64) -> Result<(), SessionError>;
}
