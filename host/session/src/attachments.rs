//! Long strings of a journal record, stored in separate files.

use std::{borrow::Cow, collections::BTreeMap, ops::Range};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;

use super::{
    Secrets,
    journal_lease::JournalAttachment,
    line_format::{AttachmentRef, members},
    session_record::SessionRecord,
};
use shelly_core::{agent::journal::JournalRecord, digest::Sha256Digest, limits};

/// The content of a journal line, without its envelope.
#[derive(Debug, Default)]
pub(super) struct JournalLineBody {
    /// The members of its JSON object.
    pub members: Vec<u8>,
    /// The attachments that it refers to.
    pub attachments: Vec<JournalAttachment>,
}

/// The strings of a line that are stored in files, by JSON pointer.
type AttachedStrings = BTreeMap<String, AttachmentRef>;

impl JournalLineBody {
    /// Serializes a record. An error is the reason for which it cannot be written.
    pub fn of(record: &JournalRecord, secrets: &Secrets) -> Result<Self, String> {
        let mut attached = AttachedStrings::new();
        let mut attachments = Vec::new();
        let mut record = Cow::Borrowed(record);
        if let JournalRecord::Began { prompt, .. } = &*record
            && prompt.len() > limits::SESSION_INLINE_PROMPT_BYTES
        {
            let bytes = secrets.clean(prompt.as_bytes()).into_owned();
            attach(&mut attached, &mut attachments, "/prompt", bytes, false);
            let mut without = record.into_owned();
            if let JournalRecord::Began { prompt, .. } = &mut without {
                *prompt = "".into();
            }
            record = Cow::Owned(without);
        }
        let is_record = |json: &[u8]| serde_json::from_slice::<JournalRecord>(json).is_ok();
        let json = secrets.clean_json(to_json(&*record)?, is_record);
        let json = match json.len() > limits::SESSION_INLINE_LINE_BYTES {
            true => detach(json, secrets, &mut attached, &mut attachments),
            false => json,
        };
        let mut members = members(&json).to_vec();
        if !attached.is_empty() {
            members.extend_from_slice(b",\"attached\":");
            members.extend_from_slice(&to_json(&attached)?);
        }
        Ok(Self { members, attachments })
    }

    /// Serializes a record of the session itself.
    pub fn own(own: &SessionRecord) -> Result<Self, String> {
        Ok(Self { members: members(&to_json(own)?).to_vec(), attachments: Vec::new() })
    }

    /// Returns the bytes of the line and its attachments.
    pub fn bytes(&self) -> usize {
        self.members.len() + self.attachments.iter().map(|attachment| attachment.bytes.len()).sum::<usize>()
    }
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|error| format!("no JSON form: {error}"))
}

fn attach(
    attached: &mut AttachedStrings,
    to: &mut Vec<JournalAttachment>,
    place: &str,
    bytes: Vec<u8>,
    is_base64: bool,
) {
    let digest = Sha256Digest::of(&bytes);
    attached.insert(place.to_owned(), AttachmentRef { digest, is_base64 });
    to.push(JournalAttachment { digest, bytes });
}

/// Replaces the long strings of a JSON text that this program wrote by attachments.
fn detach(
    json: Vec<u8>,
    secrets: &Secrets,
    attached: &mut AttachedStrings,
    to: &mut Vec<JournalAttachment>,
) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(&json) else { return json };
    let (mut rest, mut copied) = (Vec::new(), 0);
    for_each_string(text, |place, token| {
        if token.len() - 2 <= limits::SESSION_INLINE_STRING_BYTES {
            return;
        }
        let Ok(string) = serde_json::from_str::<String>(&text[token.clone()]) else { return };
        // Image bytes are stored as an image file, provided that the encoding is restored exactly.
        let is_bytes = place.ends_with("/bytes");
        let decoded = is_bytes.then(|| STANDARD.decode(&string).ok()).flatten();
        match decoded.filter(|bytes| STANDARD.encode(bytes) == string) {
            Some(bytes) => attach(attached, to, place, secrets.clean(&bytes).into_owned(), true),
            None => attach(attached, to, place, string.into_bytes(), false),
        }
        rest.extend_from_slice(&json[copied..=token.start]);
        copied = token.end - 1;
    });
    rest.extend_from_slice(&json[copied..]);
    rest
}

