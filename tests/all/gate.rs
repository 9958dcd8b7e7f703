//! The comparison that the gate (`tests/gate`) makes with its baseline: it must be able to fail.

#[path = "../gate/counts.rs"]
#[expect(dead_code, reason = "the gate uses more of it")]
mod counts;

use self::counts::{Baseline, Costs};

const BEFORE: Costs = Costs {
    instructions: Some(1_000.0),
    allocations: Some(100.0),
    system_calls: Some(0.0),
    syncs: Some(1.0),
    bytes_on_disk: Some(900.0),
};

fn baseline(counter: &str, paths: &[(&str, Costs)]) -> Baseline {
    let mut baseline = Baseline::new(counter.into());
    for (path, costs) in paths {
        baseline.add(path, *costs);
    }
    baseline
}

#[test]
fn gate_fails_where_a_count_differs_or_is_missing() {
    let here = |costs: Costs| baseline("a", &[("call", costs)]);
    let elsewhere = |costs: Costs| baseline("b", &[("call", costs)]);
    // What was measured; how often it fails, and how often where every count must be there.
    for (measured, fails, fails_if_complete) in [
        (here(BEFORE), 0, 0),
        (here(Costs { instructions: Some(1_030.0), allocations: Some(97.0), ..BEFORE }), 0, 0),
        (here(Costs { instructions: Some(1_031.0), ..BEFORE }), 1, 1),
        (here(Costs { allocations: Some(96.0), ..BEFORE }), 1, 1),
        (here(Costs { system_calls: Some(0.5), syncs: Some(1.5), ..BEFORE }), 0, 0),
        (here(Costs { system_calls: Some(0.6), syncs: Some(1.6), ..BEFORE }), 2, 2),
        (here(Costs { bytes_on_disk: Some(928.0), ..BEFORE }), 1, 1),
        (here(Costs { instructions: None, system_calls: None, ..BEFORE }), 0, 2),
        (elsewhere(Costs { instructions: Some(5_000.0), ..BEFORE }), 0, 0),
        (elsewhere(Costs { allocations: Some(200.0), ..BEFORE }), 1, 1),
        (baseline("a", &[]), 1, 1),
        (baseline("a", &[("call", BEFORE), ("step", BEFORE)]), 1, 1),
    ] {
        for (is_complete, expected) in [(false, fails), (true, fails_if_complete)] {
            let differences = here(BEFORE).differences(&measured, is_complete);
            let failed = differences.iter().filter(|difference| difference.fails).count();
            let told: Vec<_> = differences.iter().map(ToString::to_string).collect();
            assert_eq!(failed, expected, "{is_complete}: {told:?}");
        }
    }
}
