use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use sha2::{Digest, Sha256};

use crate::chat::{Part, ReplyDelta};

/// A receiver of the deltas of a reply.
#[async_trait]
pub trait DeltaTarget: Send + Sync {
    /// Takes a delta; waits while the receiver is behind.
    async fn take(&self, delta: ReplyDelta);
}

/// The destination of a reply's deltas: a receiver, or none.
#[derive(Clone, Default)]
pub struct DeltaSink(Option<Arc<dyn DeltaTarget>>);

impl DeltaSink {
    /// Creates a sink that discards all deltas.
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a sink that hands all deltas to this receiver.
    pub fn new(target: Arc<dyn DeltaTarget>) -> Self {
        Self(Some(target))
    }

    /// Returns a sink that hands all deltas on to this one, and a flag that is set once there is one.
    pub fn observed(&self) -> (Self, DeltaSeenFlag) {
        let seen = DeltaSeenFlag::default();
        (Self::new(Arc::new(ObservedDeltaSink { sink: self.clone(), seen: seen.clone() })), seen)
    }

    /// Returns a sink that hands all deltas on to this one, and a record of the content that they showed.
    pub fn compared(&self) -> (Self, ShownReply) {
        let shown = ShownReply::default();
        (Self::new(Arc::new(ComparedDeltaSink { sink: self.clone(), shown: shown.clone() })), shown)
    }

    /// Hands on one delta. Waits while the receiver is behind.
    pub async fn emit(&self, delta: ReplyDelta) {
        if let Some(target) = &self.0 {
            target.take(delta).await;
        }
    }
}

/// A flag that tells if any delta of a reply was handed on.
#[derive(Debug, Clone, Default)]
pub struct DeltaSeenFlag(Arc<AtomicBool>);

impl DeltaSeenFlag {
    /// Returns `true` if a delta was handed on.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct ObservedDeltaSink {
    sink: DeltaSink,
    seen: DeltaSeenFlag,
}

#[async_trait]
impl DeltaTarget for ObservedDeltaSink {
    async fn take(&self, delta: ReplyDelta) {
        self.seen.0.store(true, Ordering::Relaxed);
        self.sink.emit(delta).await;
    }
}

/// A record of the deltas that were shown, for comparison with the final reply.
#[derive(Clone, Default)]
pub struct ShownReply(Arc<Mutex<ShownPieces>>);

#[derive(Default)]
struct ShownPieces {
    text: ShownText,
    thinking: ShownText,
    calls: ShownText,
}

impl ShownReply {
    /// Returns the kind of shown content that a reply does not contain: its text, its thoughts or its tool calls. White
    /// space is ignored, and the reply may continue beyond the shown content.
    pub fn differs_from(&self, parts: &[Part]) -> Option<&'static str> {
        let pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |part: fn(&Part) -> Option<&str>| parts.iter().filter_map(part);
        let text = of(|part| if let Part::Text(text) = part { Some(text) } else { None });
        let thinking = of(|part| if let Part::Thinking(thought) = part { Some(&thought.text) } else { None });
        let calls = of(|part| if let Part::ToolCall(call) = part { Some(&call.name) } else { None });
        let calls: String = calls.flat_map(|name| [name, "\0"]).collect();
        if !pieces.text.begins(text) {
            Some("text")
        } else if !pieces.thinking.begins(thinking) {
            Some("thoughts")
        } else if !pieces.calls.begins([&*calls].into_iter()) {
            Some("tool calls")
        } else {
            None
        }
    }

    fn add(&self, delta: &ReplyDelta) {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match delta {
            ReplyDelta::Text(text) => pieces.text.add(text),
            ReplyDelta::Thinking(text) => pieces.thinking.add(text),
            ReplyDelta::ToolCall(name) => {
                pieces.calls.add(name);
                pieces.calls.add("\0");
            }
            ReplyDelta::Usage(_) => {}
        }
    }
}

impl fmt::Debug for ShownReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShownReply(…)")
    }
}

/// A text that was shown in pieces. Only its digest is kept, because the text may be as long as a reply.
#[derive(Default)]
struct ShownText {
    digest: Sha256,
    bytes: usize,
}

impl ShownText {
    fn add(&mut self, text: &str) {
        for word in text.split_whitespace() {
            self.digest.update(word);
            self.bytes += word.len();
        }
    }

    /// Returns `true` if `text` begins with this text.
    fn begins<'a>(&self, text: impl Iterator<Item = &'a str>) -> bool {
        let (mut digest, mut left) = (Sha256::new(), self.bytes);
        for word in text.flat_map(str::split_whitespace) {
            let word = &word.as_bytes()[..word.len().min(left)];
            digest.update(word);
            left -= word.len();
        }
        left == 0 && digest.finalize() == self.digest.clone().finalize()
    }
}

struct ComparedDeltaSink {
    sink: DeltaSink,
    shown: ShownReply,
}

#[async_trait]
impl DeltaTarget for ComparedDeltaSink {
    async fn take(&self, delta: ReplyDelta) {
        self.shown.add(&delta);
        self.sink.emit(delta).await;
    }
}

impl fmt::Debug for DeltaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "DeltaSink(watched)" } else { "DeltaSink(unwatched)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{ThinkingPart, ToolCall};

    fn call(name: &str) -> ToolCall {
        ToolCall { id: "1".into(), name: name.into(), arguments: "{}".into(), meta: Vec::new() }
    }

    #[tokio::test]
    async fn shown_pieces_are_compared_with_the_reply() {
        let thought = |text: &str| Part::Thinking(ThinkingPart { text: text.into(), opaque: None });
        let reply = [
            thought("I think."),
            Part::Text("Four\n".into()),
            Part::ToolCall(call("add")),
            Part::Text("is it.".into()),
        ];
        let (text, thinking) =
            (|text: &str| ReplyDelta::Text(text.into()), |text: &str| ReplyDelta::Thinking(text.into()));
        let tool = |name: &str| ReplyDelta::ToolCall(name.into());
        for (shown, differs) in [
            (vec![], None),
            (vec![thinking("I "), thinking("think."), text("Fo"), text("ur"), tool("add"), text(" is it.\n")], None),
            (vec![text("Four")], None),
            (vec![text("Five")], Some("text")),
            (vec![text("Four is it. And more.")], Some("text")),
            (vec![text("is it.")], Some("text")),
            (vec![thinking("I do not think.")], Some("thoughts")),
            (vec![text("Four"), tool("remove")], Some("tool calls")),
            (vec![tool("ad")], Some("tool calls")),
            (vec![tool("add"), tool("add")], Some("tool calls")),
        ] {
            let (sink, compared) = DeltaSink::none().compared();
            for delta in shown.clone() {
                sink.emit(delta).await;
            }
            assert_eq!(compared.differs_from(&reply), differs, "{shown:?}");
        }
    }
}
