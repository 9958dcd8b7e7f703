//! A process that is killed again and again, and resumed: the end is the same as that of an undisturbed run.
//!
//! `SHELLY_CRASH_KILLS=1000` sets the number of kills; `SHELLY_CRASH_CHANCE=…` repeats the run whose number a failure shows.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use shelly_host::session::{
    DiskStorage, JournalLineContent, SessionError, SessionOpenOptions, SessionStore, SessionStoreOptions,
};
use tempfile::TempDir;

use super::{
    chance::{self, Chance},
    ends::{Calls, check_same},
};

/// Kills at times by chance.
const KILLS: u64 = 200;

/// Those who are killed at once.
const AT_ONCE: u64 = 4;

/// A folder with a session in it, and who works on it.
struct Trial(TempDir);

impl Trial {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("crash").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn store(&self) -> SessionStore {
        SessionStore::new(Arc::new(DiskStorage), self.path("sessions"), SessionStoreOptions::default())
    }

    /// Begins it, or goes on with it.
    fn start(&self, chance: u64, death: &[&str]) -> Child {
        let errors = fs::OpenOptions::new().append(true).create(true).open(self.path("errors")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_shelly-crash"));
        command.arg(self.0.path()).arg(chance.to_string()).args(death).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap()
    }

    /// Returns `true` if the process ended by itself.
    #[track_caller]
    fn has_ended(&self, status: ExitStatus, what: &str) -> bool {
        let was_killed = status.signal() == Some(9);
        assert!(was_killed || status.success(), "{what}: {status}: {}", self.text("errors"));
        !was_killed
    }

    /// Has it end by itself.
    fn finish(&self, what: &str) {
        let status = self.start(0, &[]).wait().unwrap();
        assert!(self.has_ended(status, what));
    }

    /// Kills it up to so many times, at any time within `span`, and has it end. How often it was killed.
    fn disturb(&self, times: usize, span: Duration, chance: &mut Chance, what: &str) -> u64 {
        for killed in 0..times {
            let mut child = self.start(chance.next(), &[]);
            // It may also be killed soon after it has begun to go on.
            let most = if killed > 0 && chance.below(2) == 0 { span / 4 } else { span };
            thread::sleep(most.mul_f64(chance.below(10_000) as f64 / 10_000.0));
            child.kill().unwrap();
            if self.has_ended(child.wait().unwrap(), what) {
                return killed as u64;
            }
        }
        self.finish(what);
        times as u64
    }

    /// Looks at what is left of a run that has ended. How many calls were interrupted.
    fn check(&self, end: &str, what: &str) -> usize {
        let mut journal = self.store().read("s").unwrap();
        let mut records = Vec::new();
        for line in &mut journal {
            let line = line.unwrap_or_else(|error| panic!("{what}: {:?}", error.report()));
            if let JournalLineContent::Record(record) = line.what {
                records.push((line.run, record));
            }
        }
        assert_eq!(journal.warnings(), [] as [&str; 0], "{what}");
        let calls = Calls::of(&records, what);
        calls.check_outside(self.text("outside.log").lines(), what);
        check_same(end, &self.text("state"), what);
        for warning in self.text("warnings").lines() {
            let is_torn = warning.contains("was cut off") || warning.contains("is incomplete");
            assert!(is_torn, "{what}: {warning}");
        }
        calls.interrupted
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // What went wrong can be looked at.
        self.0.disable_cleanup(thread::panicking());
    }
}

/// The end of an undisturbed run, its duration, and its number of disk operations.
struct Undisturbed {
    end: String,
    took: Duration,
    operations: u64,
}

impl Undisturbed {
    fn new() -> Self {
        let (trial, start) = (Trial::new(), Instant::now());
        trial.finish("undisturbed");
        let (took, end) = (start.elapsed(), trial.text("state"));
        assert!(end.contains("All is done.") && end.contains("\"answer\":\"42\""), "{end}");
        assert_eq!(trial.check(&end, "undisturbed"), 0);
        Self { end, took, operations: trial.text("operations").parse().unwrap() }
    }
}

#[test]
fn killed_run_resumes_to_the_same_end() {
    let wanted = chance::number("SHELLY_CRASH_KILLS").unwrap_or(KILLS);
    let first = chance::first();
    let (killed, interrupted, trials) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    thread::scope(|scope| {
        for one in 0..AT_ONCE {
            let (killed, interrupted, trials) = (&killed, &interrupted, &trials);
            scope.spawn(move || {
                let mut chance = Chance::new(first.wrapping_add(one));
                // Beside the others, as all those after it.
                let undisturbed = Undisturbed::new();
                while killed.load(Ordering::Relaxed) < wanted {
                    let trial = Trial::new();
                    let what = format!("SHELLY_CRASH_CHANCE={first}, trial {}", trial.0.path().display());
                    let times = 1 + chance.below(5);
                    let times = trial.disturb(times, undisturbed.took, &mut chance, &what);
                    killed.fetch_add(times, Ordering::Relaxed);
                    trials.fetch_add(1, Ordering::Relaxed);
                    let calls = trial.check(&undisturbed.end, &what);
                    interrupted.fetch_add(calls as u64, Ordering::Relaxed);
                }
            });
        }
    });
    println!(
        "{killed:?} kills in {trials:?} runs, {interrupted:?} calls were interrupted; {:?}; SHELLY_CRASH_CHANCE={first}",
        begun.elapsed()
    );
    assert!(interrupted.into_inner() > 0, "no call was ever hit");
}

#[test]
fn run_killed_in_any_disk_operation_resumes_to_the_same_end() {
    /// Of three operations one, each at another moment: together with the second death these are all.
    const STEP: usize = 3;
    let undisturbed = Undisturbed::new();
    assert!(undisturbed.operations > 60, "{}", undisturbed.operations);
    let next = AtomicU64::new(1);
    let (killed, torn) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let operation = next.fetch_add(STEP as u64, Ordering::Relaxed);
                    if operation > undisturbed.operations {
                        return;
                    }
                    let trial = Trial::new();
                    let moment = ["within", "before", "after"][operation as usize / STEP % 3];
                    let what = format!("killed {moment} operation {operation}, {}", trial.0.path().display());
                    // Once more in one of the operations with which it begins to go on.
                    for (operation, moment) in [(operation, moment), (1 + operation % 7, "within")] {
                        let status = trial.start(operation, &[&operation.to_string(), moment]).wait().unwrap();
                        killed.fetch_add(u64::from(!trial.has_ended(status, &what)), Ordering::Relaxed);
                    }
                    trial.finish(&what);
                    trial.check(&undisturbed.end, &what);
                    torn.fetch_add(trial.text("warnings").lines().count() as u64, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(killed.load(Ordering::Relaxed) > undisturbed.operations / STEP as u64, "{killed:?}");
    assert!(torn.load(Ordering::Relaxed) > 5, "a line that is cut off is left out: {torn:?}");
}

#[test]
fn session_is_locked_until_its_process_ends() {
    let trial = Trial::new();
    let mut child = trial.start(1, &[]);
    let journal = trial.path("sessions/s/journal.jsonl");
    wait_for(&journal);
    // It holds its session as long as it takes.
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    let refused = trial.store().open("s", SessionOpenOptions::default());
    assert!(matches!(refused, Err(SessionError::InUse { .. })), "{:?}", refused.err());
    let second = trial.start(2, &[]).wait().unwrap();
    assert!(!second.success() && trial.text("errors").contains("in use"), "{}", trial.text("errors"));
    child.kill().unwrap();
    assert!(!trial.has_ended(child.wait().unwrap(), "the first"), "it has not ended by itself");
    drop(trial.store().open("s", SessionOpenOptions::default()).unwrap());
    trial.finish("the third");
}

/// Waits until a file is there.
fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(30), "{} does not come", path.display());
        thread::sleep(Duration::from_millis(1));
    }
}
