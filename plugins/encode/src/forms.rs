//! Encodings by name.

use data_encoding::{BASE32, BASE32_NOPAD, BASE64, BASE64_NOPAD, BASE64URL_NOPAD, Encoding, HEXLOWER};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str};
use schemars::JsonSchema;
use serde::Deserialize;

/// The characters that are percent-encoded: all but those that RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    Base64,
    Base64url,
    Base32,
    Hex,
    Percent,
    Html,
}

impl Form {
    pub(crate) fn encode(self, text: &(impl AsRef<[u8]> + ?Sized)) -> String {
        let bytes = text.as_ref();
        match self {
            Form::Base64 => BASE64.encode(bytes),
            Form::Base64url => BASE64URL_NOPAD.encode(bytes),
            Form::Base32 => BASE32.encode(bytes),
            Form::Hex => HEXLOWER.encode(bytes),
            Form::Percent => percent_encoding::percent_encode(bytes, RESERVED).to_string(),
            Form::Html => html_escape::encode_safe(&String::from_utf8_lossy(bytes)).into_owned(),
        }
    }

    /// Decodes a text, or returns what is wrong and where. Whitespace and padding are optional, and base64 and base64url
    /// accept each other's two special characters.
    pub(crate) fn decode(self, text: &str) -> Result<Vec<u8>, String> {
        match self {
            Form::Base64 | Form::Base64url => decode_with(&BASE64_NOPAD, text, |byte| match byte {
                b'-' => b'+',
                b'_' => b'/',
                byte => byte,
            }),
            Form::Base32 => decode_with(&BASE32_NOPAD, text, |byte| byte.to_ascii_uppercase()),
            Form::Hex => {
                let digits = text.trim_start().strip_prefix("0x").unwrap_or(text);
                decode_with(&HEXLOWER, digits, |byte| byte.to_ascii_lowercase())
            }
            Form::Percent => Ok(percent_decode_str(text).collect()),
            Form::Html => Ok(html_escape::decode_html_entities(text).into_owned().into_bytes()),
        }
    }
}

fn decode_with(encoding: &Encoding, text: &str, unify: impl Fn(u8) -> u8) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).map(unify).collect();
    let padding = digits.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = &digits[..digits.len() - padding];
    encoding.decode(digits).map_err(|error| {
        let at = error.position;
        match error.kind {
            data_encoding::DecodeKind::Length => format!("the text is truncated at byte {at}, white space not counted"),
            _ => format!("invalid character at byte {at}, white space not counted"),
        }
    })
}
