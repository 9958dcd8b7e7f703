//! Attacks in a process of their own: the time and memory that the host uses for each is measured, and a bomb ends its
//! attack, not the suite.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::time::sleep;

use super::{
    attack::{Attack, AttackVerdict, HostBounds},
    baseline,
    observer::EventFormatter,
    play,
    report::{AttackResult, AttackStatus, HostUsage},
    suite,
};
use crate::{
    error::{ErrorKind, Report, cut, without_number},
    event::RunCx,
    limits,
    plugin::PluginEngine,
    process::ProcessGroup,
};

/// The program that plays one attack with [`play_alone`].
#[derive(Debug, Clone)]
pub struct HostProgram {
    /// The path of the program.
    pub path: PathBuf,
    /// The arguments before the attack's folder.
    pub arguments: Vec<OsString>,
}

/// The first line of the process: the host is idle.
#[derive(Serialize, Deserialize)]
struct IdleHostReport {
    peak_bytes: Option<u64>,
}

/// The second line of the process: the end of the attack, as the host saw it.
#[derive(Serialize, Deserialize)]
struct AttackEndReport {
    verdict: Option<AttackVerdict>,
    status: AttackStatus,
    escapes: Vec<String>,
    detail: String,
    memory_bytes: usize,
    cpu_micros: u64,
    peak_bytes: Option<u64>,
}

/// Plays the attack in this folder in this process, which runs nothing else. `write` is called with each of the two lines
/// that the suite waits for.
///
/// # Errors
///
/// A [`Report`], if the attack cannot be read or the baseline run fails.
pub async fn play_alone(folder: &Path, show: EventFormatter, mut write: impl FnMut(&str)) -> Result<(), Report> {
    let failed = |cause: String| Report::new(ErrorKind::Run, "the host fails before the attack").cause(cause);
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let attack = suite::read(folder, &name)
        .map_err(|cause| Report::new(ErrorKind::Usage, "cannot read the attack").cause(cause))?;
    let engine = Arc::new(PluginEngine::new(None)?);
    let polite = baseline::load(&engine, &serde_json::json!({})).await.map_err(|error| error.report())?;
    baseline::call(&polite, RunCx::new("normal")).await.map_err(|fault| failed(fault.to_string()))?;
    baseline::run(&polite).await.map_err(failed)?;
    let line = |value: serde_json::Result<String>| value.unwrap_or_default();
    write(&line(serde_json::to_string(&IdleHostReport { peak_bytes: peak_bytes("self") })));
    let row = play::play(&attack, &engine, &show).await;
    write(&line(serde_json::to_string(&AttackEndReport {
        verdict: row.verdict,
        status: row.status,
        escapes: row.escapes,
        detail: row.detail,
        memory_bytes: row.memory,
        cpu_micros: u64::try_from(row.cpu.as_micros()).unwrap_or(u64::MAX),
        peak_bytes: peak_bytes("self"),
    })));
    Ok(())
}

/// Plays an attack in a process of its own. Dropping the future ends that process, with all that it has started.
pub(super) async fn play(attack: &Attack, bounds: HostBounds, program: &HostProgram) -> AttackResult {
    let started = Instant::now();
    let row = AttackResult {
        name: attack.name.clone(),
        kind: attack.kind,
        tries: attack.tries.clone(),
        expected: attack.expect.clone(),
        names: attack.names.clone(),
        verdict: None,
        status: AttackStatus::Failed,
        escapes: vec![],
        detail: String::new(),
        memory: 0,
        cpu: Duration::ZERO,
        host: None,
        duration: Duration::ZERO,
    };
    let row = match observe(attack, bounds, program).await {
        Ok(observed) => judged(row, observed),
        Err(detail) => AttackResult { detail: cut(&detail, limits::CONFORMANCE_DETAIL_CHARS), ..row },
    };
    AttackResult { duration: started.elapsed(), ..row }
}

/// The reason why the observation of a process ended.
enum AttackProcessEnd {
    /// The process reported the end of the attack.
    Told(AttackEndReport),
    /// The process died before that: its exit status, and the last line of its standard error.
    Died(String),
    /// The process exceeded its time.
    Late,
    /// The process exceeded its memory.
    Large,
}

struct AttackProcessOutcome {
    end: AttackProcessEnd,
    used: HostUsage,
}

fn judged(row: AttackResult, AttackProcessOutcome { end, used }: AttackProcessOutcome) -> AttackResult {
    let mut row = AttackResult { status: AttackStatus::Escaped, ..row };
    match end {
        AttackProcessEnd::Told(ended) => {
            row.verdict = ended.verdict;
            row.status = ended.status;
            row.escapes = ended.escapes;
            row.detail = cut(&ended.detail, limits::CONFORMANCE_DETAIL_CHARS);
            row.memory = ended.memory_bytes;
            row.cpu = Duration::from_micros(ended.cpu_micros);
        }
        AttackProcessEnd::Died(how) => row.escapes.push(format!("the host's process died: {how}")),
        AttackProcessEnd::Late | AttackProcessEnd::Large => {}
    }
    if used.duration > used.duration_bound {
        row.escapes.push(format!("the host took more than {:?}", used.duration_bound));
    }
    if used.growth().is_some_and(|growth| growth > used.growth_bound_bytes) {
        row.escapes.push(format!("the host grew by more than {} MiB", used.growth_bound_bytes >> 20));
    }
    if !row.escapes.is_empty() && row.status != AttackStatus::Failed {
        row.status = AttackStatus::Escaped;
    }
    AttackResult { host: Some(used), ..row }
}

