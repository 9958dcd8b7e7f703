//! The conversation that a call belongs to. It stands still during the call.
//!
//! Read little: [`entries`] tells cheaply what the messages are, and one [`read`] of the few that matter costs less than one
//! of all. What is here beside the host's functions takes their bounds away, so that nobody has to turn pages.

#[doc(inline)]
pub use host::{Entry, Traits};

use crate::{
    bindings::imports::shelly::plugin::chat as host,
    imports::only_in_host,
    types::{Message, Part, Role},
};

/// How many messages there are.
#[track_caller]
pub fn length() -> u32 {
    only_in_host("chat::length");
    host::length()
}

/// Facts of the messages from position `start` up to but without `end`; what lies beyond the chat is left out. Cheap. Bound:
/// 1,024 a call (the first ones).
#[track_caller]
pub fn entries(start: u32, end: u32) -> Vec<Entry> {
    only_in_host("chat::entries");
    host::entries(start, end)
}

/// The messages from position `start` up to but without `end`. Bound: as many whole ones as fit into 1 MiB, at least one if
/// there is one; ask again for the rest.
#[track_caller]
pub fn read(start: u32, end: u32) -> Vec<Message> {
    only_in_host("chat::read");
    host::read(start, end)
}

/// The position of a message now. None if it was removed or replaced.
#[track_caller]
pub fn find(id: u64) -> Option<u32> {
    only_in_host("chat::find");
    host::find(id)
}

/// The names of the tools that the agent has, before effects hide any.
#[track_caller]
pub fn tools() -> Vec<String> {
    only_in_host("chat::tools");
    host::tools()
}

impl Entry {
    /// Whether it is what a person, or another agent, said: not a note.
    pub fn is_said_by_person(&self) -> bool {
        self.role == Role::User && !self.traits.contains(Traits::NOTE)
    }

    /// Whether it ends a task: a reply of the model that calls nothing.
    pub fn is_answer(&self) -> bool {
        self.role == Role::Assistant && !self.traits.contains(Traits::CALLS)
    }
}

/// Facts of the messages from position `start` up to but without `end`, however many they are.
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

/// The messages before position `end` from the newest on: where each is, and its facts. They are asked for as they are looked
/// at, a few at first.
pub fn newest(end: u32) -> impl Iterator<Item = (u32, Entry)> {
    newest_of(end, entries)
}

fn newest_of(mut end: u32, entries: impl Fn(u32, u32) -> Vec<Entry>) -> impl Iterator<Item = (u32, Entry)> {
    /// What many effects look at, and as many as cost no more than their share of a call.
    const PAGES: std::ops::RangeInclusive<u32> = 16..=256;
    let (mut page, mut left) = (*PAGES.start(), Vec::new());
    std::iter::from_fn(move || {
        if left.is_empty() && end > 0 {
            let start = end.saturating_sub(page);
            left = entries(start, end);
            // Whatever was asked for, there may be fewer.
            end = start + u32::try_from(left.len()).unwrap_or(0);
            page = PAGES.end().min(&(page * 2)).to_owned();
        }
        let entry = left.pop()?;
        end -= 1;
        Some((end, entry))
    })
}

/// The message at this position.
pub fn message(position: u32) -> Option<Message> {
    read(position, position.saturating_add(1)).into_iter().next()
}

/// The calls of a group, by its number in an [`Entry`]: the id of each and the name of its tool. Empty if the group is gone,
/// and without the power `see-messages`.
pub fn calls_of(group: u64) -> Vec<(String, String)> {
    let opening = find(group).and_then(message);
    let calls = opening.into_iter().flat_map(|message| message.parts).filter_map(|part| match part {
        Part::ToolCall(call) => Some((call.id, call.name)),
        _ => None,
    });
    calls.collect()
}

/// Estimated tokens of what the model has not counted yet: its newest reply and what came after it.
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

/// The positions of the messages that are `wanted`, as many as one call can read: 512 of them, or some 8 MiB. And the position
/// up to which that is all of them, the end if it is all.
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

/// Where that begins which the model has not read yet, as long as it is not its turn: what has come since its newest reply,
/// with the calls of that reply if their results are not read. Of a conversation without a reply it is all but the system
/// prompt. An effect that shortens leaves it alone: what goes before it was read has to be got again.
pub fn unread(entries: &[Entry]) -> usize {
    let read = entries.iter().rposition(|entry| entry.role == Role::Assistant).map(|at| at + 1);
    let read = read.unwrap_or_else(|| entries.iter().take_while(|entry| entry.role == Role::System).count());
    border(entries, entries.len() - read)
}

/// Where zones of at least so many messages at the end begin: the position moves towards the beginning until no group is cut
/// apart.
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
            // Fewer than it was told.
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
