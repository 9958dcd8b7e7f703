//! The conversation that a call belongs to. It does not change during the call.
//!
//! Read little: [`entries`] returns facts about the messages cheaply, and one [`read`] of the few messages that matter
//! costs less than a [`read`] of all. The other functions of this module remove the bounds of the host's functions, so
//! that callers need not page.

#[doc(inline)]
pub use host::{Entry, Traits};

use crate::{
    host::chat as host,
    types::{Message, Part, Role},
};

/// Returns the number of messages.
#[track_caller]
pub fn length() -> u32 {
    host::length()
}

/// Returns the facts about the messages from position `start` up to but without `end`. Positions beyond the chat are left
/// out. This call is cheap. Bound: 1,024 messages a call (the first ones).
#[track_caller]
pub fn entries(start: u32, end: u32) -> Vec<Entry> {
    host::entries(start, end)
}

/// Returns the messages from position `start` up to but without `end`. Bound: the whole messages that fit into 1 MiB, but
/// at least one if there is one; call again for the rest.
#[track_caller]
pub fn read(start: u32, end: u32) -> Vec<Message> {
    host::read(start, end)
}

/// Returns the current position of a message; `None` if it was removed or replaced.
#[track_caller]
pub fn find(id: u64) -> Option<u32> {
    host::find(id)
}

/// Returns the names of the agent's tools, before effects hide any.
#[track_caller]
pub fn tools() -> Vec<String> {
    host::tools()
}

impl Entry {
    /// Returns `true` if a person or another agent wrote the message: a user message that is not a note.
    pub fn is_said_by_person(&self) -> bool {
        self.role == Role::User && !self.traits.contains(Traits::NOTE)
    }

    /// Returns `true` if the message ends a task: a reply of the model without tool calls.
    pub fn is_answer(&self) -> bool {
        self.role == Role::Assistant && !self.traits.contains(Traits::CALLS)
    }
}

/// Returns the facts about the messages from position `start` up to but without `end`, however many they are.
pub fn all_entries(start: u32, end: u32) -> Vec<Entry> {
    let mut all = entries(start, end);
    while !all.is_empty() {
        let next = start.saturating_add(u32::try_from(all.len()).unwrap_or(u32::MAX));
        let more = if next < end { entries(next, end) } else { Vec::new() };
        if more.is_empty() {
            break;
        }
        all.extend(more);
    }
    all
}

/// Iterates over the messages before position `end`, from the newest to the oldest, as positions and facts. The facts are
/// fetched as the iterator advances, a few at first.
pub fn newest(end: u32) -> impl Iterator<Item = (u32, Entry)> {
    newest_of(end, entries)
}

fn newest_of(mut end: u32, entries: impl Fn(u32, u32) -> Vec<Entry>) -> impl Iterator<Item = (u32, Entry)> {
    /// The size of the first page, which is enough for many effects, and of the largest page that costs no more than its
    /// share of a call.
    const PAGES: std::ops::RangeInclusive<u32> = 16..=256;
    let (mut page, mut left) = (*PAGES.start(), Vec::new());
    std::iter::from_fn(move || {
        if left.is_empty() && end > 0 {
            let start = end.saturating_sub(page);
            left = entries(start, end);
            // The host may return fewer entries than were asked for.
            end = start + u32::try_from(left.len()).unwrap_or(0);
            page = PAGES.end().min(&(page * 2)).to_owned();
        }
        let entry = left.pop()?;
        end -= 1;
        Some((end, entry))
    })
}

/// Returns the message at this position.
pub fn message(position: u32) -> Option<Message> {
    read(position, position.saturating_add(1)).into_iter().next()
}

/// Returns the id and the tool name of each call of a group, given the group's number from an [`Entry`]. The list is
/// empty if the group is gone, and without the power `see-messages`.
pub fn calls_of(group: u64) -> Vec<(String, String)> {
    let opening = find(group).and_then(message);
    let calls = opening.into_iter().flat_map(|message| message.parts).filter_map(|part| match part {
        Part::ToolCall(call) => Some((call.id, call.name)),
        _ => None,
    });
    calls.collect()
}

/// Returns the estimated tokens that the model has not counted yet: of its newest reply and all later messages.
pub fn tokens_since_reply() -> u64 {
    let mut tokens = 0;
    for (_, entry) in newest(length()) {
        tokens += u64::from(entry.tokens);
        if entry.role == Role::Assistant {
            break;
        }
    }
    tokens
}

/// Returns the positions of the `wanted` messages that one call can read: up to 512 messages, or some 8 MiB. Also returns
/// the position up to which the list is complete, which is the length of `entries` if all were taken.
pub fn readable(entries: &[Entry], wanted: impl Fn(&Entry) -> bool) -> (Vec<usize>, usize) {
    const MESSAGES: usize = 512;
    const TOKENS: u64 = 2 << 20;
    let (mut positions, mut tokens) = (Vec::new(), 0);
    for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| wanted(entry)) {
        if positions.len() == MESSAGES || tokens >= TOKENS {
            return (positions, at);
        }
        tokens += u64::from(entry.tokens);
        positions.push(at);
    }
    (positions, entries.len())
}

