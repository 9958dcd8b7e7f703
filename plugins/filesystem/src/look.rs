//! Tools that list a folder, describe a file, and compare two files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shelly_plugin::{
    Call, Content, Error, Reply, Tool, ToolHints,
    fs::{self, Folder, Kind, Metadata},
};

use crate::{
    Halt, READS, answer, diff, folder, found, inside, invalid, name_of,
    read::{file, text},
    sniff::{Holds, holds},
    there,
};

/// The maximum number of names of a folder that are shown.
const SHOWN: usize = 1_000;

/// The maximum number of names of a folder that are read: as many as the host returns.
const NAMES: usize = 20_000;

/// The maximum size of a file that is compared: 4 MiB.
const COMPARED: u64 = 4 << 20;

pub(crate) struct List;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListArgs {
    /// The folder; `.` is the top folder.
    path: String,
}

/// An entry of a folder.
#[derive(Debug, Serialize, PartialEq)]
struct Row {
    name: String,
    r#type: &'static str,
    /// The size in bytes; only of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

impl Tool for List {
    const NAME: &'static str = "fs_list";
    const DESCRIPTION: &'static str = "Lists the entries of a folder, without those of folders below it, as JSON: \
                                       name, type (file, folder, link, device), size in bytes.";
    const HINTS: ToolHints = READS;
    type Args = ListArgs;

    fn call(args: ListArgs, _call: &Call) -> Result<Reply, Error> {
        answer(list(&args.path))
    }
}

fn list(path: &str) -> Result<Reply, Halt> {
    let path = folder(path)?;
    if there(&path)?.kind != Kind::Folder {
        return Err(invalid(format!("`{path}` is not a folder; fs_stat shows what it is")));
    }
    let (entries, more) = fs::read_dir(&path, NAMES)?;
    let left = entries.len().saturating_sub(SHOWN);
    // The directory above several granted folders cannot be opened; it contains no files either.
    let opened = Folder::open(&path).ok();
    let rows: Vec<Row> = entries
        .into_iter()
        .take(SHOWN)
        .map(|entry| {
            let known = opened.as_ref().filter(|_| entry.kind == Kind::File);
            let size = known.and_then(|folder| folder.metadata(&entry.name).ok()).map(|metadata| metadata.size);
            Row { name: entry.name, r#type: name_of(entry.kind), size }
        })
        .collect();
    let Reply(mut content) = Reply::json(&rows)?;
    content.extend(rest(left, more).map(Content::Text));
    Ok(Reply(content))
}

/// Describes the names that a listing leaves out.
fn rest(left: usize, more: bool) -> Option<String> {
    match (left, more) {
        (0, false) => None,
        (0, true) => Some("and further names, which cannot be shown because they are not Unicode".into()),
        (left, false) => Some(format!("and {left} further names")),
        (left, true) => Some(format!("and more than {left} further names")),
    }
}

pub(crate) struct Stat;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct StatArgs {
    /// The file or folder.
    path: String,
}

/// The facts about a file.
#[derive(Debug, Serialize)]
struct Known<'a> {
    path: &'a str,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    /// The target of a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    link_to: Option<String>,
}

impl Tool for Stat {
    const NAME: &'static str = "fs_stat";
    const DESCRIPTION: &'static str = "Describes a file or folder as JSON: type (file, folder, link, device), size in \
                                       bytes, time of modification (UTC), target of a link. For a link, size and time \
                                       are those of its target.";
    const HINTS: ToolHints = READS;
    type Args = StatArgs;

