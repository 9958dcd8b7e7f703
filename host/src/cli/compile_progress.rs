//! Shows at a terminal which components are compiled and for how long, while a person waits for them.

use std::{
    io::{self, IsTerminal, Write},
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::{
    live::{elapsed_in_words, terminal_size},
    render::{name, size, tell},
};
use crate::{
    limits,
    plugin::{CompileObserver, CompileStart, CompileStep},
};

/// The components that are compiled now, in all parts of the program.
static PROGRESS: Mutex<CompileProgress> = Mutex::new(CompileProgress { under_way: Vec::new(), last: 0, drawn: 0 });

/// The components that are compiled now, and the line about them.
struct CompileProgress {
    /// The components, in the order in which they began.
    under_way: Vec<ComponentUnderWay>,
    /// The number of the last one that began.
    last: u64,
    /// The characters of the line that is on the screen.
    drawn: usize,
}

/// A component that is validated or compiled.
struct ComponentUnderWay {
    number: u64,
    id: String,
    bytes: u64,
    step: CompileStep,
    begun: Instant,
}

/// Notes which components are compiled. They are shown by [`with_compile_progress`].
#[derive(Debug)]
pub struct CompileProgressObserver;

/// Ends the part of one component when it is dropped.
struct UnderWayGuard(u64);

impl CompileObserver for CompileProgressObserver {
    fn begin(&self, start: CompileStart<'_>) -> Box<dyn Send> {
        Box::new(UnderWayGuard(progress().begin(start, Instant::now())))
    }
}

impl Drop for UnderWayGuard {
    fn drop(&mut self) {
        // What is printed next must not continue the line.
        progress().end(self.0, &mut io::stderr());
    }
}

/// Waits for `work`, and shows at a terminal which components are compiled meanwhile. The line is on the screen only while one
/// of them is compiled.
pub async fn with_compile_progress<T>(work: impl Future<Output = T>) -> T {
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(limits::COMPILE_PROGRESS_TICK) => {
                progress().draw(Instant::now(), terminal_size().columns, &mut io::stderr());
            }
        }
    }
}

/// Tells a person something in place of the line, which is drawn again below it.
pub fn tell_above_progress(text: &str) {
    progress().erase(&mut io::stderr());
    tell(text);
}

fn progress() -> MutexGuard<'static, CompileProgress> {
    PROGRESS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CompileProgress {
    fn begin(&mut self, start: CompileStart<'_>, begun: Instant) -> u64 {
        self.last += 1;
        let CompileStart { id, bytes, step } = start;
        self.under_way.push(ComponentUnderWay {
            number: self.last,
            id: id.to_owned(),
            bytes: bytes as u64,
            step,
            begun,
        });
        self.last
    }

    fn end(&mut self, number: u64, output: &mut dyn Write) {
        self.under_way.retain(|component| component.number != number);
        self.erase(output);
    }

    /// Draws the line, or takes it off the screen if there is nothing to show. Output that fails is not repeated.
    fn draw(&mut self, now: Instant, columns: u16, output: &mut dyn Write) {
        let line = self.line(now, columns);
        if line.is_empty() {
            return self.erase(output);
        }
        let drawn = self.drawn;
        // Spaces erase what is there on any terminal, and without colours, too.
        let _ = output.write_all(format!("\r{:drawn$}\r{line}", "").as_bytes()).and_then(|()| output.flush());
        self.drawn = line.chars().count();
    }

    fn erase(&mut self, output: &mut dyn Write) {
        let drawn = std::mem::take(&mut self.drawn);
        if drawn > 0 {
            let _ = output.write_all(format!("\r{:drawn$}\r", "").as_bytes()).and_then(|()| output.flush());
        }
    }

    /// Returns the line about what has taken a while already, shorter than the terminal is wide; empty if there is nothing.
    fn line(&self, now: Instant, columns: u16) -> String {
        let shown = |component: &ComponentUnderWay| {
            let elapsed = now.saturating_duration_since(component.begun);
            let verb = match component.step {
                CompileStep::Validate => "checking",
                CompileStep::Compile => "compiling",
            };
            let (id, bytes) = (name(&component.id), size(component.bytes));
            let words = || format!("{verb} {id} ({bytes}) for {}", elapsed_in_words(elapsed));
            (elapsed >= limits::COMPILE_PROGRESS_DELAY).then(words)
        };
        let line = self.under_way.iter().filter_map(shown).collect::<Vec<_>>().join(", ");
        line.chars().take(usize::from(columns.saturating_sub(1))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn start(id: &str, step: CompileStep) -> CompileStart<'_> {
        CompileStart { id, bytes: 18 << 20, step }
    }

    fn empty() -> CompileProgress {
        CompileProgress { under_way: Vec::new(), last: 0, drawn: 0 }
    }

    #[test]
    fn slow_compilations_are_shown_with_size_and_time() {
        let (mut progress, begun) = (empty(), Instant::now());
        let after = |time: Duration| begun + time;
        progress.begin(start("words", CompileStep::Compile), begun);
        progress.begin(start("a\u{1b}[2J", CompileStep::Validate), after(Duration::from_secs(4)));
        assert_eq!(progress.line(after(limits::COMPILE_PROGRESS_DELAY / 2), 80), "", "quick ones are not");
        assert_eq!(progress.line(after(Duration::from_secs(4)), 80), "compiling words (18.0 MiB) for 4 s");
        let both = "compiling words (18.0 MiB) for 1 min 05 s, checking a\\u{1b}[2J (18.0 MiB) for 1 min 01 s";
        let now = after(Duration::from_secs(65));
        assert_eq!(progress.line(now, 120), both);
        assert_eq!(progress.line(now, 20), &both[..19], "it must not wrap");
    }

    #[test]
    fn line_is_erased_when_a_compilation_ends() {
        let (mut progress, begun) = (empty(), Instant::now());
        let number = progress.begin(start("words", CompileStep::Compile), begun);
        let mut output = Vec::new();
        let mut written = |progress: &mut CompileProgress, act: &dyn Fn(&mut CompileProgress, &mut dyn Write)| {
            output.clear();
            act(progress, &mut output);
            String::from_utf8(output.clone()).unwrap()
        };
        let draw = |seconds| {
            move |progress: &mut CompileProgress, output: &mut dyn Write| {
                progress.draw(begun + Duration::from_secs(seconds), 80, output);
            }
        };
        assert_eq!(written(&mut progress, &draw(0)), "");
        let first = written(&mut progress, &draw(9));
        assert_eq!(first, "\r\rcompiling words (18.0 MiB) for 9 s");
        let second = written(&mut progress, &draw(10));
        let width = first.trim_start().len();
        assert_eq!(second, format!("\r{:width$}\rcompiling words (18.0 MiB) for 10 s", ""));
        let ended = written(&mut progress, &|progress, output| progress.end(number, output));
        assert_eq!(ended, format!("\r{:1$}\r", "", width + 1));
        assert_eq!(written(&mut progress, &draw(11)), "", "nothing is left to be shown or erased");
    }
}
