//! Tests of whole searches through simulated folders.

use std::{cell::Cell, collections::BTreeMap, rc::Rc};

use shelly_plugin::fs::{Entry, Kind};

use super::*;
use crate::walk::{Bytes, CHUNK};

/// Simulated files by their paths; `base` is the folder that is open.
#[derive(Clone)]
struct Made {
    files: Rc<BTreeMap<String, Vec<u8>>>,
    base: String,
    opened: Rc<Cell<usize>>,
}

struct Opened(Vec<u8>);

impl Bytes for Opened {
    fn read(&mut self, offset: u64) -> Result<Vec<u8>, Error> {
        Ok(self.0.iter().skip(offset as usize).take(CHUNK as usize).copied().collect())
    }
}

impl Source for Made {
    type File = Opened;

    fn entries(&self, most: usize) -> Result<(Vec<Entry>, bool), Error> {
        let below = self.files.keys().filter_map(|path| path.strip_prefix(&self.base));
        let mut entries: Vec<Entry> = below
            .map(|rest| match rest.split_once('/') {
                Some((name, _)) => Entry { name: name.into(), kind: Kind::Folder },
                None if rest.ends_with("@") => Entry { name: rest.into(), kind: Kind::Link },
                None => Entry { name: rest.into(), kind: Kind::File },
            })
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.dedup();
        let more = entries.len() > most;
        entries.truncate(most);
        Ok((entries, more))
    }

    fn folder(&self, name: &str) -> Result<Made, Error> {
        match name {
            "locked" => Err(Error::Denied("permission denied".into())),
            name => Ok(Made { base: format!("{}{name}/", self.base), ..self.clone() }),
        }
    }

    fn file(&self, name: &str) -> Result<Opened, Error> {
        self.opened.set(self.opened.get() + 1);
        let bytes = self.files.get(&format!("{}{name}", self.base)).cloned();
        bytes.filter(|_| name != "unreadable").map(Opened).ok_or_else(|| Error::Denied("permission denied".into()))
    }

    fn at(_: &str) -> Result<Opened, Error> {
        Ok(Opened(b"one\ntwo\n".to_vec()))
    }
}

fn made<P: Into<String>, B: Into<Vec<u8>>>(files: impl IntoIterator<Item = (P, B)>) -> Made {
    let files = files.into_iter().map(|(path, bytes)| (path.into(), bytes.into())).collect();
    Made { files: Rc::new(files), base: String::new(), opened: Rc::default() }
}

fn place(path: &str) -> Place {
    Place { root: None, path: path.into(), max_bytes: READ }
}

/// Returns a walk from a simulated folder.
fn walk(made: &Made, path: &str) -> Walk<Made> {
    let base = if path == "." { String::new() } else { format!("{path}/") };
    let start = Made { base, ..made.clone() };
    Walk::new(vec![(start, path.into())], |path| made.files.get(path).cloned())
}

fn files(made: &Made, path: &str, pattern: &str, most: usize) -> String {
    search_files(&place(path), &Names::new(Some(pattern)).unwrap(), Report::new(most), walk(made, path))
}

fn lines(made: &Made, pattern: &str, context: usize, most: usize) -> String {
    let mut lines = Lines::new(pattern, false).unwrap();
    lines.context = context;
    let names = Names::new(None).unwrap();
    search_content(&place("."), &names, &mut lines, Report::new(most), walk(made, "."))
}

fn project() -> Made {
    made([
        (".git/config", "needle"),
        (".github/ci.yml", "needle"),
        (".gitignore", "target\n*.log\n"),
        ("a.log", "needle"),
        ("b.txt", "no\nneedle here\nno"),
        ("link@", "needle"),
        ("src/.gitignore", "!keep.log\ngen/\n"),
        ("src/gen/x.rs", "needle"),
        ("src/keep.log", "a needle\n"),
        ("src/lib.rs", "fn needle() {}\n"),
        ("target/x.rs", "needle"),
    ])
}

