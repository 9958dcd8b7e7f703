//! The chain of the authentication codes of journal lines: each covers the content of its line and the previous code.

use shelly_core::trust::DerivedKey;

/// The number of hexadecimal digits of a line's code: 128 bits.
pub(super) const CODE_DIGITS: usize = 32;

/// The chain of codes up to the last line of a session.
#[derive(Debug, Clone)]
pub(super) struct LineChain {
    key: DerivedKey,
    last: [u8; 32],
}

impl LineChain {
    /// Begins a chain after the lines that this code covers.
    pub fn new(key: DerivedKey, last: [u8; 32]) -> Self {
        Self { key, last }
    }

    /// Appends a line and returns its code; `content` is the part of the line that the code covers.
    pub fn extend(&mut self, content: &[u8]) -> String {
        self.last = self.key.code(&[b"line", &self.last, content]);
        hex(&self.last[..CODE_DIGITS / 2])
    }

    /// Returns `true` if a line of this content, with this code, is the authentic next line; then the chain includes it.
    pub fn follow(&mut self, content: &[u8], code: &[u8]) -> bool {
        let mut next = self.clone();
        let is_next = next.extend(content).as_bytes() == code;
        if is_next {
            *self = next;
        }
        is_next
    }
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
