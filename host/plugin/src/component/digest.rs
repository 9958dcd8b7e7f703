use std::fmt;

use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// SHA-256 of a component.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ComponentDigest([u8; 32]);

impl ComponentDigest {
    /// Returns the 32 bytes of the digest.
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// Returns the digest in the form that is stored and compared: `sha256:` and the hexadecimal digits.
    pub fn named(self) -> String {
        format!("sha256:{self}")
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for ComponentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ComponentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for ComponentDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The bytes of a component, and their digest.
pub struct ComponentBytes {
    pub bytes: Vec<u8>,
    pub digest: ComponentDigest,
}
