//! Shows how far a batch is: a bar on a terminal, otherwise a line every so often.

use std::{
    collections::HashSet,
    io::IsTerminal,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::{batch_failures::BatchFailures, task_index::TaskKey};
use crate::{
    capability::Usd,
    cli::render::{tell, tell_prose, warning},
    error::Report,
    limits,
};

/// The counts of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BatchCounts {
    /// The tasks of the file.
    pub tasks: u64,
    /// Tasks that were answered by earlier starts.
    pub answered_before: u64,
    /// Tasks that failed in earlier starts and do not run again.
    pub failed_before: u64,
    pub answered: u64,
    pub failed: u64,
    pub at_work: u64,
    /// The cost so far, earlier starts included.
    pub usd: Usd,
}

/// The progress of a batch on standard error: a bar on a terminal, lines elsewhere.
pub(super) struct BatchProgressBar {
    state: Mutex<BatchProgressBarState>,
    /// Apart from the state, which is locked while something is written to standard error.
    warnings: Mutex<BatchWarnings>,
    failures: Mutex<BatchFailures>,
    /// Notified when there is a warning to show.
    warned: Notify,
    is_terminal: bool,
}

struct BatchProgressBarState {
    counts: BatchCounts,
    began: Instant,
    /// The characters of the bar on the screen.
    shown: usize,
}

/// The warnings of the tasks of a batch.
#[derive(Default)]
struct BatchWarnings {
    /// Those that were noted, each once.
    noted: HashSet<TaskKey>,
    is_warned_of_more: bool,
    /// The lines that are not shown yet.
    waiting: Vec<String>,
}

impl BatchCounts {
    /// Returns the number of tasks of which nothing is left to do, or nothing is done now.
    pub fn done(&self) -> u64 {
        self.answered_before + self.failed_before + self.answered + self.failed
    }

    /// Returns the counts in words, after `elapsed` of this start.
    pub fn words(&self, elapsed: Duration) -> String {
        let mut words = format!("{} of {}", self.done(), self.tasks);
        let failed = self.failed + self.failed_before;
        if failed > 0 {
            words.push_str(&format!(", {failed} failed"));
        }
        if self.at_work > 0 {
            words.push_str(&format!(", {} running", self.at_work));
        }
        let ended = self.answered + self.failed;
        let rate = ended as f64 / elapsed.as_secs_f64().max(f64::EPSILON);
        if ended > 0 {
            words.push_str(&match rate {
                rate if rate >= 1.0 => format!(", {rate:.1} per second"),
                rate => format!(", {:.1} per minute", rate * 60.0),
            });
            let left = self.tasks - self.done();
            if left > 0 {
                // Whole seconds: a prediction is no more exact.
                let left = Duration::from_secs((left as f64 / rate) as u64);
                words.push_str(&format!(", about {} left", humantime::format_duration(left)));
            }
        }
        if self.usd != Usd::ZERO {
            words.push_str(&format!(", {}", self.usd));
        }
        words
    }

    /// Returns the line with a bar, of at most `columns` characters.
    fn bar(&self, elapsed: Duration, columns: usize) -> String {
        let width = limits::TASK_PROGRESS_BAR;
        let filled = (self.done() * width as u64).checked_div(self.tasks).unwrap_or_default() as usize;
        let line = format!("[{}{}] {}", "#".repeat(filled), "-".repeat(width - filled), self.words(elapsed));
        // A line that fills the last column makes some terminals scroll.
        line.chars().take(columns.saturating_sub(1)).collect::<String>().trim_end().to_owned()
    }
}

impl BatchProgressBar {
    pub fn new() -> Self {
        let state = BatchProgressBarState { counts: BatchCounts::default(), began: Instant::now(), shown: 0 };
        Self {
            state: Mutex::new(state),
            warnings: Mutex::default(),
            failures: Mutex::default(),
            warned: Notify::new(),
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Begins with these counts; the time of the batch runs from now on.
    pub fn begin(&self, counts: BatchCounts) {
        let mut state = self.lock();
        (state.counts, state.began) = (counts, Instant::now());
    }

    fn lock(&self) -> MutexGuard<'_, BatchProgressBarState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the counts. The change is shown with the next state.
    pub fn update(&self, change: impl FnOnce(&mut BatchCounts)) {
        change(&mut self.lock().counts);
    }

    pub fn counts(&self) -> BatchCounts {
        self.lock().counts
    }

    /// Returns the time since the batch began.
    pub fn elapsed(&self) -> Duration {
        self.lock().began.elapsed()
    }

    /// Returns the time between two states that are shown.
    pub fn interval(&self) -> Duration {
        if self.is_terminal { limits::TASK_PROGRESS_REDRAW } else { limits::TASK_PROGRESS_LINE }
    }

    /// Shows the present state.
    pub fn show(&self) {
        let mut state = self.lock();
        if self.is_terminal {
            let line = state.counts.bar(state.began.elapsed(), columns());
            self.draw(&mut state, &line);
        } else {
            tell(&format!("{}\n", state.counts.words(state.began.elapsed())));
        }
    }

    /// Removes the bar from the screen.
    pub fn clear(&self) {
        self.draw(&mut self.lock(), "");
    }

    /// Notes a warning for [`show_warnings`](Self::show_warnings): each once, up to [`limits::TASK_WARNINGS`] different ones.
    /// Never waits for standard error, since a run waits for what listens to its events.
    pub fn note_warning(&self, message: &str) {
        let mut warnings = self.warnings();
        if warnings.noted.len() == limits::TASK_WARNINGS {
            if !std::mem::replace(&mut warnings.is_warned_of_more, true) {
                warnings.waiting.push(warning("further warnings are not shown"));
            }
        } else if warnings.noted.insert(TaskKey::of(message)) {
            warnings.waiting.push(warning(message));
        }
        if !warnings.waiting.is_empty() {
            self.warned.notify_one();
        }
    }

    /// Waits until there is a warning to show.
    pub async fn warned(&self) {
        self.warned.notified().await;
    }

    /// Counts the failure of a task for [`tell_failures`](Self::tell_failures).
    pub fn note_failure(&self, report: &Report) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).note(report);
    }

