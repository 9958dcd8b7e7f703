//! A long trial of a cluster under faults, by hand:
//!
//! ```text
//! tests/cluster/nats-server.sh && cargo test --test faults -- --runs 1000 --seed 7 --servers 3
//! ```
//!
//! Without arguments it is the short one that `cargo test` makes too. The order of the faults follows from the seed; when
//! exactly each of them hits is up to the machine. Lines on standard error say how far it is. Where a check fails, the seed
//! is named, and the logs stay.

#[cfg(unix)]
#[allow(dead_code, unused_imports, reason = "the benchmark of clusters uses more of it")]
mod harness;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    match unix::trial() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(unix))]
fn main() {
    eprintln!("skipped: the faults are signals, which this system does not have");
}

#[cfg(unix)]
mod unix {
    use std::{
        str::FromStr,
        time::{Duration, Instant},
    };

    use shelly_host::limits;

    use super::harness::{self, BoxError, FaultPlan};

    /// The time of faults for each run of a long trial, at most: the trial ends with its runs.
    const TIME_OF_A_RUN: Duration = Duration::from_millis(600);

    /// The number of runs that a worker of a long trial does at once.
    const JOBS: usize = 8;

    /// Makes the trial that the arguments of the program ask for, and prints its result.
    pub fn trial() -> Result<(), BoxError> {
        let (plan, began) = (plan(std::env::args().skip(1))?, Instant::now());
        let FaultPlan { runs, seed, servers, workers, .. } = plan;
        eprintln!("{runs} runs, seed {seed}, {servers} servers, {workers} workers");
        match harness::run(&plan)? {
            Some(report) => println!("{report}{:6} seconds", began.elapsed().as_secs()),
            None => eprintln!("skipped: there is no NATS server; tests/cluster/nats-server.sh gets one"),
        }
        Ok(())
    }

    /// Parses the arguments.
    fn plan(arguments: impl Iterator<Item = String>) -> Result<FaultPlan, BoxError> {
        let arguments: Vec<_> = arguments.collect();
        let mut plan = FaultPlan { shows_progress: true, ..FaultPlan::short() };
        for pair in arguments.chunks(2) {
            match pair {
                [name, value] if name == "--runs" => {
                    plan.runs = number(name, value, 1..=limits::CLUSTER_RUNS_LISTED / 2)?;
                    plan.disturbed = TIME_OF_A_RUN * u32::try_from(plan.runs)?;
                    plan.jobs = JOBS;
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
