use base64::{Engine, engine::general_purpose::STANDARD};
use ring::signature::{Ed25519KeyPair, KeyPair};

/// A key that signs as the program minisign does. It is no secret.
pub struct MinisignKey {
    pair: Ed25519KeyPair,
    id: [u8; 8],
}

impl MinisignKey {
    /// Creates the key of this number: always the same.
    pub fn new(number: u8) -> Self {
        Self { pair: Ed25519KeyPair::from_seed_unchecked(&[number; 32]).unwrap(), id: [number; 8] }
    }

    /// Returns the public key, as a config names it.
    pub fn public(&self) -> String {
        STANDARD.encode([b"Ed".as_slice(), &self.id, self.pair.public_key().as_ref()].concat())
    }

    /// Returns the content of a signature file for a text.
    pub fn sign(&self, text: &str) -> String {
        const COMMENT: &str = "test";
        let signature = self.pair.sign(text.as_bytes());
        let global = self.pair.sign(&[signature.as_ref(), COMMENT.as_bytes()].concat());
        let named = STANDARD.encode([b"Ed".as_slice(), &self.id, signature.as_ref()].concat());
        let global = STANDARD.encode(global.as_ref());
        format!("untrusted comment: of a test\n{named}\ntrusted comment: {COMMENT}\n{global}\n")
    }
}
