use std::collections::VecDeque;

use crate::{error::Report, limits};

/// The lines of a failed build that say why: the first error with the lines that belong to it, or else the last lines.
#[derive(Default)]
pub struct BuildErrorExcerpt {
    first: Vec<String>,
    /// Set once the lines of the first error have ended.
    is_complete: bool,
    /// The last lines that are not blank.
    last: VecDeque<String>,
}

impl BuildErrorExcerpt {
    /// Notes a line that a tool of the build has written.
    pub fn note(&mut self, line: &str) {
        let line = line.trim_end().replace('\t', "    ");
        let line: String = line.chars().take(limits::BUILD_ERROR_LINE_CHARS).collect();
        let is_begun = !self.first.is_empty();
        self.is_complete |= is_begun && (line.is_empty() || self.first.len() == limits::BUILD_ERROR_LINES);
        if line.is_empty() {
            return;
        }
        if !self.is_complete && (is_begun || tells_error(&line)) {
            self.first.push(line.clone());
        }
        if self.last.len() == limits::BUILD_ERROR_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Returns the report of the failure with these lines as its cause, unless it says the cause itself.
    pub fn explain(&self, report: Report) -> Report {
        let lines = match self.first.is_empty() {
            true => self.last.iter().cloned().collect(),
            false => self.first.clone(),
        };
        match lines.is_empty() || !report.causes.is_empty() {
            true => report,
            false => report.cause(lines.join("\n")),
        }
    }
}

/// Returns `true` for the first line of an error as compilers write it: with the word `error`, or with a line and a column.
fn tells_error(line: &str) -> bool {
    let has_word = line.trim_start().starts_with("error") || line.contains("rror:") || line.contains(": error ");
    // An indented position belongs to the line above it, which may be a warning.
    has_word || !line.starts_with(' ') && !line.contains("warning") && has_position(line)
}

/// Returns `true` for a line that begins with a file, a line and a column: `./main.go:5:2: undefined: x`.
fn has_position(line: &str) -> bool {
    let mut parts = line.split(':').skip(1);
    let mut is_number =
        || parts.next().is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    is_number() && is_number()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// Returns the cause that a build with these lines has.
    fn cause(lines: &[&str]) -> Option<String> {
        let mut excerpt = BuildErrorExcerpt::default();
        lines.iter().for_each(|line| excerpt.note(line));
        excerpt.explain(Report::new(ErrorKind::Plugin, "cargo failed")).causes.pop()
    }

    #[test]
    fn first_error_is_found_in_the_output_of_each_compiler() {
        let rust = [
            "warning: unused",
            " --> src/lib.rs:1:1",
            "",
            "error[E0425]: no `x`",
            " --> src/lib.rs:3:5",
            "",
            "error: two",
        ];
        for (lines, expected) in [
            (&rust[..], "error[E0425]: no `x`\n --> src/lib.rs:3:5"),
            (&["# dice", "./main.go:5:2: undefined: x", "", "more"], "./main.go:5:2: undefined: x"),
            (&["app.c:3:5: warning: odd", "app.c:4:5: error: bad", "  here"], "app.c:4:5: error: bad\n  here"),
            (&["src/a.ts(3,5): error TS2304: no x"], "src/a.ts(3,5): error TS2304: no x"),
            (&["Traceback:", "SyntaxError: bad"], "SyntaxError: bad"),
            (&["one", "", "two"], "one\ntwo"),
        ] {
            assert_eq!(cause(lines).as_deref(), Some(expected), "{lines:?}");
        }
        assert_eq!(cause(&[]), None);
    }

    #[test]
    fn long_error_is_cut_and_a_known_cause_stays() {
        let long = format!("error: {}", "x".repeat(limits::BUILD_ERROR_LINE_CHARS));
        let lines = vec![&*long; limits::BUILD_ERROR_LINES + 3];
        let text = cause(&lines).unwrap();
        assert_eq!(text.lines().count(), limits::BUILD_ERROR_LINES);
        assert!(text.lines().all(|line| line.chars().count() == limits::BUILD_ERROR_LINE_CHARS), "{text}");
        let mut excerpt = BuildErrorExcerpt::default();
        excerpt.note("error: x");
        let known = excerpt.explain(Report::new(ErrorKind::Plugin, "python failed").cause("no module"));
        assert_eq!(known.causes, ["no module"]);
    }
}