/// Puts the attached strings back into a line. `load` reads a file; `wrong` turns a defect of the line itself into an error.
pub(super) fn restore<E>(
    text: &str,
    attached: &AttachedStrings,
    mut load: impl FnMut(&Sha256Digest) -> Result<Vec<u8>, E>,
    wrong: impl Fn(String) -> E,
) -> Result<String, E> {
    let mut places = Vec::new();
    for_each_string(text, |place, token| {
        if let Some(reference) = attached.get(place)
            && token.len() == 2
        {
            places.push((*reference, token.start + 1));
        }
    });
    if places.len() != attached.len() {
        return Err(wrong("one of its attachments has no place in the line".into()));
    }
    let (mut whole, mut copied) = (String::with_capacity(text.len()), 0);
    for (reference, at) in places {
        whole.push_str(&text[copied..at]);
        copied = at;
        let bytes = load(&reference.digest)?;
        let string = match reference.is_base64 {
            true => STANDARD.encode(&bytes),
            false => String::from_utf8(bytes)
                .map_err(|_| wrong(format!("the attachment {} is not UTF-8 text", reference.digest)))?,
        };
        let escaped = serde_json::to_string(&string).map_err(|error| wrong(error.to_string()))?;
        whole.push_str(&escaped[1..escaped.len() - 1]);
        if whole.len() > limits::SESSION_RECORD_BYTES {
            return Err(wrong(format!("more than {} bytes with its attachments", limits::SESSION_RECORD_BYTES)));
        }
    }
    whole.push_str(&text[copied..]);
    Ok(whole)
}

/// Calls `each` with every string value of a valid JSON text: its JSON pointer and its byte range including the quotes.
pub(super) fn for_each_string(json: &str, mut each: impl FnMut(&str, Range<usize>)) {
    /// The length of the path to the container; for a list, also the index of the next element.
    struct JsonLevel(usize, Option<usize>);
    let bytes = json.as_bytes();
    let (mut path, mut levels, mut is_key, mut at) = (String::new(), Vec::new(), false, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = end_of_string(bytes, at);
                if is_key {
                    is_key = false;
                    let key: String = serde_json::from_str(&json[at..end]).unwrap_or_default();
                    path.truncate(levels.last().map_or(0, |JsonLevel(path, _)| *path));
                    path.push('/');
                    path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                } else {
                    each(&path, at..end);
                }
                at = end;
                continue;
            }
            b'{' => {
                levels.push(JsonLevel(path.len(), None));
                is_key = true;
            }
            b'[' => {
                levels.push(JsonLevel(path.len(), Some(0)));
                path.push_str("/0");
            }
            b',' => match levels.last_mut() {
                Some(JsonLevel(before, Some(place))) => {
                    *place += 1;
                    path.truncate(*before);
                    path.push_str(&format!("/{place}"));
                }
                _ => is_key = true,
            },
            b'}' | b']' => {
                is_key = false;
                path.truncate(levels.pop().map_or(0, |JsonLevel(path, _)| path));
            }
            _ => {}
        }
        at += 1;
    }
}

