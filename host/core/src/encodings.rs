//! The encodings in which a server or a model may repeat a credential.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use url::form_urlencoded::byte_serialize;

use crate::hex;

/// The minimum number of base64 digits of a partial encoding that is searched for: shorter ones occur by chance.
const SHORTEST_PART: usize = 8;

/// Returns the encodings of a text, the longest first; callers compare them case-insensitively. The encodings are: the text
/// itself; escaped in JSON, with `/` or `\/`, and escaped twice; percent-encoded as in a form, as in a URL with and without
/// its slashes, and completely; hexadecimal digits; `\u` escapes; base64 in both alphabets, of the text alone and at each of
/// the three offsets within a longer text, such as `Bearer` and the text.
pub fn encodings_of(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let json = in_json(text);
    let form: String = byte_serialize(bytes).collect();
    let percent = form.replace('+', "%20").replace('*', "%2A").replace("%7E", "~");
    let mut forms = vec![
        text.to_owned(),
        in_json(&json),
        json.replace('/', "\\/"),
        json,
        form,
        percent.replace("%2F", "/"),
        percent,
        bytes.iter().map(|byte| format!("%{byte:02x}")).collect(),
        hex::encode(bytes),
        text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
        STANDARD_NO_PAD.encode(bytes),
        URL_SAFE_NO_PAD.encode(bytes),
    ];
    for before in 0..3 {
        let inner = [&[0; 2][..before], bytes].concat();
        for encoded in [STANDARD_NO_PAD.encode(&inner), URL_SAFE_NO_PAD.encode(&inner)] {
            // The first and the last digits also hold bits of the neighbouring bytes.
            let (start, end) = ((before * 4).div_ceil(3), inner.len() * 4 / 3);
            forms.extend(encoded.get(start..end).filter(|part| part.len() >= SHORTEST_PART).map(String::from));
        }
    }
    forms.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    forms.dedup();
    forms
}

/// Returns a text as it appears between the quotes of a JSON string.
fn in_json(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json[1..json.len() - 1].into()
}
