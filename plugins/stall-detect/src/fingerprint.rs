//! Fingerprints that identify equal results.

use shelly_plugin::{
    Content,
    types::{Source, ToolResult},
};

/// The number of bytes of a result's text that are compared. The beginning identifies a result; later text may be a time
/// or a count.
const BYTES: usize = 200;

/// Returns the fingerprint of a result of this tool. Returns none if the content is not visible: without the power to see
/// results, all results would be equal.
pub(crate) fn of(tool: &str, result: &ToolResult) -> Option<u64> {
    if result.content.is_empty() {
        return None;
    }
    let mut hash = Hash::default();
    hash.add(tool.as_bytes());
    hash.add(&[u8::from(result.is_error)]);
    let mut left = BYTES;
    for content in &result.content {
        match content {
            Content::Text(text) | Content::Json(text) => left = hash.add_some(text.as_bytes(), left),
            // Different pictures are different results.
            Content::Media(media) => match &media.source {
                Source::Bytes(bytes) => hash.add(bytes),
                Source::Attachment(id) | Source::Url(id) => hash.add(id.as_bytes()),
            },
            Content::Change(change) => hash.add(change.path.as_bytes()),
            Content::Other(other) => left = hash.add_some(other.json.as_bytes(), left),
        }
    }
    Some(hash.0)
}

/// An FNV-1a hash, which suffices to distinguish one result from the next.
struct Hash(u64);

impl Default for Hash {
    fn default() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Adds bytes and a terminator that no text contains, so that two pieces differ from their concatenation.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds the first `most` bytes, and returns how many more may be added.
    fn add_some(&mut self, bytes: &[u8], most: usize) -> usize {
        let taken = bytes.len().min(most);
        self.add(&bytes[..taken]);
        most - taken
    }
}

#[cfg(test)]
mod tests {
    use shelly_plugin::types::Media;

    use super::*;

    fn print(tool: &str, is_error: bool, content: Vec<Content>) -> Option<u64> {
        of(tool, &ToolResult { call_id: "1".into(), content, is_error })
    }

    fn text(text: &str) -> Vec<Content> {
        vec![text.into()]
    }

    fn picture(id: &str) -> Content {
        Content::Media(Media { media_type: "image/png".into(), name: None, source: Source::Attachment(id.into()) })
    }

    #[test]
    fn result_fingerprint_covers_tool_error_flag_and_beginning() {
        let long = |end: &str| text(&("é".repeat(100) + end));
        let some = print("read", false, text("a"));
        for other in [
            print("write", false, text("a")),
            print("read", true, text("a")),
            print("read", false, text("b")),
            print("read", false, text("")),
            print("reada", false, text("")),
            print("read", false, vec!["a".into(), "b".into()]),
            print("read", false, vec![picture("1")]),
            print("read", false, long("")),
        ] {
            assert!(other.is_some() && other != some);
        }
        assert_eq!(print("read", false, text("a")), some);
        assert_eq!(print("read", false, long("1")), print("read", false, long("2")), "only the end differs");
        assert_ne!(print("read", false, vec![picture("1")]), print("read", false, vec![picture("2")]));
        assert_eq!(print("read", false, vec![]), None);
    }
}
