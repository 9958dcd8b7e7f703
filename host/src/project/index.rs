use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use crate::{error::acts_on_terminal, files, limits};

/// Folders that hold generated or installed files. `target` and others are also recognized by the `CACHEDIR.TAG` that tools
/// put there.
const GENERATED: [&str; 7] =
    ["node_modules", "bower_components", "__pycache__", "site-packages", "target", "dist", "venv"];

/// Files that identify a folder by how it is built.
const MANIFESTS: [&str; 20] = [
    "build.gradle",
    "build.gradle.kts",
    "build.zig",
    "cargo.toml",
    "cmakelists.txt",
    "compose.yaml",
    "composer.json",
    "deno.json",
    "docker-compose.yml",
    "gemfile",
    "go.mod",
    "manage.py",
    "meson.build",
    "mix.exs",
    "package.json",
    "package.swift",
    "plugin.toml",
    "pom.xml",
    "pyproject.toml",
    "setup.py",
];

/// Stems of files that identify a folder by where to begin reading.
const BEGINNINGS: [&str; 13] = [
    "__main__",
    "agents",
    "app",
    "architecture",
    "claude",
    "dockerfile",
    "index",
    "justfile",
    "lib",
    "main",
    "makefile",
    "mod",
    "readme",
];

/// The number of notable files that are named when a folder's files are only counted.
const NOTABLE_NAMED: usize = 8;
/// The number of file extensions that are counted separately.
const ENDINGS_NAMED: usize = 6;
/// The maximum number of named files per folder, from the most detailed index to the shortest.
const FILES_NAMED: [usize; 3] = [32, 8, 0];

/// The bounds of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexBounds {
    /// The number of files and folders that are examined.
    pub entries: usize,
    /// The depth of the folders that are examined.
    pub depth: usize,
    /// The time for the whole index.
    pub time: Duration,
    /// The characters of the index.
    pub chars: usize,
}

impl Default for IndexBounds {
    fn default() -> Self {
        let (entries, depth) = (limits::INDEX_ENTRIES, limits::INDEX_DEPTH);
        Self { entries, depth, time: limits::INDEX_TIME, chars: limits::INDEX_CHARS }
    }
}

/// Builds the index of a project for a model: folders with the names of their files, or with the number of files per
/// extension, as deep and as detailed as `bounds` allow. It states what was not examined.
///
/// Hidden and generated folders and everything that `.gitignore` excludes are omitted; links are named, not followed. The
/// same project gives the same text, unless the time runs out. A project without files has an empty index.
pub fn structural_index(root: &Path, bounds: &IndexBounds) -> String {
    let tree = FolderTree::walk(root, bounds);
    if tree.folders[0].files.is_empty() && tree.folders[0].below.is_empty() {
        return String::new();
    }
    let head = tree.head();
    let room = bounds.chars.saturating_sub(head.chars().count());
    let deepest = tree.folders.iter().map(|folder| folder.depth).max().unwrap_or(0);
    let ways = (0..=deepest).rev().flat_map(|levels| FILES_NAMED.map(|named| (levels, named)));
    let tree = ways.into_iter().find_map(|(levels, named)| tree.shown(levels, named, room)).unwrap_or_default();
    (head + &tree).chars().take(bounds.chars).collect()
}

/// The folders found, in breadth-first order: when a bound ends the walk, the folders near the root are complete.
struct FolderTree {
    folders: Vec<IndexedFolder>,
    /// The bound that ended the walk early.
    ended: Option<String>,
}

struct IndexedFolder {
    name: String,
    depth: usize,
    /// The names of its files, in order.
    files: Vec<String>,
    /// The indices of its subfolders, in order.
    below: Vec<usize>,
    /// The reason for which its content is unknown.
    unknown: Option<&'static str>,
}

/// The rules of a `.gitignore`, and of those in the parent folders.
struct IgnoreRules {
    own: Gitignore,
    above: Option<Arc<IgnoreRules>>,
}

impl IgnoreRules {
    /// Reads the rules in a folder. `below` is its path relative to the root, against which patterns are matched.
    fn of(folder: &Path, below: &Path, above: Option<Arc<IgnoreRules>>) -> Option<Arc<IgnoreRules>> {
        let Ok(text) = files::read(&folder.join(".gitignore"), folder, limits::IGNORE_FILE_BYTES) else { return above };
        let mut builder = GitignoreBuilder::new(below);
        for line in text.lines() {
            // Like git, ignores invalid patterns.
            let _ = builder.add_line(None, line);
        }
        match builder.build() {
            Ok(own) if !own.is_empty() => Some(Arc::new(IgnoreRules { own, above })),
            _ => above,
        }
    }

