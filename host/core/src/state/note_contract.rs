//! The contract of [`NoteStorage`](super::NoteStorage): checks that every implementation passes.

use tokio::runtime::Builder;

use super::{NoteError, NoteStore, NoteSummary};
use crate::limits;

/// A place without notes.
pub trait NoteFixture {
    /// Returns the notes as another process would open them.
    fn notes(&self) -> NoteStore;
}

/// The checks that can fail.
type NoteCheck = (&'static str, fn(&dyn NoteFixture) -> Result<(), String>);

const CHECKS: [NoteCheck; 4] = [
    ("notes_are_read_as_written", notes_are_read_as_written),
    ("notes_are_listed_by_name", notes_are_listed_by_name),
    ("number_of_notes_is_bounded", number_of_notes_is_bounded),
    ("names_and_sizes_are_bounded", names_and_sizes_are_bounded),
];

/// Runs all checks, each on a place of its own, and returns the failed ones with the reasons. Blocks, on a runtime of its
/// own.
pub fn failed_note_checks(new_fixture: impl Fn() -> Box<dyn NoteFixture>) -> Vec<(&'static str, String)> {
    CHECKS.iter().filter_map(|(name, check)| Some((*name, check(&*new_fixture()).err()?))).collect()
}

/// Runs an operation to its end.
fn done<T>(operation: impl Future<Output = Result<T, NoteError>>) -> Result<T, NoteError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| NoteError::Folder { cause: error.to_string() })?.block_on(operation)
}

/// Returns an error with both values if they differ.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?}, not {expected:?}")),
    }
}

fn notes_are_read_as_written(fixture: &dyn NoteFixture) -> Result<(), String> {
    let whole = "x".repeat(limits::NOTES_FILE_BYTES);
    same("nothing", done(fixture.notes().read("plan")), Err(NoteError::Missing { name: "plan".into() }))?;
    for content in ["# Plan\r\nmore", "", "é\0", &whole] {
        same("written", done(fixture.notes().write("plan", content)), Ok(()))?;
        same("read", done(fixture.notes().read("plan")), Ok(content.to_owned()))?;
    }
    Ok(())
}

fn notes_are_listed_by_name(fixture: &dyn NoteFixture) -> Result<(), String> {
    let list = || done(fixture.notes().list()).map_err(|error| error.to_string());
    same("nothing", list()?.notes, vec![])?;
    let long = "é".repeat(limits::NOTES_LINE_CHARS + 1);
    for (name, content) in [("plan", "# Plan\nmore"), ("B-2", ""), ("a_1", &long), ("plan", "# New\r\nmore")] {
        same(name, done(fixture.notes().write(name, content)), Ok(()))?;
    }
    let cut = format!("{}…", "é".repeat(limits::NOTES_LINE_CHARS));
    let line = |name: &str, first_line: &str| NoteSummary { name: name.into(), first_line: first_line.into() };
    let found = list()?;
    same("list", found.notes, vec![line("B-2", ""), line("a_1", &cut), line("plan", "# New")])?;
    same("left off", found.left_off, 0)
}

fn number_of_notes_is_bounded(fixture: &dyn NoteFixture) -> Result<(), String> {
    let notes = fixture.notes();
    for n in 0..limits::NOTES_FILES {
        same("written", done(notes.write(&n.to_string(), "")), Ok(()))?;
    }
    let full = NoteError::Full { count: limits::NOTES_FILES };
    same("one more", done(fixture.notes().write("more", "")), Err(full))?;
    same("not there", done(notes.read("more")), Err(NoteError::Missing { name: "more".into() }))?;
    same("replaced", done(fixture.notes().write("0", "new")), Ok(()))
}

fn names_and_sizes_are_bounded(fixture: &dyn NoteFixture) -> Result<(), String> {
    let long = "n".repeat(limits::NOTES_NAME_BYTES + 1);
    for name in ["", "a b", "../up", "a.md", "é", &long] {
        let found = [done(fixture.notes().write(name, "x")).err(), done(fixture.notes().read(name)).err()];
        same(name, found.iter().all(|error| matches!(error, Some(NoteError::Name { .. }))), true)?;
    }
    let large = "x".repeat(limits::NOTES_FILE_BYTES + 1);
    let too_large = NoteError::TooLarge { name: "n".into(), bytes: large.len() as u64 };
    same("too large", done(fixture.notes().write("n", &large)), Err(too_large))?;
    same("longest name", done(fixture.notes().write(&long[1..], "x")), Ok(()))
}
