//! Tools that read the text of a file and list the names in a folder. They change nothing, and see only the folders that
//! were granted to the agent.

use guest_kit::measure::{Counts, Line, count, longest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shelly_plugin::{
    Call, Error, Reply, Tool, ToolHints,
    fs::{self, Entry, File, Kind},
};

mod lines;

use lines::Collector;

shelly_plugin::export!(tools: [ReadFile, ListFiles]);

/// The maximum size of a text that is returned at once: as much as an argument of another tool can hold.
const MAX_BYTES: u64 = 1024 * 1024;

/// The number of bytes that are read at once when looking for lines.
const CHUNK: u64 = 64 * 1024;

/// The maximum number of names of a folder that are shown.
const MAX_SHOWN: usize = 1_000;

/// The maximum number of names of a folder that are read.
const MAX_NAMES: usize = 10_000;

const HINTS: ToolHints = ToolHints::all();

struct ReadFile;

#[derive(Deserialize, JsonSchema)]
struct ReadFileArgs {
    /// The file, relative: `README.md`, `src/main.rs`.
    path: String,
    /// The first line to read, counted from 1; the first line of the file if left out.
    #[schemars(range(min = 1))]
    first_line: Option<u64>,
    /// The last line to read; the last line of the file if left out.
    #[schemars(range(min = 1))]
    last_line: Option<u64>,
    /// True to return measures instead of the text: its words, lines, characters and bytes, and its ten longest
    /// lines. Costs few tokens, however long the text is.
    #[serde(default)]
    measure: bool,
}

/// The measures of a text.
#[derive(Serialize)]
struct Measures<'a> {
    #[serde(flatten)]
    counts: Counts,
    longest_lines: Vec<Line<'a>>,
}

/// The number of longest lines that are listed.
const LONGEST: usize = 10;

impl Tool for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str =
        "Reads a text file and returns its text unchanged. Reads at most 1 MiB: of a larger file ask for lines.";
    const HINTS: ToolHints = HINTS;
    type Args = ReadFileArgs;

    fn call(args: ReadFileArgs, _call: &Call) -> Result<Reply, Error> {
        let whole = args.first_line.is_none() && args.last_line.is_none();
        let text = if whole { read_whole(&args.path) } else { read_lines(&args) };
        let text = text.map_err(|error| fs::with_near_names(error, &args.path))?;
        match args.measure {
            true => Reply::json(&Measures { counts: count(&text), longest_lines: longest(&text, LONGEST) }),
            false => Ok(text.into()),
        }
    }
}

fn read_whole(path: &str) -> Result<String, Error> {
    fs::read_to_string(path, MAX_BYTES).map_err(|error| match error {
        Error::TooLarge(cause) => {
            Error::TooLarge(format!("{cause}; ask for a part of it with `first_line` and `last_line`"))
        }
        error => error,
    })
}

fn read_lines(args: &ReadFileArgs) -> Result<String, Error> {
    let path = &args.path;
    let mut wanted = Collector::new(args.first_line, args.last_line, MAX_BYTES).map_err(Error::Invalid)?;
    let file = File::open(path)?;
    let mut offset = 0;
    while !wanted.is_complete() {
        let chunk = file.read_at(offset, CHUNK)?;
        if chunk.is_empty() {
            break;
        }
        offset += chunk.len() as u64;
        wanted.take(&chunk);
    }
    wanted.finish(path)
}

struct ListFiles;

#[derive(Deserialize, JsonSchema)]
struct ListFilesArgs {
    /// The folder, relative; the top folder if left out.
    path: Option<String>,
}

impl Tool for ListFiles {
    const NAME: &'static str = "list_files";
    const DESCRIPTION: &'static str = "Lists the files and folders in a folder, one per line, files with their size, \
                                       folders with a `/` at the end. Does not list what is in these folders.";
    const HINTS: ToolHints = HINTS;
    type Args = ListFilesArgs;

    fn call(args: ListFilesArgs, _call: &Call) -> Result<Reply, Error> {
        let path = args.path.as_deref().unwrap_or(".");
        let (entries, more) = fs::read_dir(path, MAX_NAMES).map_err(|error| fs::with_near_names(error, path))?;
        Ok(list(path, &entries, more, |name| size_of(path, name)).into())
    }
}

fn size_of(folder: &str, name: &str) -> Option<u64> {
    let metadata = fs::metadata(&format!("{folder}/{name}")).ok()?;
    (metadata.kind == Kind::File).then_some(metadata.size)
}

/// Formats the listing. `more` is set if the folder has further names that are not in `entries`.
fn list(path: &str, entries: &[Entry], more: bool, size_of: impl Fn(&str) -> Option<u64>) -> String {
    if entries.is_empty() && !more {
        return format!("`{path}` is empty");
    }
    let shown = &entries[..entries.len().min(MAX_SHOWN)];
    let mut text: String = shown
        .iter()
        .map(|entry| match (entry.kind, size_of(&entry.name)) {
            (Kind::Folder, _) => format!("{}/\n", entry.name),
            (Kind::File, Some(size)) => format!("{} ({size} bytes)\n", entry.name),
            (Kind::File, None) => format!("{}\n", entry.name),
            (Kind::Link, Some(size)) => format!("{} (link, {size} bytes)\n", entry.name),
            (Kind::Link, None) => format!("{} (link)\n", entry.name),
            (Kind::Other, _) => format!("{} (device)\n", entry.name),
        })
        .collect();
    let left = entries.len() - shown.len();
    if more {
        text += &format!("and more than {left} further names\n");
    } else if left > 0 {
        text += &format!("and {left} further names\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: Kind) -> Entry {
        Entry { name: name.into(), kind }
    }

    #[test]
    fn folder_listing_marks_files_folders_and_links() {
        let entries =
            [entry("a.txt", Kind::File), entry("src", Kind::Folder), entry("x", Kind::Link), entry("y", Kind::Other)];
        assert_eq!(
            list(".", &entries, false, |name| (name == "a.txt").then_some(7)),
            "a.txt (7 bytes)\nsrc/\nx (link)\ny (device)\n"
        );
        assert_eq!(list("src", &[], false, |_| None), "`src` is empty");
    }

    #[test]
    fn long_folder_listing_is_cut_with_a_note() {
        let entries: Vec<Entry> = (0..MAX_SHOWN + 3).map(|n| entry(&n.to_string(), Kind::Folder)).collect();
        assert!(list(".", &entries, false, |_| None).ends_with("\nand 3 further names\n"));
        assert!(list(".", &entries, true, |_| None).ends_with("\nand more than 3 further names\n"));
    }
}
