//! Counts, and the baseline that they are compared with.

use std::{collections::BTreeMap, error::Error, fmt, fs, path::Path};

use serde::{Deserialize, Serialize};

/// The relative deviation from the baseline that a count may have. Hash maps with random keys, and threads that take turns
/// in another order, move allocations by less than 1 %.
const TOLERANCE: f64 = 0.03;
/// System calls and syncs of one round by which a path may differ besides: records that come while the disk is busy share
/// one sync, and many paths make no system call, of which 3 % is none.
const ABSOLUTE_SLACK: f64 = 0.5;
const INSTRUCTIONS: &str = "instructions";

/// The costs of one round of a path. `None`: not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Instructions of the processor, by callgrind.
    pub instructions: Option<f64>,
    /// Calls of the allocator that ask for memory.
    pub allocations: Option<f64>,
    /// System calls, but for those with which threads wait for each other.
    pub system_calls: Option<f64>,
    /// `fsync` and `fdatasync`.
    pub syncs: Option<f64>,
    /// Bytes of the files that are left.
    pub bytes_on_disk: Option<f64>,
}

impl Costs {
    pub const TITLES: [&str; 5] = [INSTRUCTIONS, "allocations", "system calls", "syncs", "bytes on disk"];

    fn values(&self) -> [Option<f64>; 5] {
        [self.instructions, self.allocations, self.system_calls, self.syncs, self.bytes_on_disk]
    }

    /// The cost of a round, from what `rounds` and twice as many rounds cost.
    pub fn per_round(once: Self, twice: Self, rounds: u32) -> Self {
        let share = |once: Option<f64>, twice: Option<f64>| {
            let more = twice? - once?;
            Some((more / f64::from(rounds) * 100.0).round() / 100.0)
        };
        Self {
            instructions: share(once.instructions, twice.instructions).map(f64::round),
            allocations: share(once.allocations, twice.allocations),
            system_calls: share(once.system_calls, twice.system_calls),
            syncs: share(once.syncs, twice.syncs),
            bytes_on_disk: share(once.bytes_on_disk, twice.bytes_on_disk),
        }
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.values().iter().try_for_each(|value| match value {
            Some(value) => write!(f, "{value:>14}"),
            None => write!(f, "{:>14}", "-"),
        })
    }
}

/// The costs of all paths.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Baseline {
    /// The compiler and how it compiled, the valgrind and the processor by which instructions were counted: those of others
    /// do not compare.
    counted_by: String,
    paths: BTreeMap<String, Costs>,
}

/// A count that is not what the baseline says.
pub struct Difference {
    sentence: String,
    /// `true` if the difference is a reason to fail.
    pub fails: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// Returns how far a count may be from the baseline's.
fn allowed(title: &str, before: f64) -> f64 {
    let share = before.abs() * TOLERANCE;
    if matches!(title, "system calls" | "syncs") { share.max(ABSOLUTE_SLACK) } else { share }
}

impl Baseline {
    /// An empty baseline of what is counted by these.
    pub fn new(counted_by: String) -> Self {
        Self { counted_by, paths: BTreeMap::new() }
    }

    pub fn read(file: &Path) -> Result<Self, Box<dyn Error>> {
        Ok(serde_json::from_slice(&fs::read(file)?)?)
    }

    pub fn write(&self, file: &Path) -> Result<(), Box<dyn Error>> {
        Ok(fs::write(file, serde_json::to_string_pretty(self)? + "\n")?)
    }

    pub fn add(&mut self, path: &str, costs: Costs) {
        self.paths.insert(path.into(), costs);
    }

    /// The number of counts.
    pub fn len(&self) -> usize {
        self.paths.values().map(|costs| costs.values().iter().flatten().count()).sum()
    }

    /// Returns the counts of `measured` that are not what this baseline says, and those that could not be compared.
    /// `is_complete`: a count that is missing is a failure.
    pub fn differences(&self, measured: &Self, is_complete: bool) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut differs = |sentence, fails| differences.push(Difference { sentence, fails });
        let same_counter = self.counted_by == measured.counted_by;
        if !same_counter {
            let (theirs, ours) = (&self.counted_by, &measured.counted_by);
            differs(
                format!("instructions are not compared: the baseline's are those of {theirs}, these of {ours}"),
                false,
            );
        }
        for (path, costs) in &measured.paths {
            let Some(before) = self.paths.get(path) else {
                differs(format!("{path}: the baseline does not have it"), true);
                continue;
            };
            for ((title, now), before) in Costs::TITLES.into_iter().zip(costs.values()).zip(before.values()) {
                if title == INSTRUCTIONS && !same_counter {
                    continue;
                }
                match (before, now) {
                    (Some(before), Some(now)) if (now - before).abs() > allowed(title, before) => {
                        let percent = (now / before - 1.0) * 100.0;
                        differs(format!("{path}: {title} were {before}, are {now} ({percent:+.1} %)"), true);
                    }
                    (Some(_), None) => differs(format!("{path}: {title} are not counted on this machine"), is_complete),
                    (None, Some(now)) => differs(format!("{path}: {title} are {now}, the baseline has none"), true),
                    _ => {}
                }
            }
        }
        for path in self.paths.keys().filter(|path| !measured.paths.contains_key(*path)) {
            differs(format!("{path}: the baseline has it, and nothing measures it"), true);
        }
        differences
    }
}