#[test]
fn file_search_is_ordered_and_honours_ignore_rules() {
    let made = project();
    for (path, pattern, expected) in [
        (".", "**", "b.txt\nsrc/keep.log\nsrc/lib.rs\n\n(3 files)"),
        (".", "*.rs", "src/lib.rs\n\n(1 file)"),
        (".", "src/*", "src/keep.log\nsrc/lib.rs\n\n(2 files)"),
        ("src", "*", "src/keep.log\nsrc/lib.rs\n\n(2 files)"),
        ("src", "lib.*", "src/lib.rs\n\n(1 file)"),
        (".", ".github/**", ".github/ci.yml\n\n(1 file)"),
        ("target", "*.rs", "target/x.rs\n\n(1 file)"),
        (".", "*.py", "(no file matches; hidden files and files that .gitignore excludes were not searched)"),
    ] {
        assert_eq!(files(&made, path, pattern, 100), expected, "{pattern} in {path}");
    }
    assert_eq!(made.opened.get(), 12, "no file is opened but those with rules");
}

#[test]
fn cut_search_result_says_so() {
    let many = made((0..50).map(|n| (format!("{n:02}.txt"), format!("x\nx {n}\n"))));
    let cut = files(&many, ".", "*.txt", 3);
    assert!(
        cut.starts_with("00.txt\n01.txt\n02.txt\n\n(3 files; the search ended here, and there may be more"),
        "{cut}"
    );
    let cut = lines(&many, "x", 0, 3);
    assert!(
        cut.starts_with("00.txt\n1: x\n2: x 0\n\n01.txt\n1: x\n\n(3 matching lines in 2 files; the search ended"),
        "{cut}"
    );
    let mut little = place(".");
    little.max_bytes = 10;
    let cut = search_content(
        &little,
        &Names::new(None).unwrap(),
        &mut Lines::new("x", false).unwrap(),
        Report::new(99),
        walk(&many, "."),
    );
    assert!(cut.contains("4 matching lines in 2 files; the search ended after 0 MiB of files"), "{cut}");
}

#[test]
fn content_search_shows_context_lines() {
    let text = "1\n2\nneedle 3\n4\nneedle 5\n6\n7\n8\n9\nneedle 10\n";
    let one = made([("f", text)]);
    for (context, expected) in [
        (0, "f\n3: needle 3\n5: needle 5\n10: needle 10\n\n(3 matching lines in 1 file)"),
        (1, "f\n2- 2\n3: needle 3\n4- 4\n5: needle 5\n6- 6\n--\n9- 9\n10: needle 10\n\n(3 matching lines in 1 file)"),
        (
            2,
            "f\n1- 1\n2- 2\n3: needle 3\n4- 4\n5: needle 5\n6- 6\n7- 7\n8- 8\n9- 9\n10: needle 10\n\n(3 matching lines in 1 file)",
        ),
    ] {
        assert_eq!(lines(&one, "needle", context, 100), expected);
    }
    let last = lines(&made([("f", "a\nneedle")]), "needle", 5, 100);
    assert_eq!(last, "f\n1- a\n2: needle\n\n(1 matching line in 1 file)");
}

#[test]
fn search_pattern_matches_within_one_line() {
    let text = "Äpfel und Birnen\r\nfoo\r\n\r\n  bar baz\r\n";
    let one = made([("f", text)]);
    for (pattern, expected) in [
        ("foo$", "2: foo\n"),
        ("^$", "3: \n"),
        (r"^\s+bar", "4:   bar baz\n"),
        (r"foo\s*bar", ""),
        ("[^a]$", "1: Äpfel und Birnen\n2: foo\n4:   bar baz\n"),
        (r"^\w{5} ", "1: Äpfel und Birnen\n"),
        ("(?i)äPFEL", "1: Äpfel und Birnen\n"),
        ("x*", "1: Äpfel und Birnen\n2: foo\n3: \n4:   bar baz\n"),
        ("zzz", ""),
    ] {
        let found = lines(&one, pattern, 0, 100);
        let expected = if expected.is_empty() { "(no line" } else { &format!("f\n{expected}\n") };
        assert!(found.starts_with(expected), "{pattern}: {found}");
    }
    assert!(lines(&project(), "needle", 0, 9).ends_with("(3 matching lines in 3 files)"));
    let nothing = lines(&one, "zzz", 0, 100);
    assert!(nothing.starts_with("(no line matches in 1 file; hidden files"), "{nothing}");
}

