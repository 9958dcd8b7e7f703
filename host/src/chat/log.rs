use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use imbl::Vector;

use super::{Content, Message, Part, Role, ToolCall, ToolResult};
use crate::limits;

/// A message in a chat, with what is known of it without reading it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Names the message in this chat for good; never used again.
    pub id: u64,
    /// The message.
    pub message: Arc<Message>,
    /// Estimate of its tokens.
    pub tokens: u32,
    /// The `id` of the assistant message whose calls opened the group that this one belongs to.
    pub group: Option<u64>,
    /// Put there by the host or an effect.
    pub note: bool,
    /// Not as it was first written.
    pub edited: bool,
}

/// The conversation as it was at one moment. Cheap to take and to clone: it shares everything with the chat.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    entries: Vector<Entry>,
    tokens: u64,
    bytes: usize,
}

impl Snapshot {
    /// A conversation made of these messages.
    ///
    /// # Errors
    ///
    /// [`EditError`] if calls and results do not pair up.
    pub fn from_messages(messages: Vec<Message>) -> Result<Self, EditError> {
        check_pairs(&messages, true)?;
        let mut log = Log::default();
        log.push_all(messages);
        Ok(Self { entries: log.entries, tokens: log.tokens, bytes: log.bytes })
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Estimate of the tokens of all messages.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Bytes that all messages keep in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The entries from position `start` up to but without `end`, as far as they exist.
    pub fn range(&self, start: usize, end: usize) -> impl Iterator<Item = &Entry> {
        let end = end.min(self.len());
        self.entries.focus().into_iter().skip(start).take(end.saturating_sub(start))
    }

    /// The position of the message with this id.
    pub fn find(&self, id: u64) -> Option<usize> {
        self.entries.iter().position(|entry| entry.id == id)
    }

    /// The newest message.
    pub fn last(&self) -> Option<&Entry> {
        self.entries.last()
    }
}

/// New messages for a range of old ones.
#[derive(Debug, Clone)]
pub struct Replacement {
    /// The id of the first message that goes.
    pub first: u64,
    /// The id of the last one.
    pub last: u64,
    /// What stands there instead.
    pub messages: Vec<Message>,
}

/// Why an edit was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// No message has this id.
    #[error("there is no message {0} in the chat")]
    NoMessage(u64),
    /// The range runs backwards.
    #[error("message {0} comes after message {1}")]
    Backwards(u64, u64),
    /// A tool call would lose its result, or a result its call.
    #[error("a group of a reply and its results would be cut apart at message {0}")]
    CutsGroup(u64),
    /// Calls and results of the new messages do not pair up.
    #[error("calls and results of the new messages do not pair up: {0}")]
    Unpaired(String),
    /// No result answers this call.
    #[error("there is no result of a call `{0}`")]
    NoResult(String),
    /// A system message may only be the first.
    #[error("a system message can only be the first")]
    MisplacedSystem,
}

/// A conversation: an append-only shared log. Clones are the same conversation.
#[derive(Debug, Clone, Default)]
pub struct Chat {
    log: Arc<Mutex<Log>>,
}

#[derive(Debug, Default)]
struct Log {
    entries: Vector<Entry>,
    tokens: u64,
    bytes: usize,
    next_id: u64,
    call_ids: HashSet<String>,
    /// The group whose results are still to come.
    open: Option<u64>,
    /// User messages that wait until after those results.
    waiting: Vec<Message>,
}

impl Chat {
    /// An empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// The conversation as it is now.
    pub fn snapshot(&self) -> Snapshot {
        let log = self.lock();
        Snapshot { entries: log.entries.clone(), tokens: log.tokens, bytes: log.bytes }
    }

