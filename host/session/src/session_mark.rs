//! The mark of a session: an authentication code over its name and its first lines, with which the chain of the codes of
//! all further lines begins.

use sha2::{Digest as _, Sha256};

use super::{
    line_chain::{LineChain, hex},
    session_origin::SessionOrigin,
    sha256_digest::Sha256Digest,
};
use shelly_core::trust::DerivedKey;

/// The purpose string of the key from which marks and codes are derived.
pub(super) const PURPOSE: &str = "shelly-host session";

/// The mark of a session: its origin, its name, and its first lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionMark {
    pub origin: SessionOrigin,
    /// The number of lines that the mark itself covers, including the first one.
    pub lines: u64,
    pub code: [u8; 32],
}

impl SessionMark {
    /// Creates the mark of a session of this name; `digest` is that of its first lines including their line ends.
    pub fn new(key: &DerivedKey, origin: SessionOrigin, name: &str, lines: u64, digest: Sha256) -> Self {
        let code = key.code(&[
            b"mark",
            // A part of every code that was ever written: `SessionOrigin` says which number.
            &[origin as u8],
            &(name.len() as u64).to_le_bytes(),
            name.as_bytes(),
            &lines.to_le_bytes(),
            &digest.finalize(),
        ]);
        Self { origin, lines, code }
    }

    /// Returns the chain for the lines after those that the mark covers.
    pub fn chain(&self, key: DerivedKey) -> LineChain {
        LineChain::new(key, self.code)
    }

    /// Returns the text of the mark file.
    pub fn text(&self) -> String {
        format!("2 {} {} hmac-sha256:{}\n", self.origin.word(), self.lines, hex(&self.code))
    }

    /// Parses the text of a mark file; `None` if it is invalid or of an earlier release.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, code) = text.strip_suffix('\n')?.split_once(" hmac-sha256:")?;
        let mut words = head.split(' ');
        let (version, origin, lines) = (words.next()?, words.next()?, words.next()?);
        let mark = Self {
            origin: SessionOrigin::of_word(origin)?,
            lines: lines.parse().ok().filter(|lines| *lines > 0)?,
            code: Sha256Digest::of_hex(code)?.0,
        };
        (version == "2" && words.next().is_none() && mark.text() == text).then_some(mark)
    }
}