/// Starts the process and observes it until the attack ends or a bound is reached.
async fn observe(attack: &Attack, bounds: HostBounds, program: &HostProgram) -> Result<AttackProcessOutcome, String> {
    let failed = |error: std::io::Error| {
        format!("the process of the attack cannot be started: {}", without_number(&error.to_string()))
    };
    let folder = TempDir::new().map_err(failed)?;
    let path = |name: &str| folder.path().join(name);
    // Building the component may take a while.
    let (own, exported) = (attack.clone(), path(&attack.name));
    let exporting = tokio::task::spawn_blocking(move || own.export(&exported));
    exporting.await.map_err(|error| error.to_string())?.map_err(failed)?;
    let (output, errors) = (path("output"), path("errors"));
    let mut command = Command::new(&program.path);
    command.args(&program.arguments).arg(path(&attack.name)).stdin(Stdio::null());
    // Temporary files that a killed process leaves are deleted with this folder.
    command.env("TMPDIR", folder.path());
    command.stdout(File::create(&output).map_err(failed)?).stderr(File::create(&errors).map_err(failed)?);
    let mut process = ProcessGroup::start(&mut command).map_err(failed)?;
    let id = process.child().id();

    let mut started = Instant::now();
    let mut idle = None;
    let mut tree = ProcessTreeMemory::default();
    loop {
        // Checked before the output is read: then all that the process wrote before its end is read.
        let has_ended = tokio::select! {
            () = process.has_ended() => true,
            () = sleep(limits::CONFORMANCE_LOOK) => false,
        };
        tree.look(id);
        let lines = complete_lines(&output);
        if idle.is_none()
            && let Some(first) = lines.first()
        {
            idle = Some(
                serde_json::from_str::<IdleHostReport>(first)
                    .map_err(|error| format!("invalid report from the process of the attack: {error}"))?,
            );
            started = Instant::now();
            tree = ProcessTreeMemory::default();
        }
        let idle_bytes = idle.as_ref().and_then(|idle| idle.peak_bytes);
        let mut used = HostUsage {
            duration: started.elapsed(),
            duration_bound: bounds.time,
            idle_bytes,
            peak_bytes: tree.peak.max(idle_bytes),
            growth_bound_bytes: bounds.memory,
        };
        let end = if let Some(second) = lines.get(1) {
            let ended: AttackEndReport = serde_json::from_str(second)
                .map_err(|error| format!("invalid report from the process of the attack: {error}"))?;
            used.peak_bytes = used.peak_bytes.max(ended.peak_bytes);
            AttackProcessEnd::Told(ended)
        } else if has_ended {
            let how = process.stop().map_or_else(|error| error.to_string(), |status| status.to_string());
            let how = format!("{how}: {}", ending(&errors));
            if idle.is_none() {
                return Err(format!("the process died before the attack: {how}"));
            }
            AttackProcessEnd::Died(how)
        } else if idle.is_none() && started.elapsed() > limits::CONFORMANCE_RUN_TIME {
            return Err("the process did not become idle before the attack".into());
        } else if idle.is_some() && used.duration > bounds.time {
            AttackProcessEnd::Late
        } else if used.growth().is_some_and(|growth| growth > bounds.memory) {
            AttackProcessEnd::Large
        } else {
            continue;
        };
        // The process must end before its folder is deleted.
        let _ = process.stop();
        return Ok(AttackProcessOutcome { end, used });
    }
}

/// Returns the complete lines of a file.
fn complete_lines(path: &Path) -> Vec<String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(limits::CONFORMANCE_OUTPUT_BYTES).read_to_string(&mut text));
    let Ok(_) = read else { return Vec::new() };
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
}

/// Returns the last complete line of a file.
fn ending(path: &Path) -> String {
    complete_lines(path).pop().unwrap_or_default()
}

/// The memory of a process and all of its descendants, sampled.
#[derive(Default)]
struct ProcessTreeMemory {
    /// The maximum, over the samples, of the sum of the processes' peak memory, in bytes.
    peak: Option<u64>,
    /// The processes of the last sample.
    known: BTreeSet<u32>,
}

impl ProcessTreeMemory {
    fn look(&mut self, id: u32) {
        let (mut found, mut open) = (BTreeMap::new(), vec![id]);
        while let Some(id) = open.pop() {
            if let Some(bytes) = peak_bytes(&id.to_string())
                && found.insert(id, bytes).is_none()
            {
                open.extend(started_by(id));
            }
        }
        // A new child may share its parent's memory until it runs its own program: it counts from its second sample on.
        let counted = found.iter().filter(|(of, _)| **of == id || self.known.contains(of)).map(|(_, bytes)| bytes);
        let all = counted.sum();
        if !found.is_empty() {
            self.peak = self.peak.max(Some(all));
        }
        self.known = found.into_keys().collect();
    }
}

/// Returns the child processes of a process.
fn started_by(id: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    children.flat_map(|ids| ids.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Returns the peak memory of a process in bytes; `None` if the system does not report it.
fn peak_bytes(process: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
