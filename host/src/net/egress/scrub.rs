//! Blots credentials out of what comes back, as it comes.

use std::{collections::VecDeque, fmt, sync::Arc};

use aho_corasick::{
    Anchored,
    automaton::{Automaton, StateID},
    nfa::contiguous::NFA,
};

use crate::net::Secret;

/// What stands for a credential.
const BLOT: &[u8] = b"***";

/// Knows every way in which some credentials may be written. What is part of one is not shown, whatever else it is part of:
/// where two of them overlap, one blot stands for both.
#[derive(Clone, Default)]
pub(super) struct Scrubber(Option<Arc<NFA>>);

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrubber(***)")
    }
}

impl Scrubber {
    /// A scrubber of these; of those with fewer than 4 bytes nothing is found. None if they are too much to look for.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Option<Self> {
        let long = secrets.into_iter().filter(|secret| secret.expose().len() >= Secret::SHORTEST);
        // Names of hosts and headers are told in small letters.
        let forms = |secret: &Secret| secret.forms().into_iter().chain([secret.expose().to_ascii_lowercase()]);
        let mut forms: Vec<_> = long.flat_map(forms).collect();
        forms.sort();
        forms.dedup();
        if forms.is_empty() {
            return Some(Self::default());
        }
        NFA::new(forms).ok().map(|nfa| Self(Some(Arc::new(nfa))))
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Bytes that are all there, without credentials.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut scrub = self.stream();
        let mut clean = scrub.push(bytes);
        clean.extend(scrub.finish());
        clean
    }

    /// A text without credentials.
    pub fn text(&self, text: &str) -> String {
        // What is blotted out begins and ends where characters do: it is text itself.
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }

    /// Takes bytes as they come.
    pub fn stream(&self) -> Scrub {
        Scrub { state: None, nfa: self.0.clone(), held: Vec::new(), blots: VecDeque::new() }
    }
}

/// Bytes on their way. It holds back what could be the beginning of a credential, and nothing else.
pub(super) struct Scrub {
    nfa: Option<Arc<NFA>>,
    /// None: at the start.
    state: Option<StateID>,
    /// What came and was not handed on.
    held: Vec<u8>,
    /// Where in `held` credentials are, in order and apart from each other.
    blots: VecDeque<Blot>,
}

struct Blot {
    start: usize,
    end: usize,
    /// Whether the blot was handed on before: what is here is its rest.
    shown: bool,
}

impl Scrub {
    /// Takes the next bytes; hands on those that are no part of a credential for sure.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(nfa) = self.nfa.clone() else { return bytes.into() };
        let first = self.held.len();
        self.held.extend_from_slice(bytes);
        // A start that is not anchored is always there.
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
        let until = self.first_beginning(&nfa);
        self.hand_on(until)
    }

    /// The rest: nothing comes after it.
    pub fn finish(mut self) -> Vec<u8> {
        self.hand_on(self.held.len())
    }

    /// Where the longest end of what is held begins that is a beginning of a credential.
    fn first_beginning(&self, nfa: &NFA) -> usize {
        let whole = self.held.len();
        let Ok(start) = nfa.start_state(Anchored::Yes) else { return 0 };
        // A whole one ends there, unless a longer one begins with it.
        let goes_on = |state| {
            !nfa.is_match(state) || (0..=u8::MAX).any(|byte| !nfa.is_dead(nfa.next_state(Anchored::Yes, state, byte)))
        };
        let could_begin = |from: &usize| {
            let mut state = start;
            self.held[*from..].iter().all(|&byte| {
                state = nfa.next_state(Anchored::Yes, state, byte);
                !nfa.is_dead(state)
            }) && goes_on(state)
        };
        let longest = nfa.max_pattern_len().saturating_sub(1);
        (whole.saturating_sub(longest)..whole).find(could_begin).unwrap_or(whole)
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
                self.blots.push_front(Blot { start: until, end: blot.end, shown: true });
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

/// Adds what ends behind all others, and may reach into them.
fn add(blots: &mut VecDeque<Blot>, start: usize, end: usize) {
    let mut new = Blot { start, end, shown: false };
    while let Some(last) = blots.pop_back_if(|last| last.end > new.start) {
        new.start = new.start.min(last.start);
        new.shown |= last.shown;
    }
    blots.push_back(new);
}

#[cfg(test)]
mod tests;
