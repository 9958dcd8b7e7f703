//! Reading of CSV with commas, semicolons, tabs or bars, with or without a byte order mark.

use std::io::BufRead;

use csv::{ReaderBuilder, StringRecord};
use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::Error;

/// The maximum number of columns of a table.
pub(crate) const MAX_COLUMNS: usize = 1_000;

/// The maximum number of column names in an error.
const NAMES_TOLD: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Delimiter {
    Comma,
    Semicolon,
    Tab,
    Bar,
}

impl Delimiter {
    const ALL: [Delimiter; 4] = [Delimiter::Comma, Delimiter::Semicolon, Delimiter::Tab, Delimiter::Bar];

    fn byte(self) -> u8 {
        match self {
            Delimiter::Comma => b',',
            Delimiter::Semicolon => b';',
            Delimiter::Tab => b'\t',
            Delimiter::Bar => b'|',
        }
    }

    /// Returns the delimiter that occurs most often in the first row; the comma if none occurs.
    fn of(beginning: &[u8]) -> Delimiter {
        let row = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let count = |delimiter: &Delimiter| row.iter().filter(|byte| **byte == delimiter.byte()).count();
        // Of equally frequent delimiters, the first is chosen.
        Delimiter::ALL.into_iter().rev().max_by_key(count).unwrap_or(Delimiter::Comma)
    }
}

pub(crate) struct CsvFile<R> {
    path: String,
    columns: Vec<String>,
    reader: csv::Reader<R>,
    row: StringRecord,
}

pub(crate) fn open<R: BufRead>(mut text: R, path: &str, delimiter: Option<Delimiter>) -> Result<CsvFile<R>, Error> {
    let beginning = text.fill_buf().map_err(|error| unreadable(path, &error))?;
    let delimiter = delimiter.unwrap_or_else(|| Delimiter::of(beginning));
    let mut reader = ReaderBuilder::new().delimiter(delimiter.byte()).from_reader(text);
    let header = reader.headers().map_err(|error| explain(path, &error))?;
    if header.len() > MAX_COLUMNS {
        return Err(Error::TooLarge(format!("`{path}` has {} columns, the maximum is {MAX_COLUMNS}", header.len())));
    }
    let columns = names(header.iter());
    Ok(CsvFile { path: path.to_owned(), columns, reader, row: StringRecord::new() })
}

impl<R: BufRead> CsvFile<R> {
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the index of a column.
    pub(crate) fn column(&self, name: &str) -> Result<usize, Error> {
        let same = |one: &&String| one.as_str() == name;
        let alike = |one: &&String| one.trim().eq_ignore_ascii_case(name.trim());
        let found = self.columns.iter().find(same).or_else(|| self.columns.iter().find(alike));
        match found.and_then(|found| self.columns.iter().position(|one| one == found)) {
            Some(column) => Ok(column),
            None => {
                let names: Vec<_> = self.columns.iter().take(NAMES_TOLD).map(String::as_str).collect();
                let path = &self.path;
                Err(Error::NotFound(format!("`{path}` has no column `{name}`; columns: {}", names.join(", "))))
            }
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<&StringRecord>, Error> {
        let more = self.reader.read_record(&mut self.row).map_err(|error| explain(&self.path, &error))?;
        Ok(more.then_some(&self.row))
    }
}

/// Makes column names unique, and invents names for columns without one.
pub(crate) fn names<'a>(header: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (index, name) in header.enumerate() {
        let name = match name.trim() {
            "" => format!("column_{}", index + 1),
            name => name.to_owned(),
        };
        let taken = |name: &str| names.iter().any(|one| one.eq_ignore_ascii_case(name));
        let free = std::iter::once(name.clone()).chain((2..).map(|n| format!("{name}_{n}"))).find(|name| !taken(name));
        names.extend(free);
    }
    names
}

fn explain(path: &str, error: &csv::Error) -> Error {
    match error.kind() {
        csv::ErrorKind::Io(error) => unreadable(path, error),
        csv::ErrorKind::Utf8 { pos, .. } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            Error::Invalid(format!("`{path}` is not UTF-8 at line {line}"))
        }
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            Error::Invalid(format!(
                "`{path}`: line {line} has {len} columns, the first has {expected_len}; check the delimiter"
            ))
        }
        _ => Error::Invalid(format!("`{path}`: {error}")),
    }
}

fn unreadable(path: &str, error: &std::io::Error) -> Error {
    Error::unavailable(format!("`{path}` cannot be read: {error}"))
}
