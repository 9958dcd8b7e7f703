//! Bytes as text, by the charset that is said or found.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Bytes in which a page may name its charset: as many as browsers look at.
const SCANNED: usize = 1_024;

/// The text of a body. What cannot be read becomes U+FFFD.
pub(crate) fn decode(said: &str, bytes: &[u8]) -> String {
    let encoding = match Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding,
        None => named(said).or_else(|| in_page(bytes)).unwrap_or_else(|| likely(bytes)),
    };
    encoding.decode(bytes).0.into_owned()
}

/// The charset of a `content-type`.
fn named(said: &str) -> Option<&'static Encoding> {
    let charset = said.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']))
    });
    Encoding::for_label(charset?.as_bytes())
}

/// The charset that a page names in its head.
fn in_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(SCANNED)]).to_ascii_lowercase();
    let meta = start.match_indices("<meta").find_map(|(at, _)| {
        let tag = &start[at..];
        let tag = &tag[..tag.find('>').unwrap_or(tag.len())];
        let value = tag.split_once("charset=")?.1.trim_start_matches(['"', '\'', ' ']);
        Some(&value[..value.find(['"', '\'', ' ', ';', '/']).unwrap_or(value.len())])
    });
    // That it can be read so far shows that it is no UTF-16, whatever it says.
    Encoding::for_label(meta?.as_bytes()).map(|encoding| if encoding.is_ascii_compatible() { encoding } else { UTF_8 })
}

/// UTF-8 where it can be; a cut may have gone through the last character.
fn likely(bytes: &[u8]) -> &'static Encoding {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_some() => WINDOWS_1252,
        _ => UTF_8,
    }
}