/// Returns the position after the string that begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        match bytes[at] {
            b'"' => return at + 1,
            _ => at += 2,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use super::*;
    use shelly_core::{
        agent::journal::JournalRecord,
        chat::{Media, MediaData, Message, Part, Role},
    };

    #[test]
    fn every_json_string_is_found_with_its_pointer() {
        for (json, found) in [
            (r#""a""#, vec![("", "a")]),
            (
                r#"{"a":"1","b":["2",{"c":"3"},[],{},"4"],"d":5,"e":"6"}"#,
                vec![("/a", "1"), ("/b/0", "2"), ("/b/1/c", "3"), ("/b/4", "4"), ("/e", "6")],
            ),
            (
                r#"{"a/~\"":{"\\":"\"\\"}, "x" : [ [ "y" ] , "z" ] }"#,
                vec![("/a~1~0\"/\\", r#"\"\\"#), ("/x/0/0", "y"), ("/x/1", "z")],
            ),
            ("[]", vec![]),
        ] {
            let mut seen = Vec::new();
            for_each_string(json, |place, token| {
                seen.push((place.to_owned(), json[token.start + 1..token.end - 1].to_owned()));
            });
            let seen: Vec<_> = seen.iter().map(|(place, text)| (place.as_str(), text.as_str())).collect();
            assert_eq!(seen, found, "{json}");
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            assert!(found.iter().all(|(place, _)| value.pointer(place).is_some_and(serde_json::Value::is_string)));
        }
    }

    fn message(parts: Vec<Part>) -> JournalRecord {
        let message = Message { sender: "ü".into(), role: Role::User, parts, meta: Vec::new() };
        JournalRecord::Sent { message }
    }

    fn picture(bytes: Vec<u8>) -> Part {
        let source = MediaData::Bytes(bytes.into());
        Part::Media(Media { media_type: "image/png".into(), name: None, source })
    }

    fn began(prompt: &str) -> JournalRecord {
        let (agent, prompt): (Arc<str>, Arc<str>) = ("a".into(), prompt.into());
        JournalRecord::Began {
            instance: agent.clone(),
            agent,
            model: String::new(),
            depth: 0,
            delegation_key: None,
            continues: None,
            side_chat: None,
            input: Vec::new(),
            prompt,
            changes: Vec::new(),
        }
    }

    #[test]
    fn long_strings_become_attachments_and_are_restored() {
        let long = "\"ü\\\n".repeat(limits::SESSION_INLINE_STRING_BYTES);
        let short = "x".repeat(limits::SESSION_INLINE_STRING_BYTES);
        let bytes: Vec<u8> = (0..=255).cycle().take(limits::SESSION_INLINE_LINE_BYTES).collect();
        let prompt = "p".repeat(limits::SESSION_INLINE_PROMPT_BYTES);
        for (record, attachments) in [
            (message(vec![Part::Text(short.clone())]), 0),
            (message(vec![Part::Text(short.clone()), Part::Text(short[1..].into())]), 0),
            (message(vec![Part::Text(long.clone()), Part::Text(short), Part::Text(long.clone())]), 2),
            (message(vec![picture(bytes.clone()), Part::Text(long)]), 2),
            (message(vec![picture(bytes[..9].to_vec())]), 0),
            (began(&prompt), 0),
            (began(&format!("{prompt}ü")), 1),
        ] {
            let body = JournalLineBody::of(&record, &Secrets::default()).unwrap();
            assert_eq!(body.attachments.len(), attachments, "{record:?}");
            let files: HashMap<Sha256Digest, Vec<u8>> =
                body.attachments.iter().map(|file| (file.digest, file.bytes.clone())).collect();
            assert!(!body.attachments.iter().any(|file| file.bytes.len() == bytes.len() && file.bytes != bytes));
            let text = format!("{{{}}}", String::from_utf8(body.members).unwrap());
            #[derive(serde::Deserialize)]
            struct Of {
                #[serde(default)]
                attached: AttachedStrings,
            }
            let Of { attached } = serde_json::from_str(&text).unwrap();
            let whole = restore(&text, &attached, |digest| Ok(files[digest].clone()), |why| why).unwrap();
            assert_eq!(serde_json::from_str::<JournalRecord>(&whole).unwrap(), record);
        }
    }

    #[test]
    fn line_without_a_place_for_an_attachment_is_refused() {
        let reference = AttachmentRef { digest: Sha256Digest::of(b"x"), is_base64: false };
        let attached = |place: &str| AttachedStrings::from([(place.to_owned(), reference)]);
        for (text, place, bytes, result) in [
            (r#"{"a":""}"#, "/a", &b"x"[..], Ok(r#"{"a":"x"}"#)),
            (r#"{"a":""}"#, "/b", b"x", Err("no place")),
            (r#"{"a":"1"}"#, "/a", b"x", Err("no place")),
            (r#"{"a":1}"#, "/a", b"x", Err("no place")),
            (r#"{"a":""}"#, "/a", b"\xff", Err("UTF-8")),
        ] {
            let restored = restore(text, &attached(place), |_| Ok(bytes.to_vec()), |why| why);
            match result {
                Ok(whole) => assert_eq!(restored.unwrap(), whole),
                Err(why) => assert!(restored.unwrap_err().contains(why), "{text}"),
            }
        }
    }
}
