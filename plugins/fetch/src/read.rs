//! The type of a response body.

use shelly_plugin::{Error, http::Body};

/// The number of bytes that are read at once.
const READ: u32 = 64 << 10;

/// The number of bytes at the start of a body that are examined to determine its type.
const KNOWN_BY: usize = 1_024;

/// The form in which a body is shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Page,
    Json,
    Text,
    Media(&'static str),
    Binary,
}

/// The media types that a model can be shown, with their offset and magic bytes.
const MEDIA: [(&str, usize, &[u8]); 6] = [
    ("image/png", 0, b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", 0, b"\xff\xd8\xff"),
    ("image/gif", 0, b"GIF87a"),
    ("image/gif", 0, b"GIF89a"),
    ("image/webp", 8, b"WEBPVP8"),
    ("application/pdf", 0, b"%PDF-"),
];

/// Reads the first bytes of a body, and returns them with `true` if there are no more. `media` bounds a picture or
/// document, `text` any other body.
pub(crate) fn first(mut body: Body, said: &str, text: usize, media: usize) -> Result<(Vec<u8>, bool), Error> {
    let mut bytes = Vec::new();
    loop {
        let most = if is_media(said, &bytes) { media } else { text };
        if bytes.len() > most {
            bytes.truncate(most);
            return Ok((bytes, false));
        }
        let piece = body.read(READ)?;
        if piece.is_empty() {
            return Ok((bytes, true));
        }
        bytes.extend(piece);
    }
}

fn is_media(said: &str, bytes: &[u8]) -> bool {
    matches!(kind(said, bytes), Kind::Media(_))
}

/// Determines the type of a body: by its bytes if they are known, else by the server's `content-type`.
pub(crate) fn kind(said: &str, bytes: &[u8]) -> Kind {
    let begins = |(_, at, magic): &&(&str, usize, &[u8])| bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic));
    if let Some((media_type, ..)) = MEDIA.iter().find(begins) {
        return Kind::Media(media_type);
    }
    let said = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let start = &bytes[..bytes.len().min(KNOWN_BY)];
    let is_utf16 = start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff");
    if start.contains(&0) && !is_utf16 {
        return Kind::Binary;
    }
    let begins_with = |words: &[&str]| {
        let start = start.trim_ascii_start().to_ascii_lowercase();
        words.iter().any(|word| start.starts_with(word.as_bytes()))
    };
    match &*said {
        "text/html" | "application/xhtml+xml" => Kind::Page,
        said if said == "application/json" || said.ends_with("+json") || said == "text/json" => Kind::Json,
        said if said.starts_with("text/") => Kind::Text,
        "" | "application/octet-stream" if begins_with(&["<!doctype html", "<html"]) => Kind::Page,
        "" if begins_with(&["{", "["]) => Kind::Json,
        said if said.starts_with("image/") && said != "image/svg+xml" => Kind::Binary,
        said if said.starts_with("audio/") || said.starts_with("video/") || said.starts_with("font/") => Kind::Binary,
        _ => match is_utf16 || has_few_controls(start) {
            true => Kind::Text,
            false => Kind::Binary,
        },
    }
}

/// Returns `true` if bytes look like text in any charset.
fn has_few_controls(bytes: &[u8]) -> bool {
    let odd = bytes.iter().filter(|byte| **byte < 0x20 && !byte.is_ascii_whitespace() && **byte != 0x1b).count();
    odd * 100 <= bytes.len()
}

/// Returns the last name in the path of a URL.
pub(crate) fn file_name(url: &str) -> Option<String> {
    let path = url.split_once("://")?.1.split(['?', '#']).next()?;
    let name = path.split_once('/')?.1.rsplit('/').next()?;
    (!name.is_empty()).then(|| shelly_plugin::text::head(name, 100).to_owned())
}
