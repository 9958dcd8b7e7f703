//! Responses as results of tools.

use serde_json::value::RawValue;

use super::shown_text::shown_text;
use shelly_core::{
    chat::{Media, MediaData, ToolResultContent},
    error::{Fault, cut},
    limits,
    tool::ToolOutput,
};
use shelly_net::egress::EgressResponse;

/// Response headers that a model needs for its next call.
const SHOWN_HEADERS: [&str; 5] = ["retry-after", "link", "location", "etag", "x-ratelimit-reset"];

/// Reads a response as the result of a call. A status of 400 or more is an error result.
///
/// # Errors
///
/// The faults of reading the body.
pub(crate) async fn output(mut response: EgressResponse) -> Result<ToolOutput, Fault> {
    let (body, is_cut) = body(&mut response).await?;
    Ok(ResponseParts { status: response.status, headers: response.headers, body, is_cut }.into_output())
}

/// Reads the body up to the limit, and returns `true` if there is more.
async fn body(response: &mut EgressResponse) -> Result<(Vec<u8>, bool), Fault> {
    let most = limits::OPENAPI_RESPONSE_BYTES;
    let mut bytes = Vec::new();
    while let Some(chunk) = response.body.chunk().await? {
        let room = most - bytes.len();
        if chunk.len() > room {
            bytes.extend_from_slice(&chunk[..room]);
            return Ok((bytes, true));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, false))
}

/// A response that was read.
struct ResponseParts {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    /// `true` if the rest of the body was not read.
    is_cut: bool,
}

impl ResponseParts {
    fn into_output(self) -> ToolOutput {
        let is_error = self.status >= 400;
        let head = self.head();
        let mut content = vec![ToolResultContent::Text(head)];
        content.extend(match is_error {
            true => self.beginning(),
            false => self.content(),
        });
        match is_error {
            true => ToolOutput::Failed(content),
            false => ToolOutput::Reply(content),
        }
    }

    /// Returns the status and the headers for a model, a line each.
    fn head(&self) -> String {
        let mut head = format!("HTTP {}", self.status);
        for (name, value) in self.headers.iter().filter(|(name, _)| SHOWN_HEADERS.contains(&name.as_str())) {
            let value = shown_text(&String::from_utf8_lossy(value), limits::OPENAPI_HEADER_CHARS);
            head += &format!("\n{name}: {value}");
        }
        if self.body.is_empty() {
            head += "\n(no body)";
        }
        if self.is_cut {
            let most = limits::OPENAPI_RESPONSE_BYTES;
            head += &format!("\n(the response has more than {most} bytes; only its beginning was read)");
        }
        head
    }

