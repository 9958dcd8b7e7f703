//! Decoding of bytes to text, by a declared or detected charset.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// The number of bytes at the start of a page that are searched for a charset; browsers search as many.
const SCANNED: usize = 1_024;

/// Decodes the text of a body. Invalid bytes become `U+FFFD`.
pub(crate) fn decode(said: &str, bytes: &[u8]) -> String {
    let encoding = match Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding,
        None => named(said).or_else(|| in_page(bytes)).unwrap_or_else(|| likely(bytes)),
    };
    encoding.decode(bytes).0.into_owned()
}

/// Returns the charset of a `content-type`.
fn named(said: &str) -> Option<&'static Encoding> {
    let charset = said.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']))
    });
    Encoding::for_label(charset?.as_bytes())
}

/// Returns the charset that a page declares in its head.
fn in_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(SCANNED)]).to_ascii_lowercase();
    let meta = start.match_indices("<meta").find_map(|(at, _)| {
        let tag = &start[at..];
        let tag = &tag[..tag.find('>').unwrap_or(tag.len())];
        let value = tag.split_once("charset=")?.1.trim_start_matches(['"', '\'', ' ']);
        Some(&value[..value.find(['"', '\'', ' ', ';', '/']).unwrap_or(value.len())])
    });
    // A declaration that can be read as ASCII cannot be in UTF-16, whatever it says.
    Encoding::for_label(meta?.as_bytes()).map(|encoding| if encoding.is_ascii_compatible() { encoding } else { UTF_8 })
}

/// Returns UTF-8 if the bytes can be UTF-8. The last character may be cut.
fn likely(bytes: &[u8]) -> &'static Encoding {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_some() => WINDOWS_1252,
        _ => UTF_8,
    }
}
