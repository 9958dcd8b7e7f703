//! Tools that search for lines in files, and for files by their names.
//!
//! Folders are visited in the order of names, so that equal searches have equal results. The search skips `.git`, files
//! that `.gitignore` and `.ignore` exclude (in the folder, and in those above and below it), and hidden files unless the
//! glob names some.
//!
//! Params: `root`, the absolute path of a folder that was granted under that path, where relative paths begin;
//! `max_bytes`, the number of bytes of files that one call reads (512 MiB).

use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints, config, fs};

mod content;
mod globs;
mod report;
mod rules;
mod walk;

use content::Lines;
use globs::Names;
use report::Report;
use walk::{Next, Source, Walk};

shelly_plugin::export!(tools: [SearchContent, SearchFiles]);

/// The default and the maximum number of results.
const RESULTS: u64 = 100;
const MOST_RESULTS: u64 = 10_000;

/// The maximum number of lines around each match.
const MOST_CONTEXT: u64 = 50;

/// The default number of bytes of files that one call reads: 512 MiB, some seconds of the minute that a call may take.
const READ: u64 = 512 << 20;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Params {
    root: Option<String>,
    max_bytes: Option<u64>,
}

/// The starting point of a search.
struct Place {
    root: Option<String>,
    /// The path in the form that the functions of `fs` take.
    path: String,
    max_bytes: u64,
}

impl Place {
    fn new(directory: Option<&str>) -> Result<Place, Error> {
        let Params { root, max_bytes } = config()?;
        if root.as_ref().is_some_and(|root| !root.starts_with('/')) {
            return Err(Error::Invalid("params: `root` must be the absolute path of a folder".into()));
        }
        let path = fs::path_below(root.as_deref(), directory.unwrap_or("."))?;
        Ok(Place { root, path, max_bytes: max_bytes.unwrap_or(READ) })
    }

    /// Returns the path in the form that the model uses: relative below the root.
    fn shown<'a>(&self, path: &'a str) -> &'a str {
        let below = |root: &String| path.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/');
        self.root.as_ref().and_then(below).unwrap_or(path)
    }

    /// Returns a walk of the folders from here on, or of the single file that is here.
    fn walk(&self) -> Result<Walk<fs::Folder>, Error> {
        let above = |folder: &str| fs::read(folder, rules::BYTES).ok();
        if fs::is_above_all_folders(&self.path) {
            let mut folders = fs::folders();
            folders.retain(|folder| !folder.starts_with('/'));
            folders.sort();
            let starts = folders.into_iter().map(|path| Ok((fs::Folder::open(&path)?, path)));
            return Ok(Walk::new(starts.collect::<Result<_, Error>>()?, above));
        }
        let metadata = fs::metadata(&self.path).map_err(|error| fs::with_near_names(error, &self.path))?;
        if metadata.kind == fs::Kind::File {
            return Ok(Walk::file(&self.path));
        }
        Ok(Walk::new(vec![(fs::Folder::open(&self.path)?, self.path.clone())], above))
    }
}

fn at_most(asked: Option<u64>, default: u64, most: u64) -> Result<usize, Error> {
    match asked.unwrap_or(default) {
        0 => Err(Error::Invalid("`max_results` must be at least 1".into())),
        asked => Ok(asked.min(most) as usize),
    }
}

struct SearchContent;

#[derive(Deserialize, JsonSchema)]
struct SearchContentArgs {
    /// A regular expression (Rust's syntax), matched against single lines: `fn \w+_test`, `(?i)todo`.
    pattern: String,
    /// The folder to search with all folders below it, or one file; the top folder if left out.
    directory: Option<String>,
    /// The maximum number of matching lines; 100 if left out.
    #[schemars(range(min = 1, max = 10_000))]
    max_results: Option<u64>,
    /// The number of lines to show before and after each match; 0 if left out.
    #[schemars(range(max = 50))]
    context_lines: Option<u64>,
    /// Only files that match this glob: `*.rs`, `src/**/*.{ts,tsx}`.
    glob: Option<String>,
    /// True to ignore case.
    case_insensitive: Option<bool>,
}

impl Tool for SearchContent {
    const NAME: &'static str = "search_content";
    const DESCRIPTION: &'static str = "Searches the text of files for a regular expression. Returns the matching \
                                       lines with their numbers, below the name of their file. Skips .git, hidden \
                                       files, binary files and files that .gitignore excludes.";
    const HINTS: ToolHints = ToolHints::all();
    type Args = SearchContentArgs;

    fn call(args: SearchContentArgs, _call: &Call) -> Result<Reply, Error> {
        let place = Place::new(args.directory.as_deref())?;
        if fs::is_outside(&place.path) {
            return Ok(Reply::needs_folder(&place.path));
        }
        let mut lines = Lines::new(&args.pattern, args.case_insensitive.unwrap_or(false))?;
        lines.context = args.context_lines.unwrap_or(0).min(MOST_CONTEXT) as usize;
        let names = Names::new(args.glob.as_deref())?;
        let report = Report::new(at_most(args.max_results, RESULTS, MOST_RESULTS)?);
        Ok(search_content(&place, &names, &mut lines, report, place.walk()?).into())
    }
}

fn search_content<S: Source>(
    place: &Place,
    names: &Names,
    lines: &mut Lines,
    mut report: Report,
    walk: Walk<S>,
) -> String {
    let skipped = walk.run(names, |path, open| {
        if report.read >= place.max_bytes {
            report.is_out_of_bytes = true;
            return Next::Stop;
        }
        match open() {
            Ok(mut file) => lines.search(place.shown(path), &mut file, &mut report),
            Err(_) => report.unreadable += 1,
        }
        if report.is_full() { Next::Stop } else { Next::Further }
    });
    report.of_lines(&skipped)
}

struct SearchFiles;

#[derive(Deserialize, JsonSchema)]
struct SearchFilesArgs {
    /// A glob: `*.rs` (in every folder below), `src/*.rs`, `**/test_*/*.py`, `*.{yml,yaml}`. `**` is any number of folders.
    pattern: String,
    /// The folder to search with all folders below it; the top folder if left out. The pattern is relative to it.
    directory: Option<String>,
    /// The maximum number of files; 100 if left out.
    #[schemars(range(min = 1, max = 10_000))]
    max_results: Option<u64>,
}

impl Tool for SearchFiles {
    const NAME: &'static str = "search_files";
    const DESCRIPTION: &'static str = "Finds files by their names. Returns their paths in order, one per line. Skips \
                                       .git, files that .gitignore excludes, and hidden files unless the pattern \
                                       names some (`.github/**`).";
    const HINTS: ToolHints = ToolHints::all();
    type Args = SearchFilesArgs;

    fn call(args: SearchFilesArgs, _call: &Call) -> Result<Reply, Error> {
        let place = Place::new(args.directory.as_deref())?;
        if fs::is_outside(&place.path) {
            return Ok(Reply::needs_folder(&place.path));
        }
        let names = Names::new(Some(&args.pattern))?;
        let report = Report::new(at_most(args.max_results, RESULTS, MOST_RESULTS)?);
        Ok(search_files(&place, &names, report, place.walk()?).into())
    }
}

fn search_files<S: Source>(place: &Place, names: &Names, mut report: Report, walk: Walk<S>) -> String {
    let skipped = walk.run(names, |path, _| {
        report.file(place.shown(path));
        if report.is_full() { Next::Stop } else { Next::Further }
    });
    report.of_files(&skipped)
}

#[cfg(test)]
mod tests;
