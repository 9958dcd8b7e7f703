//! Attachments in the form that wire formats use.

use base64::{Engine, display::Base64Display, prelude::BASE64_STANDARD};
use serde::{Serialize, Serializer};

use shelly_core::chat::{Media, MediaData};

/// Bytes that are serialized as base64 without an intermediate copy.
pub struct Base64<'a>(pub &'a [u8]);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0, &BASE64_STANDARD))
    }
}

/// Returns the bytes of an attachment as a `data:` URI.
pub fn data_uri(media_type: &str, bytes: &[u8]) -> String {
    let mut uri = format!("data:{media_type};base64,");
    BASE64_STANDARD.encode_string(bytes, &mut uri);
    uri
}

/// A named file as both APIs of OpenAI take it.
#[derive(Serialize)]
pub struct InlineFile<'a> {
    filename: &'a str,
    file_data: String,
}

impl<'a> InlineFile<'a> {
    /// Creates a PDF document from an attachment and its bytes.
    pub fn pdf(media: &'a Media, bytes: &[u8]) -> Self {
        let filename = media.name.as_deref().unwrap_or("document.pdf");
        Self { filename, file_data: data_uri(&media.media_type, bytes) }
    }
}

/// Returns the text that replaces an attachment that the wire format cannot carry.
pub fn placeholder(media: &Media) -> String {
    let name = media.name.as_deref().unwrap_or("attachment");
    match &media.source {
        MediaData::Url(url) => format!("[{name}, {}: {url}]", media.media_type),
        MediaData::Bytes(bytes) => format!("[{name}, {}, {} bytes: cannot be shown]", media.media_type, bytes.len()),
    }
}
