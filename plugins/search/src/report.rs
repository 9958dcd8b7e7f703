//! The result of a search as text.

use std::borrow::Cow;

use shelly_plugin::text::short;

use crate::walk::Skipped;

/// The maximum number of bytes that are shown: more than a model is shown at once.
const SHOWN: usize = 512 << 10;

/// The maximum number of characters of a line that are shown, and the number of them before the match.
const LINE: usize = 400;
const BEFORE: usize = 100;

/// Returns a path as it is or, if it would look like several lines, quoted and escaped.
fn on_one_line(path: &str) -> Cow<'_, str> {
    match path.contains(char::is_control) {
        true => format!("{path:?}").into(),
        false => path.into(),
    }
}

/// The results of a search, and statistics of the search.
pub(crate) struct Report {
    text: String,
    results: usize,
    max_results: usize,
    /// The number of files with results.
    with_results: usize,
    /// Set if no line has been shown yet below the current heading.
    is_beginning: bool,
    /// The number of files that were searched to their end.
    pub(crate) files: usize,
    /// The number of bytes that were read.
    pub(crate) read: u64,
    pub(crate) is_out_of_bytes: bool,
    pub(crate) binary: usize,
    pub(crate) not_utf8: usize,
    pub(crate) unreadable: usize,
}

impl Report {
    pub(crate) fn new(max_results: usize) -> Report {
        Report {
            text: String::new(),
            results: 0,
            max_results,
            with_results: 0,
            is_beginning: true,
            files: 0,
            read: 0,
            is_out_of_bytes: false,
            binary: 0,
            not_utf8: 0,
            unreadable: 0,
        }
    }

    /// Returns `true` if nothing more is to be shown.
    pub(crate) fn is_full(&self) -> bool {
        self.results >= self.max_results || self.text.len() >= SHOWN
    }

    /// Adds a file that was found.
    pub(crate) fn file(&mut self, path: &str) {
        self.results += 1;
        self.text += &on_one_line(path);
        self.text.push('\n');
    }

    /// Adds the name of the file that the following lines belong to.
    pub(crate) fn heading(&mut self, path: &str) {
        if self.with_results > 0 {
            self.text.push('\n');
        }
        self.with_results += 1;
        self.text += &on_one_line(path);
        self.text.push('\n');
        self.is_beginning = true;
    }

    /// Marks omitted lines.
    pub(crate) fn gap(&mut self) {
        if !self.is_beginning {
            self.text += "--\n";
        }
    }

    /// Adds a line that matches from byte `place` on.
    pub(crate) fn matched(&mut self, number: usize, line: &[u8], place: usize) {
        self.results += 1;
        self.line(number, ':', line, place);
    }

    /// Adds a line near a match.
    pub(crate) fn context(&mut self, number: usize, line: &[u8]) {
        self.line(number, '-', line, 0);
    }

    fn line(&mut self, number: usize, mark: char, line: &[u8], place: usize) {
        self.is_beginning = false;
        // A line may have megabytes, so only the bytes that can be shown are converted.
        let from = place.saturating_sub(4 * BEFORE);
        let from = (from..=place).find(|at| line.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80)).unwrap_or(place);
        let head = String::from_utf8_lossy(line.get(from..place).unwrap_or_default());
        let skipped = head.chars().count().saturating_sub(BEFORE);
        let head: String = head.chars().skip(skipped).collect();
        let rest = &line[place.min(line.len())..];
        let rest = String::from_utf8_lossy(&rest[..rest.len().min(4 * (LINE + 1))]);
        let cut = if from > 0 || skipped > 0 { "…" } else { "" };
        let shown = short(&format!("{head}{rest}"), LINE);
        self.text += &format!("{number}{mark} {cut}{}\n", shown.trim_end_matches(['\n', '\r']));
    }

    /// Returns the report of a search for lines.
    pub(crate) fn of_lines(self, skipped: &Skipped) -> String {
        let searched = count(self.files, "file");
        let mut notes = vec![match self.results {
            0 => format!("no line matches in {searched}"),
            results => format!("{} in {}", count(results, "matching line"), count(self.with_results, "file")),
        }];
        if self.is_out_of_bytes {
            notes.push(format!(
                "the search ended after {} MiB of files; narrow it with `directory` or `glob`",
                self.read >> 20
            ));
        }
        let left_out = [(self.binary, "binary"), (self.not_utf8, "not UTF-8"), (self.unreadable, "unreadable")];
        let left_out: Vec<String> =
            left_out.iter().filter(|(files, _)| *files > 0).map(|(files, what)| format!("{files} {what}")).collect();
        if !left_out.is_empty() {
            notes.push(format!("files left out: {}", left_out.join(", ")));
        }
        if self.results == 0 {
            notes.push(HIDDEN.into());
        }
        self.end(notes, skipped)
    }

    /// Returns the report of a search for files.
    pub(crate) fn of_files(self, skipped: &Skipped) -> String {
        let notes = match self.results {
            0 => vec!["no file matches".to_owned(), HIDDEN.into()],
            results => vec![count(results, "file")],
        };
        self.end(notes, skipped)
    }

    fn end(self, mut notes: Vec<String>, skipped: &Skipped) -> String {
        if self.is_full() {
            notes.push("the search ended here, and there may be more; narrow it, or raise `max_results`".into());
        }
        if skipped.folders > 0 {
            notes.push(format!("{} could not be listed completely", count(skipped.folders, "folder")));
        }
        if skipped.deep > 0 {
            notes.push(format!("{} too deep to be searched", count(skipped.deep, "folder")));
        }
        if skipped.is_endless {
            notes.push("there are too many entries to search; narrow the search with `directory`".into());
        }
        let gap = if self.text.is_empty() { "" } else { "\n" };
        format!("{}{gap}({})", self.text, notes.join("; "))
    }
}

const HIDDEN: &str = "hidden files and files that .gitignore excludes were not searched";

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
