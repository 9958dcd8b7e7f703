//! Sessions and runs on a NATS server: appends against the journal in files, runs a second with 1, 2 and 4 workers, the time
//! from a host's death to the next step elsewhere, the memory of runs that wait, and growth with the number of sessions.
//! `cargo bench --bench cluster -- appends` takes one of `appends`, `runs`, `takeover`, `waiting` and `growth` alone.
//! `tests/cluster/nats-server.sh` gets the server; without it nothing is measured.

#[cfg(unix)]
#[path = "cluster/appends.rs"]
mod appends;
#[cfg(unix)]
#[path = "cluster/growth.rs"]
mod growth;
#[cfg(unix)]
#[allow(dead_code, unused_imports, reason = "shared with the trial under faults")]
#[path = "../cluster/faults/harness/mod.rs"]
mod harness;
#[cfg(unix)]
#[path = "cluster/queue.rs"]
mod queue;

#[cfg(unix)]
fn main() -> Result<(), harness::BoxError> {
    // `cargo test --benches` runs this too: there it only has to work.
    let smoke = !std::env::args().any(|argument| argument == "--bench");
    let Some(program) = harness::NatsServers::program() else {
        eprintln!("skipped: there is no NATS server; tests/cluster/nats-server.sh gets one");
        return Ok(());
    };
    let names: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    if is_wanted("appends") {
        appends::measure(&program, smoke)?;
    }
    if is_wanted("runs") {
        queue::measure_rate(&program, smoke)?;
    }
    if is_wanted("takeover") {
        queue::measure_takeover(&program, smoke)?;
    }
    if is_wanted("waiting") {
        queue::measure_waiting(&program, smoke)?;
    }
    if is_wanted("growth") {
        growth::measure(&program, smoke)?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn main() {
    eprintln!("skipped: the processes are driven by signals, which this system does not have");
}

/// Returns a folder of its own for the files of servers and workers.
#[cfg(unix)]
fn folder() -> Result<tempfile::TempDir, harness::BoxError> {
    Ok(tempfile::Builder::new().prefix("cluster").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)
}

/// Returns the resident memory of a process in bytes; `None` where `/proc` does not say so.
#[cfg(unix)]
fn memory_of(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()? * 1_024)
}

/// Shows bytes as KiB.
#[cfg(unix)]
fn kib(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unknown".into(), |bytes| format!("{} KiB", bytes >> 10))
}