    /// Adds a message without tool calls or results. While calls are open it waits until after their results.
    ///
    /// # Errors
    ///
    /// [`EditError::Unpaired`] if it has calls or results, [`EditError::MisplacedSystem`] for a system message that
    /// is not the first.
    pub fn append(&self, message: Message) -> Result<(), EditError> {
        if message.tool_calls().next().is_some() || message.tool_results().next().is_some() {
            return Err(EditError::Unpaired(
                "a message with calls or results can only be a reply or its answer".into(),
            ));
        }
        let mut log = self.lock();
        if message.role == Role::System && !log.entries.is_empty() {
            return Err(EditError::MisplacedSystem);
        }
        if log.open.is_some() {
            log.waiting.push(message);
        } else {
            log.push(message, None);
        }
        Ok(())
    }

    /// Adds a [`Message::note`]; after the results if calls are open.
    pub fn note(&self, sender: &str, text: impl Into<String>) {
        self.append(Message::note(sender, text))
            .expect("a note has neither calls nor results and is no system message");
    }

    /// Adds the reply of a model. Its calls are open until the returned guard answers them; if the guard is dropped,
    /// each gets a result that says it was not run.
    ///
    /// A call whose id is empty or was used before gets a new one: ids are unique in a chat whatever a vendor sends.
    pub fn reply(&self, mut message: Message) -> OpenCalls {
        let mut log = self.lock();
        for part in &mut message.parts {
            if let Part::ToolCall(call) = part {
                log.claim_call_id(call);
            }
        }
        let calls: Vec<_> = message.tool_calls().cloned().collect();
        let group = (!calls.is_empty()).then_some(log.next_id);
        log.push(message, group);
        log.open = group;
        drop(log);
        OpenCalls { chat: self.clone(), calls }
    }

    /// Changes what a tool said; whether it was an error stays as it was.
    ///
    /// # Errors
    ///
    /// [`EditError::NoResult`] if no result answers that call.
    pub fn replace_result(&self, call_id: &str, content: Vec<Content>) -> Result<(), EditError> {
        let mut log = self.lock();
        let answers = |entry: &Entry| entry.message.tool_results().any(|result| result.call_id == call_id);
        let position = log.entries.iter().position(answers).ok_or_else(|| EditError::NoResult(call_id.into()))?;
        let mut message = Message::clone(&log.entries[position].message);
        for part in &mut message.parts {
            if let Part::ToolResult(result) = part
                && result.call_id == call_id
            {
                result.content = content;
                break;
            }
        }
        let (tokens, bytes) = (message.tokens(), message.bytes());
        let entry = &mut log.entries[position];
        let before = (std::mem::replace(&mut entry.tokens, tokens), entry.message.bytes());
        entry.message = Arc::new(message);
        entry.edited = true;
        log.tokens = log.tokens - u64::from(before.0) + u64::from(tokens);
        log.bytes = log.bytes - before.1 + bytes;
        Ok(())
    }

    /// Replaces or removes messages, whole groups only.
    ///
    /// # Errors
    ///
    /// [`EditError`]; then nothing was changed.
    pub fn replace(&self, replacement: Replacement) -> Result<(), EditError> {
        let mut log = self.lock();
        let position = |id| log.entries.iter().position(|entry| entry.id == id).ok_or(EditError::NoMessage(id));
        let (start, end) = (position(replacement.first)?, position(replacement.last)?);
        if start > end {
            return Err(EditError::Backwards(replacement.first, replacement.last));
        }
        log.check_group_border(start)?;
        log.check_group_border(end + 1)?;
        if log.open.is_some() && end + 1 == log.entries.len() {
            return Err(EditError::CutsGroup(replacement.last));
        }
        check_pairs(&replacement.messages, start == 0)?;
        log.check_call_ids(&replacement.messages, start, end)?;

        let after = log.entries.split_off(end + 1);
        let gone = log.entries.split_off(start);
        log.tokens -= gone.iter().map(|entry| u64::from(entry.tokens)).sum::<u64>();
        log.bytes -= gone.iter().map(|entry| entry.message.bytes()).sum::<usize>();
        log.push_all(replacement.messages);
        for position in start..log.entries.len() {
            log.entries[position].edited = true;
            // It is neither a person's nor a model's.
            log.entries[position].note = true;
        }
        log.entries.append(after);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        // Nothing panics half-way through a change, so a poisoned log is still whole.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn push(&mut self, message: Message, group: Option<u64>) {
        let (tokens, note) = (message.tokens(), message.is_note());
        self.tokens += u64::from(tokens);
        self.bytes += message.bytes();
        self.entries.push_back(Entry {
            id: self.next_id,
            message: Arc::new(message),
            tokens,
            group,
            note,
            edited: false,
        });
        self.next_id += 1;
    }