    /// Shows the failures of tasks.
    pub fn tell_failures(&self) {
        let lines = self.failures.lock().unwrap_or_else(PoisonError::into_inner).lines();
        lines.iter().for_each(|line| tell_prose(&format!("{line}\n")));
    }

    /// Shows the warnings that were noted.
    pub fn show_warnings(&self) {
        let waiting = std::mem::take(&mut self.warnings().waiting);
        let mut state = self.lock();
        for line in waiting {
            self.draw(&mut state, "");
            tell(&format!("{line}\n"));
        }
    }

    fn warnings(&self) -> MutexGuard<'_, BatchWarnings> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the bar on the screen. Blanks remove what was longer: an escape sequence would not do where colours are off.
    fn draw(&self, state: &mut BatchProgressBarState, line: &str) {
        if !self.is_terminal || (line.is_empty() && state.shown == 0) {
            return;
        }
        let chars = line.chars().count();
        let blanks = state.shown.saturating_sub(chars);
        let back = if line.is_empty() { "\r" } else { "" };
        tell(&format!("\r{line}{}{back}", " ".repeat(blanks)));
        state.shown = chars;
    }
}

/// Returns the width of the terminal behind standard error.
fn columns() -> usize {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stderr())
        && size.ws_col > 0
    {
        return usize::from(size.ws_col);
    }
    limits::TERMINAL_COLUMNS
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn counts_are_shown_with_rate_time_and_cost() {
        let seconds = Duration::from_secs;
        let none = BatchCounts { tasks: 10, at_work: 2, ..BatchCounts::default() };
        assert_eq!(none.words(seconds(5)), "0 of 10, 2 running");
        let some = BatchCounts {
            tasks: 1_000,
            answered_before: 100,
            answered: 90,
            failed: 10,
            at_work: 8,
            usd: "0.25".parse().unwrap(),
            ..BatchCounts::default()
        };
        let words = "200 of 1000, 10 failed, 8 running, 2.0 per second, about 6m 40s left, $0.25";
        assert_eq!(some.words(seconds(50)), words);
        assert!(some.words(seconds(1_000)).contains(", 6.0 per minute, about 2h 13m 20s left"));
        assert_eq!(some.bar(seconds(50), 200), format!("[####----------------] {words}"));
        assert_eq!(some.bar(seconds(50), 30), "[####----------------] 200 of");
        let all = BatchCounts { tasks: 3, answered_before: 1, failed_before: 1, answered: 1, ..BatchCounts::default() };
        assert_eq!(all.words(seconds(1)), "3 of 3, 1 failed, 1.0 per second");
        assert!(all.bar(seconds(1), 80).starts_with("[####################] 3 of 3"));
    }

    #[test]
    fn repeated_warnings_are_shown_once() {
        let progress = BatchProgressBar::new();
        for _ in 0..2 {
            for n in 0..limits::TASK_WARNINGS + 5 {
                progress.note_warning(&format!("warning {n}"));
            }
        }
        assert_eq!(progress.warnings().waiting.len(), limits::TASK_WARNINGS + 1);
        progress.show_warnings();
        assert!(progress.warnings().waiting.is_empty() && progress.warnings().is_warned_of_more);
        progress.note_warning("warning 0");
        assert!(progress.warnings().waiting.is_empty());
    }

    #[test]
    fn warning_is_noted_while_standard_error_is_stuck() {
        let progress = BatchProgressBar::new();
        // As long as something is written, this lock is held.
        let writing = progress.lock();
        progress.note_warning("of a task");
        assert_eq!(progress.warned().now_or_never(), Some(()));
        drop(writing);
        progress.show_warnings();
        assert!(progress.warnings().waiting.is_empty());
    }
}