/// Returns the position of the first message that the model has not read yet, if it is not the model's turn. That is the
/// message after its newest reply, or that reply itself if it has calls whose results are unread. In a conversation
/// without a reply it is the first message after the system prompt. An effect that shortens the chat must not touch
/// messages from there on: content that is removed before the model reads it has to be fetched again.
pub fn unread(entries: &[Entry]) -> usize {
    let read = entries.iter().rposition(|entry| entry.role == Role::Assistant).map(|at| at + 1);
    let read = read.unwrap_or_else(|| entries.iter().take_while(|entry| entry.role == Role::System).count());
    border(entries, entries.len() - read)
}

/// Returns the position where the last `keep` messages begin. The position moves towards the beginning until it splits no
/// group, so that there may be more than `keep` messages after it.
pub fn border(entries: &[Entry], keep: usize) -> usize {
    let mut at = entries.len().saturating_sub(keep);
    let cuts = |at: usize| {
        let (before, after) = (entries.get(at.wrapping_sub(1)), entries.get(at));
        before.zip(after).is_some_and(|(before, after)| before.group.is_some() && before.group == after.group)
    };
    while cuts(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_entries_are_paged_from_the_newest() {
        let entry = |id| Entry { id, role: Role::User, traits: Traits::empty(), group: None, tokens: 0 };
        for (there, end, looked_at, asked) in [
            (0, 0, 9, vec![]),
            (5, 5, 9, vec![(0, 5)]),
            (100, 100, 16, vec![(84, 100)]),
            (100, 100, 17, vec![(84, 100), (52, 84)]),
            (100, 100, 999, vec![(84, 100), (52, 84), (0, 52)]),
            (1_000, 900, 600, vec![(884, 900), (852, 884), (788, 852), (660, 788), (404, 660), (148, 404)]),
            // There are fewer messages than `end` says.
            (90, 100, 10, vec![(84, 100), (52, 84)]),
            (10, 100, 10, vec![(84, 100)]),
        ] {
            let pages = std::cell::RefCell::new(Vec::new());
            let entries = |start: u32, end: u32| {
                pages.borrow_mut().push((start, end));
                (start.min(there)..end.min(there)).map(|at| entry(at.into())).collect()
            };
            let seen: Vec<_> = newest_of(end, entries).take(looked_at).collect();
            assert!(seen.iter().all(|(at, entry)| u64::from(*at) == entry.id), "{there} {end}");
            assert!(seen.windows(2).all(|two| two[0].0 == two[1].0 + 1), "{there} {end}");
            assert_eq!(pages.take(), asked, "{there} {end} {looked_at}");
        }
    }

    #[test]
    fn chat_border_is_never_inside_a_group() {
        let entry = |group: Option<u64>| Entry { id: 0, role: Role::User, traits: Traits::empty(), group, tokens: 0 };
        let groups = [None, None, Some(2), Some(2), Some(2), None, Some(6), Some(6)].map(entry);
        for (keep, at) in [(0, 8), (1, 6), (2, 6), (3, 5), (4, 2), (6, 2), (7, 1), (8, 0), (99, 0)] {
            assert_eq!(border(&groups, keep), at, "keep {keep}");
        }
        assert_eq!(border(&[], 3), 0);
    }

    #[test]
    fn results_of_the_newest_reply_count_as_unread() {
        let entry = |role, group| Entry { id: 0, role, traits: Traits::empty(), group, tokens: 0 };
        let (system, user) = (entry(Role::System, None), entry(Role::User, None));
        let says = entry(Role::Assistant, None);
        let calls = [(Role::Assistant, Some(3)), (Role::Tool, Some(3)), (Role::Tool, Some(3))];
        let [calls, one, two] = calls.map(|(role, group)| entry(role, group));
        for (chat, at) in [
            (&[][..], 0),
            (&[user], 0),
            (&[system, user], 1),
            (&[system, user, says], 3),
            (&[system, user, says, user, user], 3),
            (&[system, user, calls, one, two], 2),
            (&[system, user, calls, one, two, user], 2),
            (&[system, user, calls, one, two, says, user], 6),
        ] {
            assert_eq!(unread(chat), at, "{} messages", chat.len());
        }
    }

    #[test]
    fn readable_entries_of_one_call_are_bounded() {
        let entry = |tokens| Entry { id: 0, role: Role::Tool, traits: Traits::empty(), group: None, tokens };
        let wanted = |entry: &Entry| entry.tokens > 1;
        assert_eq!(readable(&[entry(1), entry(5), entry(1)], wanted), (vec![1], 3));
        let (many, end) = readable(&vec![entry(2); 600], wanted);
        assert_eq!((many.len(), end), (512, 512));
        let (large, end) = readable(&[entry(1 << 20), entry(1), entry(u32::MAX), entry(2), entry(2)], wanted);
        assert_eq!((large, end), (vec![0, 2], 3));
    }
}