    /// Adds messages whose calls and results pair up.
    fn push_all(&mut self, messages: Vec<Message>) {
        let mut group = None;
        for message in messages {
            if message.tool_calls().next().is_some() {
                group = Some(self.next_id);
            } else if message.role != Role::Tool {
                group = None;
            }
            self.push(message, group);
        }
    }

    fn claim_call_id(&mut self, call: &mut ToolCall) {
        let mut n = self.call_ids.len() + 1;
        while call.id.is_empty() || self.call_ids.contains(&call.id) {
            call.id = format!("call_{n}");
            n += 1;
        }
        self.call_ids.insert(call.id.clone());
    }

    /// New calls have ids that no other message has; those of the messages that they replace are free.
    fn check_call_ids(&mut self, messages: &[Message], start: usize, end: usize) -> Result<(), EditError> {
        let ids = |message: &Message| message.tool_calls().map(|call| call.id.clone()).collect::<Vec<_>>();
        let free: HashSet<_> =
            self.entries.iter().skip(start).take(end + 1 - start).flat_map(|entry| ids(&entry.message)).collect();
        let mut new = HashSet::new();
        for id in messages.iter().flat_map(ids) {
            if (self.call_ids.contains(&id) && !free.contains(&id)) || !new.insert(id.clone()) {
                return Err(EditError::Unpaired(format!("another call has the id `{id}`")));
            }
        }
        self.call_ids.extend(new);
        Ok(())
    }

    /// A border between two positions must not run through a group.
    fn check_group_border(&self, position: usize) -> Result<(), EditError> {
        let (Some(before), Some(after)) =
            (position.checked_sub(1).and_then(|p| self.entries.get(p)), self.entries.get(position))
        else {
            return Ok(());
        };
        match before.group {
            Some(group) if after.group == Some(group) => Err(EditError::CutsGroup(after.id)),
            _ => Ok(()),
        }
    }
}

/// Each call is followed by exactly one result before anything else, and there is no result without a call.
fn check_pairs(messages: &[Message], may_begin_with_system: bool) -> Result<(), EditError> {
    let mut open: Vec<&str> = Vec::new();
    for (position, message) in messages.iter().enumerate() {
        if message.role == Role::System && !(may_begin_with_system && position == 0) {
            return Err(EditError::MisplacedSystem);
        }
        if message.role != Role::Tool
            && let Some(call) = open.first()
        {
            return Err(EditError::Unpaired(format!("call `{call}` has no result")));
        }
        for part in &message.parts {
            match part {
                Part::ToolCall(_) if message.role != Role::Assistant => {
                    return Err(EditError::Unpaired("only an assistant message can have calls".into()));
                }
                Part::ToolResult(_) if message.role != Role::Tool => {
                    return Err(EditError::Unpaired("only a tool message can have results".into()));
                }
                Part::ToolCall(call) => open.push(&call.id),
                Part::ToolResult(result) => {
                    let call = open.iter().position(|id| *id == result.call_id);
                    let call = call.ok_or_else(|| {
                        EditError::Unpaired(format!("result of `{}` without its call", result.call_id))
                    })?;
                    open.remove(call);
                }
                _ => {}
            }
        }
    }
    match open.first() {
        Some(call) => Err(EditError::Unpaired(format!("call `{call}` has no result"))),
        None => Ok(()),
    }
}

/// The calls of a reply that have no results yet.
#[derive(Debug)]
pub struct OpenCalls {
    chat: Chat,
    calls: Vec<ToolCall>,
}

impl OpenCalls {
    /// The calls, in the model's order, with the ids that the chat knows them by.
    pub fn calls(&self) -> &[ToolCall] {
        &self.calls
    }

