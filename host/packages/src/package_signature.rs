//! Signatures of packages: minisign over the list of their files. They are verified without a network.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use minisign_verify::{Error, PublicKey, Signature};
use shelly_core::{digest::Sha256Digest, hex};

use crate::plugin_package_files::checksums;

/// The public key of somebody who signs plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    name: String,
    key: PublicKey,
}

impl SigningKey {
    /// Parses a public key of minisign: the second line of its file. `name` is the owner's name, for messages.
    ///
    /// # Errors
    ///
    /// The reason why it is no key.
    pub fn parse(name: &str, key: &str) -> Result<Self, String> {
        let key = PublicKey::from_base64(key.trim()).map_err(|_| "it is not a public key of minisign".to_owned())?;
        Ok(Self { name: name.to_owned(), key })
    }
}

/// A rule for signatures: one of some keys must have signed each package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignaturePolicy {
    keys: Vec<SigningKey>,
}

impl SignaturePolicy {
    /// Creates the rule that one of these keys must have signed each package. Without keys, packages need no signature.
    pub fn new(keys: Vec<SigningKey>) -> Self {
        Self { keys }
    }

    /// Returns the name of the key that has signed a package with these files; `None` if no signature is needed.
    ///
    /// # Errors
    ///
    /// The reason why the package does not comply with the rule.
    pub fn signer(
        &self,
        files: &BTreeMap<String, Sha256Digest>,
        signature: Option<&str>,
    ) -> Result<Option<&str>, String> {
        self.signer_of(checksums(files).as_bytes(), signature)
    }

    fn signer_of(&self, signed: &[u8], signature: Option<&str>) -> Result<Option<&str>, String> {
        if self.keys.is_empty() {
            return Ok(None);
        }
        let names: Vec<_> = self.keys.iter().map(|key| format!("`{}`", key.name.escape_debug())).collect();
        let names = names.join(" or ");
        let signature = signature.ok_or_else(|| format!("it has no signature, and {names} must have signed it"))?;
        let signature = Signature::decode(signature).map_err(|_| "its signature is not one of minisign".to_owned())?;
        for key in &self.keys {
            // Older programs sign the text itself instead of its hash, which is as safe for a text of this size.
            match key.key.verify(signed, &signature, true) {
                Ok(()) => return Ok(Some(&key.name)),
                Err(Error::UnexpectedKeyId) => {}
                Err(_) => {
                    return Err(format!("its signature by `{}` is not one of these files", key.name.escape_debug()));
                }
            }
        }
        Err(format!("it is signed by another key than that of {names}"))
    }
}

/// Returns the id of the key that a signature names, as minisign writes it. Nothing is verified.
pub fn key_id(signature: &str) -> Option<String> {
    let bytes = STANDARD.decode(signature.lines().nth(1)?.trim()).ok()?;
    let mut id: [u8; 8] = bytes.get(2..10)?.try_into().ok()?;
    id.reverse();
    Some(hex::encode(id).to_uppercase())
}

#[cfg(test)]
mod tests {
    use shelly_test_support::MinisignKey;

    use super::*;

    fn policy(keys: &[(&str, &MinisignKey)]) -> SignaturePolicy {
        SignaturePolicy::new(keys.iter().map(|(name, key)| SigningKey::parse(name, &key.public()).unwrap()).collect())
    }

    fn files() -> BTreeMap<String, Sha256Digest> {
        [("c.wasm", "code"), ("plugin.toml", "id")].map(|(name, text)| (name.to_owned(), Sha256Digest::of(text))).into()
    }

    #[test]
    fn signature_must_be_by_a_named_key_and_of_these_files() {
        let (ada, bob, eve) = (MinisignKey::new(1), MinisignKey::new(2), MinisignKey::new(3));
        let rule = policy(&[("ada", &ada), ("bob", &bob)]);
        let text = checksums(&files());
        assert_eq!(rule.signer(&files(), Some(&bob.sign(&text))), Ok(Some("bob")));
        let altered = ada.sign(&text.replace("c.wasm", "d.wasm"));
        let forged = ada.sign(&text).replace("trusted comment: test", "trusted comment: best");
        for (signature, says) in [
            (None, "it has no signature, and `ada` or `bob` must have signed it"),
            (Some(eve.sign(&text)), "it is signed by another key than that of `ada` or `bob`"),
            (Some(altered), "its signature by `ada` is not one of these files"),
            (Some(forged), "its signature by `ada` is not one of these files"),
            (Some("signed, ada".to_owned()), "its signature is not one of minisign"),
        ] {
            assert_eq!(rule.signer(&files(), signature.as_deref()), Err(says.to_owned()));
        }
        assert_eq!(SignaturePolicy::default().signer(&files(), None), Ok(None));
        assert_ne!(key_id(&ada.sign(&text)), key_id(&eve.sign(&text)));
        assert_eq!(key_id("signed, ada"), None);
    }

    #[test]
    fn signature_of_the_program_minisign_is_verified() {
        let key = SigningKey::parse("it", "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\n").unwrap();
        let signature = "untrusted comment: signature from minisign secret key\n\
             RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
             trusted comment: timestamp:1633700835\tfile:test\tprehashed\n\
             wLMDjy9FLAuxZ3q4NlEvkgtyhrr0gtTu6KC4KBJdITbbOeAi1zBIYo0v4iTgt8jJpIidRJnp94ABQkJAgAooBQ==\n";
        let rule = SignaturePolicy::new(vec![key]);
        assert_eq!(rule.signer_of(b"test", Some(signature)), Ok(Some("it")));
        assert!(rule.signer_of(b"Test", Some(signature)).is_err());
        assert_eq!(key_id(signature).unwrap(), "E7620F1842B4E81F");
        for wrong in ["", "RWQf", "untrusted comment: minisign public key"] {
            assert!(SigningKey::parse("it", wrong).is_err(), "{wrong}");
        }
    }
}
