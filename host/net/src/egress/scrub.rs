//! Redaction of credentials in data while it arrives.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    sync::Arc,
};

use aho_corasick::{
    Anchored,
    automaton::{Automaton, StateID},
    nfa::contiguous::NFA,
};

use crate::Secret;
use shelly_core::limits;

/// The replacement for a credential.
const BLOT: &[u8] = b"***";

/// A search for all encodings of some credentials. Every byte that is part of a match is redacted; overlapping matches
/// become one replacement.
#[derive(Clone, Default)]
pub(super) struct Scrubber(Option<Arc<NFA>>);

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrubber(***)")
    }
}

impl Scrubber {
    /// Creates a scrubber for these secrets; those of fewer than 4 bytes are ignored. `None` if the patterns are too large
    /// to search for.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Option<Self> {
        let long = secrets.into_iter().filter(|secret| secret.expose().len() >= Secret::SHORTEST);
        Self::of_forms(long.flat_map(Secret::forms).collect())
    }

    fn of_forms(forms: BTreeSet<String>) -> Option<Self> {
        if forms.is_empty() {
            return Some(Self::default());
        }
        if forms.iter().any(|form| form.len() > limits::EGRESS_HELD_BYTES) {
            return None;
        }
        NFA::builder().ascii_case_insensitive(true).build(forms).ok().map(|nfa| Self(Some(Arc::new(nfa))))
    }

    /// Returns `true` if there is nothing to search for.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Redacts a complete byte sequence.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut scrub = self.stream();
        let mut clean = scrub.push(bytes);
        clean.extend(scrub.finish());
        clean
    }

    /// Redacts a text.
    pub fn text(&self, text: &str) -> String {
        // Matches begin and end at character boundaries, so the result is valid text.
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }

    /// Returns a stream that redacts bytes as they arrive.
    pub fn stream(&self) -> ScrubStream {
        ScrubStream { state: None, nfa: self.0.clone(), held: Vec::new(), blots: VecDeque::new() }
    }
}

/// A redacted byte stream. It holds back the current line, limited to its last [`limits::EGRESS_HELD_BYTES`]: no credential
/// contains a line terminator or has more bytes. The amount held back depends on the data, not on the credential. A plugin
/// that has a server echo guesses therefore learns nothing from the time and the pieces in which it receives them.
pub(super) struct ScrubStream {
    nfa: Option<Arc<NFA>>,
    /// `None` at the start.
    state: Option<StateID>,
    /// Bytes that were received and not handed on.
    held: Vec<u8>,
    /// The matches in `held`, in order and disjoint.
    blots: VecDeque<RedactedSpan>,
}

struct RedactedSpan {
    start: usize,
    end: usize,
    /// `true` if the replacement was handed on already; this is the rest of the match.
    shown: bool,
}

impl ScrubStream {
    /// Takes the next bytes; hands on those that no further match can reach.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(nfa) = self.nfa.clone() else { return bytes.into() };
        let first = self.held.len();
        self.held.extend_from_slice(bytes);
        // The start state of an unanchored search always exists.
        let Some(mut state) = self.state.or_else(|| nfa.start_state(Anchored::No).ok()) else { return Vec::new() };
        for (at, &byte) in self.held.iter().enumerate().skip(first) {
            state = nfa.next_state(Anchored::No, state, byte);
            if nfa.is_match(state) {
                let found = (0..nfa.match_len(state)).map(|index| nfa.pattern_len(nfa.match_pattern(state, index)));
                if let Some(longest) = found.max() {
                    add(&mut self.blots, at + 1 - longest, at + 1);
                }
            }
        }
        self.state = Some(state);
        // The bytes held before contain no line terminator.
        let line_end = self.held[first..].iter().rposition(|&byte| byte == b'\n');
        let until =
            line_end.map_or(0, |end| first + end + 1).max(self.held.len().saturating_sub(limits::EGRESS_HELD_BYTES));
        self.hand_on(until)
    }

    /// Hands on the rest, at the end of the data.
    pub fn finish(mut self) -> Vec<u8> {
        self.hand_on(self.held.len())
    }

    fn hand_on(&mut self, until: usize) -> Vec<u8> {
        let (mut clean, mut at) = (Vec::with_capacity(until), 0);
        while let Some(blot) = self.blots.pop_front_if(|blot| blot.start < until) {
            clean.extend_from_slice(&self.held[at..blot.start]);
            if !blot.shown {
                clean.extend_from_slice(BLOT);
            }
            at = blot.end.min(until);
            if blot.end > until {
                self.blots.push_front(RedactedSpan { start: until, end: blot.end, shown: true });
                break;
            }
        }
        clean.extend_from_slice(&self.held[at..until]);
        self.held.drain(..until);
        for blot in &mut self.blots {
            (blot.start, blot.end) = (blot.start - until, blot.end - until);
        }
        clean
    }
}

/// Adds a match that ends after all others, and may overlap them.
fn add(blots: &mut VecDeque<RedactedSpan>, start: usize, end: usize) {
    let mut new = RedactedSpan { start, end, shown: false };
    while let Some(last) = blots.pop_back_if(|last| last.end > new.start) {
        new.start = new.start.min(last.start);
        new.shown |= last.shown;
    }
    blots.push_back(new);
}

#[cfg(test)]
mod tests;