    fn ignore(&self, below: &Path, is_folder: bool) -> bool {
        let mut rules = Some(self);
        while let Some(IgnoreRules { own, above }) = rules {
            match own.matched(below, is_folder) {
                Match::None => rules = above.as_deref(),
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

impl FolderTree {
    fn walk(root: &Path, bounds: &IndexBounds) -> Self {
        let folder =
            |name: String, depth| IndexedFolder { name, depth, files: Vec::new(), below: Vec::new(), unknown: None };
        let mut tree = Self { folders: vec![folder(String::new(), 0)], ended: None };
        let (started, mut left) = (Instant::now(), bounds.entries);
        let mut waiting = VecDeque::from([(0, PathBuf::new(), None::<Arc<IgnoreRules>>)]);
        while let Some((at, below, rules)) = waiting.pop_front() {
            let depth = tree.folders[at].depth;
            if tree.ended.is_none() && started.elapsed() >= bounds.time {
                tree.ended = Some(format!("{:.1} seconds", bounds.time.as_secs_f64()));
            }
            if tree.ended.is_some() || depth > bounds.depth {
                tree.folders[at].unknown = Some("not searched");
                continue;
            }
            let path = root.join(&below);
            let Ok(entries) = fs::read_dir(&path) else {
                tree.folders[at].unknown = Some("cannot be read");
                continue;
            };
            let mut found: Vec<_> = entries.map_while(Result::ok).take(left.saturating_add(1)).collect();
            if found.len() > left {
                found.pop();
                tree.ended = Some(format!("{} files and folders", bounds.entries));
            }
            left -= found.len();
            found.sort_by_key(fs::DirEntry::file_name);
            let rules = IgnoreRules::of(&path, &below, rules);
            for entry in found {
                let (name, below) = (entry.file_name(), below.join(entry.file_name()));
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let is_hidden = name.as_encoded_bytes().starts_with(b".");
                if is_hidden || rules.as_ref().is_some_and(|rules| rules.ignore(&below, is_folder)) {
                    continue;
                }
                let name = shown(&name.to_string_lossy());
                if !is_folder {
                    tree.folders[at].files.push(name);
                } else if !GENERATED.contains(&&*name) && !entry.path().join("CACHEDIR.TAG").exists() {
                    let new = tree.folders.len();
                    tree.folders[at].below.push(new);
                    tree.folders.push(folder(name, depth + 1));
                    waiting.push_back((new, below, rules.clone()));
                }
            }
        }
        tree
    }

    fn head(&self) -> String {
        let all = self.folders.iter().flat_map(|folder| &folder.files);
        let (files, folders) = (all.clone().count(), self.folders.len() - 1);
        let mut head = format!("{} in {}: {}\n", many(files, "file"), many(folders, "folder"), counts(all));
        if let Some(ended) = &self.ended {
            head.push_str(&format!("The list is incomplete: the search stopped after {ended}.\n"));
        }
        head
    }

    /// Formats the folders down to `levels`, with the names of their files where there are at most `named`; `None` if the
    /// text exceeds `room` characters.
    fn shown(&self, levels: usize, named: usize, room: usize) -> Option<String> {
        let (mut text, mut used) = (String::new(), 0);
        // The index of a folder, and its indentation.
        let mut waiting = vec![(0, 0)];
        while let Some((mut at, indent)) = waiting.pop() {
            let mut line = "  ".repeat(indent);
            line.push_str(&self.folders[at].name);
            line.push_str(if at == 0 { "./" } else { "/" });
            // A folder that contains only one folder is joined with it on one line.
            while let ([], [only], true) =
                (&*self.folders[at].files, &*self.folders[at].below, at != 0 && self.folders[at].depth < levels)
            {
                at = *only;
                line.push_str(&self.folders[at].name);
                line.push('/');
            }
            let folder = &self.folders[at];
            let says = match folder.unknown {
                Some(unknown) => format!("({unknown})"),
                None if folder.depth < levels => folder.own_files(if at == 0 { FILES_NAMED[0] } else { named }),
                None => self.all_files(at, named),
            };
            if !says.is_empty() {
                line.push(' ');
                line.push_str(&says);
            }
            line.push('\n');
            let mut below = &*folder.below;
            if folder.depth < levels {
                let more = below.len().saturating_sub(limits::INDEX_FOLDERS_NAMED);
                if more > 0 {
                    below = &below[..limits::INDEX_FOLDERS_NAMED];
                    line.push_str(&format!("{}({} more below it)\n", "  ".repeat(indent + 1), many(more, "folder")));
                }
                let indent = if at == 0 { 0 } else { indent + 1 };
                waiting.extend(below.iter().rev().map(|&below| (below, indent)));
            }
            used += line.chars().count();
            if used > room {
                return None;
            }
            text.push_str(&line);
        }
        Some(text)
    }

    /// Describes the content of a folder and its descendants.
    fn all_files(&self, at: usize, named: usize) -> String {
        if self.folders[at].below.is_empty() {
            return self.folders[at].own_files(named);
        }
        let (mut all, mut folders, mut waiting) = (Vec::new(), 0, vec![at]);
        while let Some(at) = waiting.pop() {
            all.extend(&self.folders[at].files);
            folders += self.folders[at].below.len();
            waiting.extend(&self.folders[at].below);
        }
        let own = self.folders[at].notable();
        let counts = counts(all.into_iter());
        let notable = if own.is_empty() { String::new() } else { format!("; {own}") };
        format!("({} with {counts}){notable}", many(folders, "folder")).replace(" with )", ")")
    }
}

impl IndexedFolder {
    /// Returns the names of its files, or the number of files per extension and the notable ones.
    fn own_files(&self, named: usize) -> String {
        if self.files.len() <= named {
            return self.files.join(", ");
        }
        let (counts, notable) = (counts(self.files.iter()), self.notable());
        if notable.is_empty() { format!("({counts})") } else { format!("({counts}); {notable}") }
    }

    fn notable(&self) -> String {
        let notable = self.files.iter().filter(|name| is_notable(name)).take(NOTABLE_NAMED);
        notable.map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

fn is_notable(name: &str) -> bool {
    let name = name.to_lowercase();
    let stem = name.split('.').next().unwrap_or_default();
    MANIFESTS.contains(&&*name)
        || BEGINNINGS.contains(&stem)
        || [".csproj", ".sln", ".cabal", ".gemspec"].iter().any(|ending| name.ends_with(ending))
}

/// Returns the extension of a file name: `rs` of `main.rs`.
fn ending(name: &str) -> Option<String> {
    let (before, ending) = name.rsplit_once('.')?;
    let is_one =
        !before.is_empty() && (1..=10).contains(&ending.len()) && ending.bytes().all(|b| b.is_ascii_alphanumeric());
    is_one.then(|| ending.to_ascii_lowercase())
}

/// Returns the number of files per extension, the largest first.
fn counts<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let (mut of_ending, mut others) = (BTreeMap::<String, usize>::new(), 0);
    for name in names {
        match ending(name) {
            Some(ending) => *of_ending.entry(ending).or_default() += 1,
            None => others += 1,
        }
    }
    let mut sorted: Vec<_> = of_ending.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    others += sorted.drain(sorted.len().min(ENDINGS_NAMED)..).map(|(_, count)| count).sum::<usize>();
    let mut parts: Vec<_> = sorted.into_iter().map(|(ending, count)| format!("{count} {ending}")).collect();
    if others > 0 {
        parts.push(many(others, "other"));
    }
    parts.join(", ")
}

fn many(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Escapes a name for one line: a file name must not be able to add lines to the index.
fn shown(name: &str) -> String {
    if !name.contains(acts_on_terminal) {
        return name.to_owned();
    }
    name.chars().map(|c| if acts_on_terminal(c) { c.escape_unicode().to_string() } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    fn index(root: &tempfile::TempDir) -> String {
        structural_index(root.path(), &IndexBounds::default())
    }

    #[test]
    fn index_names_folders_and_files() {
        let root = project(&[
            "README.md",
            "LICENSE",
            "src/main.rs",
            "src/a/b.rs",
            "src/a/c.rs",
            "java/com/acme/App.java",
            ".git/config",
            ".hidden/x",
            "node_modules/x/index.js",
            "cache/CACHEDIR.TAG",
            "cache/x.o",
            "empty/.keep",
        ]);
        let expected = "6 files in 6 folders: 3 rs, 1 java, 1 md, 1 other\n\
                        ./ LICENSE, README.md\n\
                        empty/\n\
                        java/com/acme/ App.java\n\
                        src/ main.rs\n  \
                        a/ b.rs, c.rs\n";
        assert_eq!(index(&root), expected);
        assert_eq!(index(&root), index(&root));
        assert_eq!(index(&project(&[])), "");
        assert_eq!(index(&project(&[".hidden/x"])), "");
        assert_eq!(structural_index(&root.path().join("none"), &IndexBounds::default()), "");
    }

    #[test]
    fn index_omits_gitignored_files() {
        let root =
            project(&["a.log", "a.rs", "out/x", "sub/a.log", "sub/keep.log", "sub/out/x", "sub/gen/x", "sub/b.rs"]);
        fs::write(root.path().join(".gitignore"), "*.log\n/out\n[\n").unwrap();
        fs::write(root.path().join("sub/.gitignore"), "!keep.log\ngen/\n").unwrap();
        let expected = "4 files in 2 folders: 2 rs, 1 log, 1 other\n./ a.rs\nsub/ b.rs, keep.log\n  out/ x\n";
        assert_eq!(index(&root), expected);
        // A file that is too long is not used.
        fs::write(root.path().join(".gitignore"), "*.log\n".repeat(limits::IGNORE_FILE_BYTES as usize / 6 + 1))
            .unwrap();
        assert!(index(&root).contains("a.log"), "{}", index(&root));
    }

    #[test]
    fn index_counts_what_does_not_fit() {
        let names: Vec<_> = (0..20).map(|number| format!("src/deep/{number:02}.rs")).collect();
        let mut files: Vec<_> = names.iter().map(String::as_str).collect();
        files.extend(["Cargo.toml", "src/lib.rs", "src/x.rs", "src/deep/mod.rs", "src/deep/one/x.txt"]);
        files.extend(["src/deep/three/x.txt", "src/deep/two/x.txt"]);
        let root = project(&files);
        let of = |chars| structural_index(root.path(), &IndexBounds { chars, ..IndexBounds::default() });
        let head = "27 files in 5 folders: 23 rs, 3 txt, 1 toml\n./ Cargo.toml\n";
        let below = "    one/ x.txt\n    three/ x.txt\n    two/ x.txt\n";
        let deep = names.iter().map(|name| format!("{}, ", &name["src/deep/".len()..])).collect::<String>();
        for rest in [
            format!("src/ lib.rs, x.rs\n  deep/ {deep}mod.rs\n{below}"),
            format!("src/ lib.rs, x.rs\n  deep/ (21 rs); mod.rs\n{below}"),
            "src/ lib.rs, x.rs\n  deep/ (3 folders with 21 rs, 3 txt); mod.rs\n".into(),
            "src/ (4 folders with 23 rs, 3 txt); lib.rs\n".into(),
        ] {
            let text = format!("{head}{rest}");
            assert_eq!(of(text.chars().count()), text);
        }
        assert_eq!(of(limits::INDEX_CHARS), of(limits::INDEX_CHARS * 2));
        for chars in 0..200 {
            assert!(of(chars).chars().count() <= chars, "{chars}");
        }
    }

    #[test]
    fn index_counts_excess_folders() {
        let names: Vec<_> = (0..=limits::INDEX_FOLDERS_NAMED).map(|number| format!("data/{number:03}/x")).collect();
        let root = project(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let text = index(&root);
        assert!(text.contains("\ndata/\n  (1 folder more below it)\n  000/ x\n"), "{text}");
        assert!(text.contains("  047/ x\n") && !text.contains("048/"), "{text}");
    }

    #[test]
    fn index_states_which_bound_ended_the_walk() {
        let root = project(&["a/b/c/x", "a/y", "z"]);
        let whole = IndexBounds::default();
        for (bounds, expected) in [
            (
                IndexBounds { depth: 1, ..whole.clone() },
                "2 files in 2 folders: 2 others\n./ z\na/ y\n  b/ (not searched)\n",
            ),
            (
                IndexBounds { entries: 2, ..whole.clone() },
                "1 file in 1 folder: 1 other\nThe list is incomplete: the search stopped after 2 files and folders.\n\
                 ./ z\na/\n",
            ),
            (IndexBounds { time: Duration::ZERO, ..whole.clone() }, ""),
        ] {
            assert_eq!(structural_index(root.path(), &bounds), expected, "{bounds:?}");
        }
        let deep = format!("{}x", "d/".repeat(limits::INDEX_DEPTH + 2));
        assert!(index(&project(&[&deep])).ends_with("(not searched)\n"));
    }

    #[test]
    #[cfg(unix)]
    fn index_escapes_names_and_skips_links() {
        let root = project(&["a\nb.rs", "src/x.rs"]);
        std::os::unix::fs::symlink("..", root.path().join("src/loop")).unwrap();
        let expected = "3 files in 1 folder: 2 rs, 1 other\n./ a\\u{a}b.rs\nsrc/ loop, x.rs\n";
        assert_eq!(index(&root), expected);
    }
}
