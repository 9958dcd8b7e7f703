//! Components whose structure is multiplied. Reading and validating them takes bounded memory and work, whatever is in them
//! and how often. The counts are the same on every machine; the time is bounded only against a hang.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use shelly_host::{limits, plugin::Anatomy};

use super::{
    chance::{LARGE, section},
    guest::Guest,
};
use crate::{
    allocations::{ThreadMemory, measure},
    claims::{
        self,
        multiply::{Decisions, multiplied},
    },
    sessions::chance::{Chance, number},
};

/// Mutants of real guests, and as many of attacks, if nothing else is said.
const MUTANTS: u64 = 250;
/// Bytes of decisions for one of them.
const DECISIONS: usize = 64;
/// Bytes that reading and validating one component may hold at once, beside those of its file: what an attack that is played
/// alone lets the host grow by.
const PEAK_BYTES: i64 = limits::CONFORMANCE_HOST_MEMORY_BYTES as i64;
/// All bytes that are asked for, one after the other.
const ASKED_BYTES: i64 = 1 << 30;
/// A component that takes longer hangs, however busy the machine is.
const HANG: Duration = Duration::from_secs(60);

/// Memory of the worst so far, and how many were read.
#[derive(Default)]
struct Tally {
    accepted: usize,
    refused: usize,
    largest: usize,
    worst: ThreadMemory,
    longest: Duration,
}

impl Tally {
    fn read(&mut self, name: &str, component: &[u8]) {
        let began = Instant::now();
        let (is_plugin, memory) = measure(|| claims::is_plugin(component));
        let took = began.elapsed();
        assert!(memory.peak <= PEAK_BYTES, "{name}: {memory:?} for {} bytes", component.len());
        assert!(memory.asked <= ASKED_BYTES, "{name}: {memory:?} for {} bytes", component.len());
        assert!(took < HANG, "{name} took {took:?}");
        *if is_plugin { &mut self.accepted } else { &mut self.refused } += 1;
        self.largest = self.largest.max(component.len());
        self.worst.peak = self.worst.peak.max(memory.peak);
        self.worst.asked = self.worst.asked.max(memory.asked);
        self.longest = self.longest.max(took);
    }

    /// Both happened often, or one of them was not tested.
    fn tell(&self, what: &str, few: usize) {
        let Self { accepted, refused, largest, worst, longest } = self;
        eprintln!("{what}: {accepted} taken, {refused} refused, up to {largest} bytes: {worst:?}, {longest:?}");
        assert!(*accepted >= few && *refused >= few, "{what}: {accepted} taken, {refused} refused");
    }
}

fn times(count: u64) -> u64 {
    count * number("SHELLY_CHANCE_TIMES").unwrap_or(1)
}

fn decisions(seed: u64) -> Vec<u8> {
    let mut chance = Chance::new(seed);
    (0..DECISIONS).map(|_| chance.next() as u8).collect()
}

/// The components of the guests that were built.
fn guests() -> Vec<PathBuf> {
    let files = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let folders = files(Path::new(crate::PLUGIN_ROOT));
    let mut guests: Vec<_> = folders.iter().filter(|path| path.is_dir()).flat_map(|folder| files(folder)).collect();
    guests.retain(|path| path.extension().is_some_and(|ending| ending == "wasm"));
    guests.sort();
    guests
}

#[test]
fn multiplied_guests_are_read_within_bounds() {
    let guests = guests();
    assert!(guests.len() > 20, "{guests:?}");
    let mut tally = Tally::default();
    for seed in 0..times(MUTANTS) {
        let guest = &guests[seed as usize % guests.len()];
        let mutant = multiplied(&fs::read(guest).unwrap(), &mut Decisions(&decisions(seed))).unwrap_or_default();
        tally.read(&format!("seed {seed} of {}", guest.display()), &mutant);
    }
    tally.tell("guests", 20);
}

#[test]
fn multiplied_attacks_are_read_within_bounds() {
    let mut tally = Tally::default();
    for seed in 0..times(MUTANTS) {
        let mutant = claims::multiplied_attack(&decisions(seed ^ 0xa77ac)).unwrap_or_default();
        tally.read(&format!("attack by seed {seed}"), &mutant);
    }
    for (at, seed) in crate::properties::seeds("structure").iter().enumerate() {
        let mutant = claims::multiplied_attack(seed).unwrap_or_default();
        tally.read(&format!("attack by fuzz seed {at}"), &mutant);
        assert_eq!(claims::structure(seed), claims::is_plugin(&mutant), "fuzz seed {at}");
    }
    tally.tell("attacks", 10);
}

#[test]
fn random_large_components_are_read_within_bounds() {
    /// The number of a section with a core module.
    const CORE_MODULE: u8 = 1;
    /// The number of a section with a component.
    const COMPONENT: u8 = 4;
    /// The byte that says whether a binary is a component.
    const LAYER: usize = 6;
    let polite = Guest::tool().component();
    let mut tally = Tally::default();
    for (at, large) in LARGE.iter().enumerate() {
        tally.read(&format!("large component {at}"), large);
        // In a plugin they are a part of it that nothing uses.
        let id = if large[LAYER] == 0 { CORE_MODULE } else { COMPONENT };
        let with = [&polite[..], &section(id, large)].concat();
        tally.read(&format!("large component {at} in a plugin"), &with);
    }
    tally.tell("by chance", 10);
}

#[test]
fn oversized_code_is_refused_before_validation() {
    const FUNCTION_BYTES: usize = 1_000_000;
    const CORE_MODULE: u8 = 1;
    let component = |functions: usize| {
        let body = [&[0], &vec![0x01; FUNCTION_BYTES - 2][..], &[0x0b]].concat();
        // Content with its length before it, as a section has it behind its number.
        let sized = |content: &[u8]| section(0, content)[1..].to_vec();
        let count = |of: usize| u8::try_from(of).unwrap();
        let module = [
            b"\0asm\x01\0\0\0".to_vec(),
            section(1, &[1, 0x60, 0, 0]),
            section(3, &[vec![count(functions)], vec![0; functions]].concat()),
            section(10, &[vec![count(functions)], sized(&body).repeat(functions)].concat()),
        ];
        [b"\0asm\x0d\0\x01\0".to_vec(), section(CORE_MODULE, &module.concat())].concat()
    };
    let allowed = limits::COMPONENT_CODE_BYTES / FUNCTION_BYTES;
    let refusal = |functions: usize| {
        let component = component(functions);
        let (read, memory) = measure(|| Anatomy::read(&component));
        (read.unwrap_err().to_string(), memory)
    };
    let (told, memory) = refusal(allowed + 1);
    let most = limits::COMPONENT_CODE_BYTES;
    assert_eq!(
        told,
        format!(
            "the component is too complex to compile: {} bytes of code, the maximum is {most}",
            (allowed + 1) * FUNCTION_BYTES
        )
    );
    assert!(memory.peak < 1 << 20, "{memory:?}");
    // It has nothing that could be called, and is too large in no way.
    assert!(!refusal(1).0.contains("too complex"), "{}", refusal(1).0);
}