    fn call(args: StatArgs, _call: &Call) -> Result<Reply, Error> {
        answer(stat(&args.path))
    }
}

fn stat(path: &str) -> Result<Reply, Halt> {
    let path = inside(path)?;
    let Some(itself) = found(&path)? else {
        // The error of `there` names similar paths.
        there(&path)?;
        return Err(invalid(format!("`{path}` no longer exists")));
    };
    if itself.kind != Kind::Link {
        return Ok(Reply::json(&known(&path, itself, None))?);
    }
    // A link whose target does not exist or is not granted is described as a link only.
    let target = fs::metadata(&path).unwrap_or(itself);
    Ok(Reply::json(&known(&path, target, fs::read_link(&path).ok()))?)
}

fn known(path: &str, metadata: Metadata, link_to: Option<String>) -> Known<'_> {
    let size = (metadata.kind == Kind::File).then_some(metadata.size);
    Known { path, r#type: name_of(metadata.kind), size, modified: metadata.modified.map(utc), link_to }
}

/// Formats seconds since 1970 as a date and a time in UTC.
fn utc(seconds: u64) -> String {
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // Each period of 400 years has the same number of days.
    year += days / 146_097 * 400;
    days %= 146_097;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    format!("{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", month + 1, days + 1)
}

pub(crate) struct Diff;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct DiffArgs {
    /// The old file.
    file_a: String,
    /// The new file.
    file_b: String,
}

impl Tool for Diff {
    const NAME: &'static str = "fs_diff";
    const DESCRIPTION: &'static str = "Compares two text files (at most 4 MiB each): returns a unified diff with \
                                       three lines of context, or `files are identical`.";
    const HINTS: ToolHints = READS;
    type Args = DiffArgs;

    fn call(args: DiffArgs, _call: &Call) -> Result<Reply, Error> {
        answer(compare(&args))
    }
}

fn compare(args: &DiffArgs) -> Result<Reply, Halt> {
    let (path_a, path_b) = (inside(&args.file_a)?, inside(&args.file_b)?);
    let read = |path: &str| file(path, COMPARED, "the file is too large to be compared");
    let (a, b) = (read(&path_a)?, read(&path_b)?);
    Ok(difference(&path_a, a, &path_b, b)?.into())
}

fn difference(path_a: &str, a: Vec<u8>, path_b: &str, b: Vec<u8>) -> Result<String, Halt> {
    if a == b {
        return Ok("files are identical".into());
    }
    if [&a, &b].iter().any(|bytes| !matches!(holds(bytes), Holds::Text | Holds::OtherText { .. })) {
        return Ok(format!("binary files differ: `{path_a}` has {} bytes, `{path_b}` {}", a.len(), b.len()));
    }
    let (a, b) = (text(path_a, a)?, text(path_b, b)?);
    if a.replace("\r\n", "\n") == b.replace("\r\n", "\n") {
        let ends = |text: &str| {
            format!(
                "{} CRLF, {} LF",
                text.matches("\r\n").count(),
                text.matches('\n').count() - text.matches("\r\n").count()
            )
        };
        return Ok(format!(
            "the files differ only in their line ends: `{path_a}` has {}; `{path_b}` has {}",
            ends(&a),
            ends(&b)
        ));
    }
    Ok(diff::unified(path_a, &a, path_b, &b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_times_are_shown_as_utc_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(utc(seconds), expected);
        }
        assert!(utc(u64::MAX).ends_with('Z'), "a time that makes no sense takes no time");
    }

    #[test]
    fn file_diff_handles_text_binary_and_other_encodings() {
        let compare = |a: &[u8], b: &[u8]| difference("a", a.to_vec(), "b", b.to_vec());
        assert_eq!(compare(b"\0x", b"\0x").unwrap(), "files are identical");
        assert_eq!(compare(b"\0x", b"text").unwrap(), "binary files differ: `a` has 2 bytes, `b` 4");
        assert_eq!(
            compare(b"x\r\ny\r\n", b"x\ny\n").unwrap(),
            "the files differ only in their line ends: `a` has 2 CRLF, 0 LF; `b` has 0 CRLF, 2 LF"
        );
        assert_eq!(compare(b"x\n", b"y\n").unwrap(), "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n");
        assert!(matches!(compare(b"gr\xfcn", b"y\n"), Err(Halt::Failed(Error::Invalid(_)))));
    }

    #[test]
    fn folder_listing_states_how_many_names_it_omits() {
        assert_eq!(rest(0, false), None);
        assert!(rest(0, true).unwrap().starts_with("and further names"));
        assert_eq!(rest(3, false).as_deref(), Some("and 3 further names"));
        assert_eq!(rest(3, true).as_deref(), Some("and more than 3 further names"));
    }
}