#[test]
fn invalid_search_pattern_error_states_the_cause() {
    for (pattern, why) in [
        ("a(b", "unclosed group"),
        ("a\\nb", "spans several lines"),
        (&format!("{}a{}", "(".repeat(60), ")".repeat(60)), "exceed the maximum number of nested"),
        ("\\w{999}{999}", "limit"),
        (&"x".repeat(20_000), "more than 10000 bytes"),
        (&format!("{}a{}", "(".repeat(4_000), ")".repeat(4_000)), "exceed the maximum number of nested"),
        ("(?<=a)b", "look-around"),
    ] {
        let error = Lines::new(pattern, false).err().expect(pattern);
        assert!(error.message().contains(why) && error.message().len() < 2_000, "{pattern}: {error:?}");
    }
}

#[test]
fn content_search_skips_and_counts_non_text_files() {
    let odd = made([
        ("a.bin", &b"needle\0"[..]),
        ("b.txt", b"n\xefve needle"),
        ("c.txt", b"n\xefve"),
        ("d.txt", b"needle"),
        ("locked/x", b"needle"),
        ("unreadable", b"needle"),
    ]);
    let found = lines(&odd, "needle", 0, 100);
    let notes = "files left out: 1 binary, 1 not UTF-8, 1 unreadable; 1 folder could not be listed completely)";
    assert_eq!(found, format!("d.txt\n1: needle\n\n(1 matching line in 1 file; {notes}"));
}

#[test]
fn file_name_with_a_newline_is_escaped() {
    let made = made([("a\n1: needle.rs", "needle\n"), ("b", "needle\n")]);
    assert_eq!(files(&made, ".", "**", 9), "\"a\\n1: needle.rs\"\nb\n\n(2 files)");
    let found = lines(&made, "needle", 0, 9);
    assert!(found.starts_with("\"a\\n1: needle.rs\"\n1: needle\n\nb\n1: needle\n\n(2 matching"), "{found}");
}

#[test]
fn long_matching_line_is_cut_around_the_match() {
    let long = format!("{}needle{}\n", "ü".repeat(5_000), "ö".repeat(5_000));
    let found = lines(&made([("f", long)]), "needle", 0, 9);
    let expected = format!("1: …{}needle{}…\n", "ü".repeat(100), "ö".repeat(294));
    assert!(found.contains(&expected), "{found}");
}

#[test]
fn content_search_reads_huge_files_in_pieces() {
    // Lines have eleven bytes, so that pieces do not end at a line's end; the last line has no end.
    let count = 1_000_000;
    let mut text = "0123456789\n".repeat(count);
    text += "needle";
    let found = lines(&made([("f", text)]), "needle|^0123456789$", 0, 1);
    assert!(found.starts_with("f\n1: 0123456789\n"), "{found}");
    let mut text = "0123456789\n".repeat(count);
    text += "needle";
    let found = lines(&made([("f", text)]), "needle", 1, 9);
    assert!(found.starts_with(&format!("f\n{count}- 0123456789\n{}: needle\n", count + 1)), "{found}");
    let one = lines(&made([("f", "x".repeat(9 << 20) + "needle\nneedle")]), "needle", 0, 9);
    assert!(one.contains("2: needle\n\n(2 matching lines"), "{}", &one[one.len() - 100..]);
}

#[test]
fn search_is_bounded_in_deep_and_wide_folders() {
    let deep = made([(format!("{}f", "d/".repeat(300)), "needle"), ("e".into(), "needle")]);
    let found = lines(&deep, "needle", 0, 9);
    assert_eq!(found, "e\n1: needle\n\n(1 matching line in 1 file; 1 folder too deep to be searched)");
    let wide = made((0..20_001).map(|n| (format!("d/{n}"), "")));
    assert!(lines(&wide, "needle", 0, 9).contains("1 folder could not be listed completely"));
}

#[test]
fn search_of_one_file_shows_paths_relative_to_the_root() {
    let mut lines = Lines::new("two", false).unwrap();
    let place = Place { root: Some("/home/ann/".into()), path: "/home/ann/a/b".into(), max_bytes: READ };
    let names = Names::new(Some("*.rs")).unwrap();
    let found = search_content(&place, &names, &mut lines, Report::new(9), Walk::<Made>::file("/home/ann/a/b"));
    assert_eq!(found, "a/b\n2: two\n\n(1 matching line in 1 file)");
    for (path, expected) in [("/home/anna/x", "/home/anna/x"), ("/home/ann", "/home/ann"), ("/etc/x", "/etc/x")] {
        assert_eq!(place.shown(path), expected);
    }
    assert!(at_most(Some(0), 1, 1).is_err());
    assert_eq!(at_most(Some(u64::MAX), 1, 5), Ok(5));
}
