//! The fuzzed claims (`tests/fuzz`), here with inputs that proptest makes of the seeds, the same each time.
//! `SHELLY_CHANCE_TIMES` multiplies their number.

use std::{cell::Cell, fs, path::Path};

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{RngAlgorithm, TestCaseError, TestRng, TestRunner},
};

use crate::{claims, sessions::chance, support::Place};

const CASES: u32 = 2_000;

/// A change of a text: which, where, with what.
type Edit = (u8, u16, u16, u8);

/// Returns a seed after some changes. Pieces of it are also copied to other places, so that valid parts are at invalid
/// positions.
fn edited(seed: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut text = seed.to_vec();
    for &(what, at, to, byte) in edits {
        let place = |of: u16| usize::from(of) % (text.len() + 1);
        let (at, to) = (place(at), place(to));
        let (from, end) = (at.min(to), at.max(to));
        match what % 8 {
            0 => text.insert(at, byte),
            1 => drop(text.drain(from..end.min(from + 1 + usize::from(byte % 16)))),
            2 => drop(text.splice(from..end.min(from + 1), [byte])),
            3 => text.truncate(at.max(text.len() / 2)),
            4 => {
                let piece = text[from..end.min(from + 64)].to_vec();
                drop(text.splice(at..at, piece));
            }
            5 => drop(text.splice(at..at, "é\u{202e}\u{0}\u{1b}[2J".bytes())),
            6 => drop(text.splice(at..at, b"-9223372036854775809".iter().copied())),
            _ => {
                // Much of what opens something.
                let opening = [b"[", b"{", b"(", b"-", b"&", b"\"", b"\n", b" "][usize::from(byte % 8)];
                drop(text.splice(at..at, opening.repeat(usize::from(byte) * 8)));
            }
        }
    }
    text
}

pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{target} has no seeds");
    files.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn hold(target: &str, claim: impl Fn(&[u8]) -> bool) {
    let seeds = seeds(target);
    let accepted = Cell::new(seeds.iter().filter(|seed| claim(seed)).count() as u32);
    assert!(accepted.get() > 0, "{target}: no seed is accepted");
    let cases = CASES * chance::number("SHELLY_CHANCE_TIMES").unwrap_or(1) as u32;
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let edits = (0..seeds.len(), vec(any::<Edit>(), 0..6), vec(any::<u8>(), 0..200), 0..10_u8);
    let ran = runner.run(&edits, |(seed, edits, bytes, which)| {
        let bytes = if which == 0 { bytes } else { edited(&seeds[seed], &edits) };
        accepted.set(accepted.get() + u32::from(claim(&bytes)));
        Ok::<(), TestCaseError>(())
    });
    if let Err(error) = ran {
        panic!("{target}: {error}");
    }
    // Both happen often, or one of them was not tested.
    let (accepted, few) = (accepted.get(), cases / 50);
    assert!((few..cases - few).contains(&accepted), "{target}: {accepted} of {cases} were accepted");
}

#[test]
fn manifests() {
    hold("manifest", claims::manifest);
}

#[test]
fn configs() {
    hold("config", claims::config);
}

#[test]
fn guest_conversion_claims_hold() {
    hold("convert", claims::convert);
}

#[test]
fn model_stream_claims_hold() {
    hold("sse", claims::sse);
}

#[test]
fn session_journal_claims_hold() {
    let place = Place::new();
    hold("journal", |bytes| claims::journal(bytes, &place.path()));
}