    /// Answers the calls: one message a result, in the order of the calls.
    pub fn answer(mut self, results: Vec<ToolResult>) {
        self.settle(results, "no result was given");
    }

    /// Answers every call with an error result that says why it was not run.
    pub fn abandon(mut self, why: &str) {
        self.settle(Vec::new(), why);
    }

    fn settle(&mut self, mut results: Vec<ToolResult>, otherwise: &str) {
        let mut log = self.chat.lock();
        let group = log.open.take();
        for call in self.calls.drain(..) {
            let given = results.iter().position(|result| result.call_id == call.id);
            let message = match given {
                Some(position) => Message::results(vec![results.remove(position)]),
                None => {
                    Message::results(vec![ToolResult::error(&call.id, format!("The call was not run: {otherwise}."))])
                }
            };
            let message = if log.bytes + message.bytes() > limits::CHAT_BYTES {
                Message::results(vec![ToolResult::error(&call.id, "The result is too large for this conversation.")])
            } else {
                message
            };
            log.push(message, group);
        }
        for message in std::mem::take(&mut log.waiting) {
            log.push(message, None);
        }
    }
}

impl Drop for OpenCalls {
    fn drop(&mut self) {
        if !self.calls.is_empty() {
            self.settle(Vec::new(), "the run ended before");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Part {
        Part::ToolCall(ToolCall { id: id.into(), name: "t".into(), arguments: "{}".into(), meta: vec![] })
    }

    fn reply(ids: &[&str]) -> Message {
        Message {
            sender: "a".into(),
            role: Role::Assistant,
            parts: ids.iter().map(|id| call(id)).collect(),
            meta: vec![],
        }
    }

    fn shape(chat: &Chat) -> String {
        let line = |entry: &Entry| match entry.message.role {
            Role::Tool => entry
                .message
                .tool_results()
                .map(|r| format!("={}{}", r.call_id, if r.is_error { "!" } else { "" }))
                .collect(),
            Role::Assistant => entry.message.tool_calls().map(|c| format!("?{}", c.id)).collect::<String>(),
            Role::System => "S".into(),
            Role::User => "U".into(),
        };
        chat.snapshot().iter().map(line).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_dropped_guard_answers_every_call() {
        let chat = Chat::new();
        drop(chat.reply(reply(&["x", "y"])));
        assert_eq!(shape(&chat), "?x?y =x! =y!");
    }

    #[test]
    fn notes_wait_until_after_the_results() {
        let chat = Chat::new();
        let open = chat.reply(reply(&["x"]));
        chat.note("effect", "hm");
        assert_eq!(shape(&chat), "?x");
        open.answer(vec![ToolResult { call_id: "x".into(), content: vec![], is_error: false }]);
        assert_eq!(shape(&chat), "?x =x U");
    }

    #[test]
    fn results_follow_the_order_of_the_calls_and_missing_ones_are_made() {
        let chat = Chat::new();
        let open = chat.reply(reply(&["x", "y", "z"]));
        let result = |id: &str| ToolResult { call_id: id.into(), content: vec![], is_error: false };
        open.answer(vec![result("z"), result("x"), result("unasked")]);
        assert_eq!(shape(&chat), "?x?y?z =x =y! =z");
    }

    #[test]
    fn ids_of_calls_are_made_unique() {
        let chat = Chat::new();
        drop(chat.reply(reply(&["x", "", "x"])));
        drop(chat.reply(reply(&["x"])));
        let ids: Vec<_> = chat
            .snapshot()
            .iter()
            .flat_map(|e| e.message.tool_calls().map(|c| c.id.clone()).collect::<Vec<_>>())
            .collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 4, "{ids:?}");
    }

    #[test]
    fn replacing_keeps_groups_whole_and_counts_tokens() {
        let chat = Chat::new();
        chat.append(Message::text(Role::System, "", "be good")).unwrap();
        chat.append(Message::user("go")).unwrap();
        drop(chat.reply(reply(&["x"])));
        chat.append(Message::user("more")).unwrap();
        let replace = |first, last, messages| chat.replace(Replacement { first, last, messages });
        assert_eq!(replace(1, 2, vec![]), Err(EditError::CutsGroup(3)));
        assert_eq!(replace(3, 4, vec![]), Err(EditError::CutsGroup(3)));
        assert_eq!(replace(4, 1, vec![]), Err(EditError::Backwards(4, 1)));
        assert_eq!(replace(9, 9, vec![]), Err(EditError::NoMessage(9)));
        assert!(matches!(replace(1, 1, vec![reply(&["q"])]), Err(EditError::Unpaired(_))));
        assert_eq!(replace(1, 1, vec![Message::text(Role::System, "", "no")]), Err(EditError::MisplacedSystem));
        replace(1, 3, vec![Message::user("summary")]).unwrap();
        assert_eq!(shape(&chat), "S U U");
        let snapshot = chat.snapshot();
        assert_eq!(snapshot.tokens(), snapshot.iter().map(|e| u64::from(e.tokens)).sum::<u64>());
        assert_eq!(snapshot.bytes(), snapshot.iter().map(|e| e.message.bytes()).sum::<usize>());
        assert_eq!(snapshot.find(4), Some(2));
    }

    #[test]
    fn a_snapshot_does_not_change() {
        let chat = Chat::new();
        chat.append(Message::user("one")).unwrap();
        let before = chat.snapshot();
        chat.append(Message::user("two")).unwrap();
        assert_eq!((before.len(), chat.snapshot().len()), (1, 2));
        assert_eq!(before.range(0, 9).count(), 1);
        assert_eq!(before.range(5, 2).count(), 0);
    }

    #[test]
    fn open_calls_cannot_be_replaced_away() {
        let chat = Chat::new();
        let open = chat.reply(reply(&["x"]));
        assert_eq!(chat.replace(Replacement { first: 0, last: 0, messages: vec![] }), Err(EditError::CutsGroup(0)));
        drop(open);
        chat.replace(Replacement { first: 0, last: 1, messages: vec![] }).unwrap();
        assert!(chat.snapshot().is_empty());
    }

    #[test]
    fn new_calls_have_ids_of_their_own() {
        let chat = Chat::new();
        drop(chat.reply(reply(&["x"])));
        drop(chat.reply(reply(&["y"])));
        let pair = |id: &str| vec![reply(&[id]), Message::results(vec![ToolResult::error(id, "no")])];
        let replace = |messages| chat.replace(Replacement { first: 2, last: 3, messages });
        assert!(matches!(replace(pair("x")), Err(EditError::Unpaired(_))), "x stays in the chat");
        assert!(matches!(replace([pair("z"), pair("z")].concat()), Err(EditError::Unpaired(_))));
        replace(pair("y")).unwrap();
        assert_eq!(shape(&chat), "?x =x! ?y =y!");
        assert!(chat.snapshot().last().unwrap().note, "neither a person nor a model wrote it");
    }

    #[test]
    fn a_conversation_does_not_grow_without_bound() {
        let chat = Chat::new();
        let open = chat.reply(reply(&["x", "y"]));
        let media = |id: &str| {
            let source = crate::chat::Source::Bytes(vec![0; limits::CHAT_BYTES / 2 + 1].into());
            let media = crate::chat::Media { media_type: "image/png".into(), name: None, source };
            ToolResult { call_id: id.into(), content: vec![Content::Media(media)], is_error: false }
        };
        open.answer(vec![media("x"), media("y")]);
        assert_eq!(shape(&chat), "?x?y =x =y!");
        assert!(chat.snapshot().bytes() <= limits::CHAT_BYTES);
    }

    #[test]
    fn a_result_can_be_replaced() {
        let chat = Chat::new();
        drop(chat.reply(reply(&["x"])));
        chat.replace_result("x", vec![Content::Text("short".into())]).unwrap();
        let snapshot = chat.snapshot();
        let entry = snapshot.last().unwrap();
        assert!(entry.edited);
        assert_eq!(entry.message.tool_results().next().unwrap().text(), "short");
        assert_eq!(chat.replace_result("y", vec![]), Err(EditError::NoResult("y".into())));
    }
}
