//! Blots credentials out of what comes back, as it comes.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use aho_corasick::{
    Anchored,
    automaton::{Automaton, StateID},
    nfa::contiguous::NFA,
};

use super::Credential;
use crate::{limits, net::Secret};

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
    pub fn stream(&self) -> ScrubStream {
        ScrubStream { state: None, nfa: self.0.clone(), held: Vec::new(), blots: VecDeque::new() }
    }
}

/// The searches of one way out: for all of its credentials, and for those that a server may know.
#[derive(Default)]
pub(super) struct ScrubberSet {
    all: Scrubber,
    of_some: Mutex<HashMap<BTreeSet<usize>, Scrubber>>,
}

impl ScrubberSet {
    /// For these credentials; none if they are too much to look for.
    pub fn new(credentials: &[Arc<Credential>]) -> Option<Self> {
        let secrets = credentials.iter().flat_map(|credential| &credential.secrets);
        Some(Self { all: Scrubber::new(secrets)?, of_some: Mutex::default() })
    }

    /// For all of them: for what is shown to people.
    pub fn all(&self) -> &Scrubber {
        &self.all
    }

    /// For those at these places among the credentials that these searches were made for, and no others: for what a plugin is
    /// handed. What it could see of a search for a credential that the server never had would be news of that credential.
    pub fn of(&self, credentials: &[Arc<Credential>], places: &BTreeSet<usize>) -> Scrubber {
        if places.is_empty() {
            return Scrubber::default();
        }
        let mut of_some = self.of_some.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scrubber) = of_some.get(places) {
            return scrubber.clone();
        }
        let secrets = places.iter().filter_map(|place| credentials.get(*place)).flat_map(|one| &one.secrets);
        // All of them can be looked for, so some can.
        let scrubber = Scrubber::new(secrets).unwrap_or_else(|| self.all.clone());
        if of_some.len() == limits::EGRESS_SEARCHES {
            of_some.clear();
        }
        of_some.insert(places.clone(), scrubber.clone());
        scrubber
    }
}

/// Bytes on their way. It holds back the last line as far as it has come, and of a long one the last
/// [`limits::EGRESS_HELD_BYTES`]: no credential has a line end in it, or more bytes. What is held back depends on what came and
/// not on the credential. So a plugin that has a server say its guesses learns nothing from when and in which pieces it
/// gets them.
pub(super) struct ScrubStream {
    nfa: Option<Arc<NFA>>,
    /// None: at the start.
    state: Option<StateID>,
    /// What came and was not handed on.
    held: Vec<u8>,
    /// Where in `held` credentials are, in order and apart from each other.
    blots: VecDeque<RedactedSpan>,
}

struct RedactedSpan {
    start: usize,
    end: usize,
    /// Whether the blot was handed on before: what is here is its rest.
    shown: bool,
}

impl ScrubStream {
    /// Takes the next bytes; hands on those that no credential can reach into any more.
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
        // What was held before has none.
        let line_end = self.held[first..].iter().rposition(|&byte| byte == b'\n');
        let until =
            line_end.map_or(0, |end| first + end + 1).max(self.held.len().saturating_sub(limits::EGRESS_HELD_BYTES));
        self.hand_on(until)
    }

    /// The rest: nothing comes after it.
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

/// Adds what ends behind all others, and may reach into them.
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
