use std::sync::{Arc, OnceLock};

use imbl::Vector;

use super::ChatEntry;

/// The number of messages in one chunk; all chunks but the last are full.
const CHUNK: usize = 64;
/// The size of the first chunk while it is the only one: most delegated agents have short conversations.
const SHORT: usize = 8;

/// The entries of a chat in order. Clones share all chunks: an append fills a slot that older clones have but do not read,
/// so it copies nothing however many clones exist. Every other change copies the chunks that it affects.
#[derive(Debug, Clone, Default)]
pub(super) struct ChatEntries {
    full: Vector<ChatEntryChunk>,
    last: ChatEntryChunk,
    len: usize,
}

type ChatEntryChunk = Arc<[OnceLock<ChatEntry>]>;

impl ChatEntries {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, at: usize) -> Option<&ChatEntry> {
        if at >= self.len {
            return None;
        }
        let chunk = self.full.get(at / CHUNK).unwrap_or(&self.last);
        chunk[at % CHUNK].get()
    }

    /// Iterates over all entries.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ChatEntry> + ExactSizeIterator {
        self.range(0, self.len)
    }

    /// Iterates over the entries from `start` up to but excluding `end`, as far as they exist.
    pub fn range(&self, start: usize, end: usize) -> impl DoubleEndedIterator<Item = &ChatEntry> + ExactSizeIterator {
        (start..end.min(self.len)).map(|at| self.get(at).expect("it is before the end"))
    }

    pub fn push(&mut self, entry: ChatEntry) {
        if self.last.len() == CHUNK && self.in_last() == CHUNK {
            self.full.push_back(std::mem::replace(&mut self.last, chunk_of([], CHUNK)));
        } else if self.in_last() == self.last.len() {
            self.make_room();
        }
        if let Err(entry) = self.last[self.in_last()].set(entry) {
            // Another clone has appended before.
            self.make_room();
            let _ = self.last[self.in_last()].set(entry);
        }
        self.len += 1;
    }

    /// Replaces the entry at this position, which must exist. Its chunk is copied.
    pub fn set(&mut self, at: usize, entry: ChatEntry) {
        let start = at - at % CHUNK;
        let mut entries: Vec<_> = self.range(start, start + CHUNK).cloned().collect();
        entries[at - start] = entry;
        match self.full.get_mut(at / CHUNK) {
            Some(chunk) => *chunk = chunk_of(entries, CHUNK),
            None => self.last = chunk_of(entries, self.last.len()),
        }
    }

    /// Replaces the entries from `start` up to but excluding `end` with `new`. Later entries are copied.
    pub fn splice(&mut self, start: usize, end: usize, new: impl IntoIterator<Item = ChatEntry>) {
        let kept = (start / CHUNK).min(self.full.len());
        let before: Vec<_> = self.range(kept * CHUNK, start).cloned().collect();
        let after: Vec<_> = self.range(end, self.len).cloned().collect();
        self.full.truncate(kept);
        (self.last, self.len) = (ChatEntryChunk::default(), kept * CHUNK);
        before.into_iter().chain(new).chain(after).for_each(|entry| self.push(entry));
    }

    /// Returns the number of entries in the last chunk.
    fn in_last(&self) -> usize {
        self.len - self.full.len() * CHUNK
    }

    /// Copies the last chunk, with room for at least one more entry.
    fn make_room(&mut self) {
        let room = if self.len < SHORT { SHORT } else { CHUNK };
        self.last = chunk_of(self.range(self.len - self.in_last(), self.len).cloned(), room);
    }
}

/// Builds a chunk of these entries with a capacity of `room`.
fn chunk_of(entries: impl IntoIterator<Item = ChatEntry>, room: usize) -> ChatEntryChunk {
    let mut chunk: Vec<_> = entries.into_iter().map(OnceLock::from).collect();
    chunk.resize_with(room, OnceLock::new);
    chunk.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chat::Message;

    fn entry(id: u64) -> ChatEntry {
        let message = Arc::new(Message::user(""));
        ChatEntry { id, message, tokens: 0, group: None, note: false, edited: false, digest: OnceLock::new() }
    }

    fn ids(entries: &ChatEntries) -> Vec<u64> {
        entries.range(0, usize::MAX).map(|entry| entry.id).collect()
    }

    /// A change of the list; positions are reduced to its length.
    #[derive(Debug, Clone)]
    enum Does {
        Push(usize),
        Set(usize),
        Splice(usize, usize, usize),
        Keep,
        GoBack,
    }

    fn does() -> impl Strategy<Value = Does> {
        prop_oneof![
            (1..150usize).prop_map(Does::Push),
            any::<usize>().prop_map(Does::Set),
            (any::<usize>(), 0..200usize, 0..100usize).prop_map(|(at, gone, new)| Does::Splice(at, gone, new)),
            Just(Does::Keep),
            Just(Does::GoBack),
        ]
    }

    proptest! {
        #[test]
        fn chat_entries_clones_stay_unchanged(all in prop::collection::vec(does(), 1..30)) {
            let (mut entries, mut list, mut next) = (ChatEntries::default(), Vec::new(), 0..);
            let mut clones = vec![(entries.clone(), list.clone())];
            for one in all {
                match one {
                    Does::Push(count) => for id in next.by_ref().take(count) {
                        entries.push(entry(id));
                        list.push(id);
                    },
                    Does::Set(at) => if let Some(at) = at.checked_rem(list.len()) {
                        list[at] = next.next().unwrap();
                        entries.set(at, entry(list[at]));
                    },
                    Does::Splice(at, gone, new) => {
                        let start = at % (list.len() + 1);
                        let end = (start + gone).min(list.len());
                        let new: Vec<_> = next.by_ref().take(new).collect();
                        entries.splice(start, end, new.iter().copied().map(entry));
                        list.splice(start..end, new);
                    },
                    Does::Keep => clones.push((entries.clone(), list.clone())),
                    // From here on two clones diverge.
                    Does::GoBack => (entries, list) = clones[clones.len() / 2].clone(),
                }
                prop_assert_eq!(ids(&entries), list.clone());
                prop_assert_eq!((entries.len(), entries.get(list.len()).is_none()), (list.len(), true));
            }
            for (entries, list) in clones {
                prop_assert_eq!(ids(&entries), list);
            }
        }
    }
}
