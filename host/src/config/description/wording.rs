//! The wording of facts: addresses, commands and long values, each so that any change of the value changes the line.

use url::Url;

use crate::{
    config::mask::{MASK, masked_url},
    digest::Sha256Digest,
    process::shown_words,
    trust::quoted,
};

/// The most bytes of params that are shown in full.
pub(super) const SHOWN_PARAMS_BYTES: usize = 300;

/// Returns the SHA-256 digest in hexadecimal.
pub(super) fn digest_of(text: &str) -> String {
    Sha256Digest::of(text).hex()
}

/// Shows a command, quoted.
pub(super) fn shown_command(words: &[String]) -> String {
    quoted(&shown_words(words.iter().map(String::as_str)))
}

/// Shows an address without the parts that may be a credential, followed by its digest, so that any change of it changes
/// the line.
pub(super) fn shown_address(address: &str) -> String {
    let shown = match Url::parse(address) {
        // The host name as it is looked up: lookalike letters show as punycode.
        Ok(url) if !address.is_ascii() => without_credentials(&url),
        Ok(url) if masked_url(address) == MASK => without_credentials(&url),
        // The parts cannot be told apart, so all of it is shown.
        Err(_) => address.to_owned(),
        Ok(_) => masked_url(address),
    };
    if shown == address {
        return quoted(address);
    }
    format!("{} (sha256:{})", quoted(&shown), digest_of(address))
}

fn without_credentials(url: &Url) -> String {
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}
