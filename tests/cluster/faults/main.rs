//! A long trial of a cluster under faults, by hand:
//!
//! ```text
//! tests/cluster/nats-server.sh && cargo test --test faults -- --runs 1000 --seed 7 --servers 3
//! ```
//!
//! Without arguments it is the short one that `cargo test` makes too. The order of the faults follows from the seed; when
//! exactly each of them hits is up to the machine.

#[cfg(unix)]
#[allow(dead_code, unused_imports, reason = "the benchmark of clusters uses more of it")]
mod harness;

#[cfg(unix)]
fn main() -> Result<(), harness::BoxError> {
    let plan = unix::plan(std::env::args().skip(1))?;
    match harness::run(&plan)? {
        Some(report) => print!("{report}"),
        None => eprintln!("skipped: there is no NATS server; tests/cluster/nats-server.sh gets one"),
    }
    Ok(())
}

#[cfg(not(unix))]
fn main() {
    eprintln!("skipped: the faults are signals, which this system does not have");
}

#[cfg(unix)]
mod unix {
    use std::{str::FromStr, time::Duration};

    use shelly_host::limits;

    use super::harness::{BoxError, FaultPlan};

    /// The time of faults for each run of a long trial.
    const TIME_OF_A_RUN: Duration = Duration::from_millis(600);

    /// Parses the arguments.
    pub fn plan(arguments: impl Iterator<Item = String>) -> Result<FaultPlan, BoxError> {
        let arguments: Vec<_> = arguments.collect();
        let mut plan = FaultPlan::short();
        for pair in arguments.chunks(2) {
            match pair {
                [name, value] if name == "--runs" => {
                    plan.runs = number(name, value, 1..=limits::CLUSTER_RUNS_LISTED)?;
                    plan.disturbed = TIME_OF_A_RUN * u32::try_from(plan.runs)?;
                }
                [name, value] if name == "--seed" => plan.seed = value.parse()?,
                [name, value] if name == "--servers" => plan.servers = number(name, value, 1..=5)?,
                [name, value] if name == "--workers" => plan.workers = number(name, value, 1..=16)?,
                _ => {
                    let usage = "usage: cargo test --test faults -- [--runs N] [--seed N] [--servers N] [--workers N]";
                    return Err(usage.into());
                }
            }
        }
        Ok(plan)
    }

    fn number<T: FromStr + PartialOrd + std::fmt::Display>(
        name: &str,
        value: &str,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<T, BoxError> {
        let number: Option<T> = value.parse::<T>().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("{name} must be from {} to {}", range.start(), range.end()).into())
    }
}
