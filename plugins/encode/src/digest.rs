//! Hash functions by name.

use data_encoding::HEXLOWER;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::Digest;

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Algorithm {
    #[default]
    Sha256,
    Sha512,
    Sha1,
    Md5,
    Blake3,
    Crc32,
}

/// A hash that is computed piece by piece.
pub(crate) enum Hasher {
    Sha256(sha2::Sha256),
    Sha512(sha2::Sha512),
    Sha1(sha1::Sha1),
    Md5(md5::Md5),
    Blake3(Box<blake3::Hasher>),
    Crc32(crc32fast::Hasher),
}

impl Hasher {
    pub(crate) fn new(algorithm: Algorithm) -> Hasher {
        match algorithm {
            Algorithm::Sha256 => Hasher::Sha256(Default::default()),
            Algorithm::Sha512 => Hasher::Sha512(Default::default()),
            Algorithm::Sha1 => Hasher::Sha1(Default::default()),
            Algorithm::Md5 => Hasher::Md5(Default::default()),
            Algorithm::Blake3 => Hasher::Blake3(Default::default()),
            Algorithm::Crc32 => Hasher::Crc32(Default::default()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Sha512(hasher) => hasher.update(bytes),
            Hasher::Sha1(hasher) => hasher.update(bytes),
            Hasher::Md5(hasher) => hasher.update(bytes),
            Hasher::Blake3(hasher) => {
                hasher.update(bytes);
            }
            Hasher::Crc32(hasher) => hasher.update(bytes),
        }
    }

    /// Returns the hash in lower-case hexadecimal.
    pub(crate) fn hex(self) -> String {
        match self {
            Hasher::Sha256(hasher) => HEXLOWER.encode(&hasher.finalize()),
            Hasher::Sha512(hasher) => HEXLOWER.encode(&hasher.finalize()),
            Hasher::Sha1(hasher) => HEXLOWER.encode(&hasher.finalize()),
            Hasher::Md5(hasher) => HEXLOWER.encode(&hasher.finalize()),
            Hasher::Blake3(hasher) => HEXLOWER.encode(hasher.finalize().as_bytes()),
            Hasher::Crc32(hasher) => HEXLOWER.encode(&hasher.finalize().to_be_bytes()),
        }
    }
}
