//! SHA-256 digests.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest as _, Sha256};

use crate::hex;

/// The prefix of a digest as text.
const SHA256: &str = "sha256:";

/// A SHA-256 digest; as text `sha256:` and 64 hexadecimal digits. Formats with the digits alone are read and written by
/// [`digits`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Digest(pub [u8; 32]);

impl Sha256Digest {
    /// Computes the digest of these bytes.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }

    /// Parses `sha256:` and 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        Self::of_hex(text.strip_prefix(SHA256)?)
    }

    /// Parses 64 lower-case hexadecimal digits.
    pub fn of_hex(digits: &str) -> Option<Self> {
        hex::decode_lower(digits).map(Self)
    }
}

/// Completes a digest that was computed piece by piece.
impl From<Sha256> for Sha256Digest {
    fn from(hash: Sha256) -> Self {
        Self(hash.finalize().into())
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SHA256}{}", self.hex())
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl Serialize for Sha256Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sha256Digest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        Self::parse(&text)
            .ok_or_else(|| D::Error::custom("invalid digest; expected `sha256:` and 64 hexadecimal digits"))
    }
}

/// Reads and writes a digest as its 64 digits alone, of either case: for `#[serde(with = "…")]`.
pub mod digits {
    use super::*;

    /// Writes the digits in lower case.
    pub fn serialize<S: Serializer>(digest: &Sha256Digest, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&digest.hex())
    }

    /// Reads the digits.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Sha256Digest, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        let bytes =
            hex::decode(&text).ok_or_else(|| D::Error::custom("invalid digest; expected 64 hexadecimal digits"))?;
        Ok(Sha256Digest(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_has_one_text_in_each_format() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Both {
            named: Sha256Digest,
            #[serde(with = "digits")]
            bare: Sha256Digest,
        }
        const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = Sha256Digest::of("abc");
        assert_eq!((digest.to_string(), digest.hex()), (format!("sha256:{ABC}"), ABC.to_owned()));
        assert_eq!(Sha256Digest::from(Sha256::new_with_prefix("a").chain_update("bc")), digest);
        let both = Both { named: digest, bare: digest };
        let json = format!(r#"{{"named":"sha256:{ABC}","bare":"{ABC}"}}"#);
        assert_eq!(serde_json::to_string(&both).unwrap(), json);
        assert_eq!(serde_json::from_str::<Both>(&json).unwrap(), both);
        let capitals = json.replace(&format!(r#""{ABC}""#), &format!(r#""{}""#, ABC.to_uppercase()));
        assert_eq!(serde_json::from_str::<Both>(&capitals).unwrap(), both);
        let swapped = json.replace("sha256:", "");
        assert!(serde_json::from_str::<Both>(&swapped).is_err(), "{swapped}");
    }
}