    /// Returns the media type in lower case, without parameters; empty: none.
    fn media_type(&self) -> String {
        let named = self.headers.iter().find(|(name, _)| name == "content-type");
        let text = named.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default();
        text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns the body as text, if it is one.
    fn text(&self) -> Option<String> {
        let kind = self.media_type();
        let is_text = kind.starts_with("text/")
            || ["json", "+json", "xml", "+xml", "yaml", "+yaml", "javascript", "x-www-form-urlencoded", "x-ndjson"]
                .iter()
                .any(|ending| kind.ends_with(ending));
        match is_text {
            true => Some(String::from_utf8_lossy(&self.body).into_owned()),
            // Some servers name no type, or the most general one.
            false if matches!(&*kind, "" | "application/octet-stream") => String::from_utf8(self.body.clone()).ok(),
            false => None,
        }
    }

    /// Returns the beginning of the body of an error.
    fn beginning(&self) -> Option<ToolResultContent> {
        let text = match self.text() {
            Some(text) => cut(&text, limits::OPENAPI_ERROR_CHARS),
            None => format!("[{} bytes of {}]", self.body.len(), self.shown_type()),
        };
        (!self.body.is_empty()).then_some(ToolResultContent::Text(text))
    }

    /// Returns the body for a model.
    fn content(self) -> Option<ToolResultContent> {
        if self.body.is_empty() {
            return None;
        }
        Some(match self.text() {
            Some(text) if !self.is_cut && serde_json::from_str::<&RawValue>(&text).is_ok() => {
                ToolResultContent::Json(text)
            }
            Some(text) => ToolResultContent::Text(text),
            None if self.is_cut => ToolResultContent::Text(format!("[{}, left out]", self.shown_type())),
            None => {
                let source = MediaData::Bytes(self.body.clone().into());
                ToolResultContent::Media(Media { media_type: self.shown_type(), name: None, source })
            }
        })
    }

    /// Returns the media type as it may be shown and stored.
    fn shown_type(&self) -> String {
        let kind = self.media_type();
        let is_type = kind.len() <= limits::MEDIA_NAME_BYTES
            && kind.contains('/')
            && kind.bytes().all(|byte| byte.is_ascii_graphic());
        if is_type { kind } else { "application/octet-stream".into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(status: u16, headers: &[(&str, &str)], body: &[u8], is_cut: bool) -> ResponseParts {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        ResponseParts { status, headers: headers.collect(), body: body.to_vec(), is_cut }
    }

    fn text(text: &str) -> ToolResultContent {
        ToolResultContent::Text(text.into())
    }

    #[test]
    fn responses_become_results() {
        let json = ("content-type", "application/json; charset=utf-8");
        let png = ("content-type", "image/png");
        let media =
            Media { media_type: "image/png".into(), name: None, source: MediaData::Bytes(vec![0x89, 0xff].into()) };
        let cut_head = "HTTP 200\n(the response has more than 8388608 bytes; only its beginning was read)";
        for (parts, expected) in [
            (
                parts(200, &[json, ("link", "<https://h/2>; rel=\"next\""), ("server", "x")], b"{\"a\":1}", false),
                vec![text("HTTP 200\nlink: <https://h/2>; rel=\"next\""), ToolResultContent::Json("{\"a\":1}".into())],
            ),
            (parts(200, &[json], b"{broken", false), vec![text("HTTP 200"), text("{broken")]),
            (parts(200, &[], b"plain", false), vec![text("HTTP 200"), text("plain")]),
            (parts(204, &[("etag", "\"1\"")], b"", false), vec![text("HTTP 204\netag: \"1\"\n(no body)")]),
            (
                parts(201, &[("location", "/a\u{1b}[2J")], b"", false),
                vec![text("HTTP 201\nlocation: /a\\u{1b}[2J\n(no body)")],
            ),
            (parts(200, &[png], &[0x89, 0xff], false), vec![text("HTTP 200"), ToolResultContent::Media(media)]),
            (parts(200, &[json], b"7", true), vec![text(cut_head), text("7")]),
            (parts(200, &[png], b"ab", true), vec![text(cut_head), text("[image/png, left out]")]),
        ] {
            assert_eq!(parts.into_output(), ToolOutput::Reply(expected));
        }
    }

    #[test]
    fn error_responses_are_error_results() {
        let long = "x".repeat(limits::OPENAPI_ERROR_CHARS + 1);
        let cut_long = format!("{}…", "x".repeat(limits::OPENAPI_ERROR_CHARS));
        for (parts, expected) in [
            (
                parts(429, &[("retry-after", "7"), ("content-type", "application/json")], b"{\"m\":1}", false),
                vec![text("HTTP 429\nretry-after: 7"), text("{\"m\":1}")],
            ),
            (parts(500, &[], b"", false), vec![text("HTTP 500\n(no body)")]),
            (
                parts(500, &[("content-type", "text/html")], long.as_bytes(), false),
                vec![text("HTTP 500"), text(&cut_long)],
            ),
            (
                parts(404, &[("content-type", "image/png")], &[1, 2], false),
                vec![text("HTTP 404"), text("[2 bytes of image/png]")],
            ),
        ] {
            assert_eq!(parts.into_output(), ToolOutput::Failed(expected));
        }
    }

    #[test]
    fn header_of_a_response_is_cut() {
        let long = "l".repeat(limits::OPENAPI_HEADER_CHARS + 1);
        let head = parts(200, &[("link", &long)], b"", false).head();
        assert!(head.contains(&format!("{}…", &long[1..])), "{}", head.len());
    }
}
