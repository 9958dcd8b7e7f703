//! The stored form of a reply: JSON, so that a later version can read it.

use serde::{Deserialize, Serialize};
use shelly_plugin::{
    Error, Part,
    types::{Completion, Opaque, StopReason, Thinking, ToolCall, Usage},
};

/// The version of the layout below.
const VERSION: u32 = 1;

/// The prefix of the host's keys in a `meta`, which a plugin must not invent.
const OF_THE_HOST: &str = "shelly.";

type Meta = Vec<(String, String)>;

/// A stored reply with its time and number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    version: u32,
    /// The time at which the reply was stored, in milliseconds since 1970.
    pub at_ms: u64,
    /// The number of replies stored so far, including this one.
    pub number: u64,
    model: String,
    /// Set if the reply calls tools.
    calls: bool,
    parts: Vec<Piece>,
    meta: Meta,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Piece {
    Text(String),
    Thinking { text: String, opaque: Option<String> },
    ToolCall { id: String, name: String, arguments: String, meta: Meta },
    Other { kind: String, json: String },
}

impl Entry {
    /// Converts a reply for storage. Returns `None` for a reply with media, because the host keeps those only for this
    /// call.
    pub(crate) fn of(completion: &Completion, at_ms: u64) -> Option<Entry> {
        Some(Entry {
            version: VERSION,
            at_ms,
            number: 0,
            model: completion.model.clone(),
            calls: completion.stop == StopReason::ToolCalls,
            parts: completion.parts.iter().map(Piece::of).collect::<Option<_>>()?,
            meta: own(&completion.meta),
        })
    }

    /// Converts a stored reply back. Its usage is zero, because no model was asked.
    pub(crate) fn into_completion(self) -> Completion {
        Completion {
            parts: self.parts.into_iter().map(Piece::into_part).collect(),
            stop: if self.calls { StopReason::ToolCalls } else { StopReason::EndTurn },
            usage: Usage::default(),
            model: self.model,
            meta: self.meta,
        }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(Error::other)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Entry> {
        serde_json::from_slice(bytes).ok().filter(|entry: &Entry| entry.version == VERSION)
    }
}

impl Piece {
    fn of(part: &Part) -> Option<Piece> {
        Some(match part.clone() {
            Part::Text(text) => Piece::Text(text),
            Part::Thinking(Thinking { text, opaque }) => Piece::Thinking { text, opaque },
            Part::ToolCall(ToolCall { id, name, arguments, meta }) => {
                Piece::ToolCall { id, name, arguments, meta: own(&meta) }
            }
            Part::Other(Opaque { kind, json }) => Piece::Other { kind, json },
            Part::Media(_) | Part::ToolResult(_) => return None,
        })
    }

    fn into_part(self) -> Part {
        match self {
            Piece::Text(text) => Part::Text(text),
            Piece::Thinking { text, opaque } => Part::Thinking(Thinking { text, opaque }),
            Piece::ToolCall { id, name, arguments, meta } => Part::ToolCall(ToolCall { id, name, arguments, meta }),
            Piece::Other { kind, json } => Part::Other(Opaque { kind, json }),
        }
    }
}

fn own(meta: &[(String, String)]) -> Meta {
    meta.iter().filter(|(key, _)| !key.starts_with(OF_THE_HOST)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use shelly_plugin::types::{Media, Source};

    use super::*;

    fn full() -> Completion {
        let meta = |key: &str| vec![(key.to_owned(), "1".to_owned())];
        Completion {
            parts: vec![
                Part::Thinking(Thinking { text: "hm".into(), opaque: Some("sig".into()) }),
                Part::Text("hello".into()),
                Part::Other(Opaque { kind: "x.y".into(), json: "{}".into() }),
                Part::ToolCall(ToolCall {
                    id: "c".into(),
                    name: "t".into(),
                    arguments: r#"{"a":1}"#.into(),
                    meta: meta("vendor.signature"),
                }),
            ],
            stop: StopReason::ToolCalls,
            usage: Usage::default(),
            model: "m".into(),
            meta: meta("vendor.id"),
        }
    }

    #[test]
    fn cache_entry_round_trips() {
        for completion in [full(), Completion { stop: StopReason::EndTurn, parts: Vec::new(), ..full() }] {
            let entry = Entry { number: 7, ..Entry::of(&completion, 9).unwrap() };
            let read = Entry::decode(&entry.encode().unwrap()).unwrap();
            assert_eq!((read.number, read.at_ms), (7, 9));
            assert_eq!(read.into_completion(), completion);
        }
    }

    #[test]
    fn cache_entry_omits_host_meta_and_rejects_media() {
        let mut completion = full();
        completion.meta.push(("shelly.x".into(), "1".into()));
        assert_eq!(Entry::of(&completion, 0).unwrap().into_completion(), full());
        let source = Source::Attachment("a".into());
        completion.parts.push(Part::Media(Media { media_type: "image/png".into(), name: None, source }));
        assert_eq!(Entry::of(&completion, 0), None);
    }

    #[test]
    fn cache_entry_of_invalid_bytes_is_none() {
        let entry = Entry { version: 2, ..Entry::of(&full(), 0).unwrap() };
        for bytes in [entry.encode().unwrap(), Vec::new(), b"{}".to_vec(), vec![0xff]] {
            assert_eq!(Entry::decode(&bytes), None);
        }
    }
}
