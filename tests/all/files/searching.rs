use super::*;

const MAY: &str = "search: {files: [{path: docs, as: .}]}";

/// Both tools find what is there, in order, and leave out what is to be left out.
#[test]
pub fn search() {
    let place = Place::new();
    place.file("docs/.gitignore", "target/\n*.log\n");
    place.file("docs/.hidden/x.rs", "needle");
    place.file("docs/.git/needle.rs", "needle");
    place.file("docs/a.log", "needle");
    place.file("docs/src/b.rs", "fn b() {}\nlet needle = 1;\nend\n");
    place.file("docs/src/a.rs", "Äneedle\r\n");
    place.file("docs/bin", b"needle\0");
    place.file("docs/latin", b"needle \xfc");
    place.file("docs/target/x.rs", "needle");
    place.file("secret.rs", "needle");
    let found = "src/a.rs\n1: Äneedle\n\nsrc/b.rs\n2: let needle = 1;\n\n(2 matching lines in 2 files; files left out: 1 binary, \
                 1 not UTF-8)";
    tells(
        &place,
        MAY,
        &[
            ("search_content", json!({"pattern": "needle"}), found),
            ("search_content", json!({"pattern": "NEEDLE", "case_insensitive": true, "glob": "b.*"}), "2: let needle"),
            (
                "search_content",
                json!({"pattern": r"^\w+ needle", "context_lines": 1}),
                "1- fn b() {}\n2: let needle = 1;\n3- end\n",
            ),
            (
                "search_content",
                json!({"pattern": "needle", "max_results": 1}),
                "the search ended here, and there may be more",
            ),
            ("search_content", json!({"pattern": "needle", "directory": "src/b.rs"}), "(1 matching line in 1 file)"),
            ("search_content", json!({"pattern": "needle", "directory": "target"}), "target/x.rs\n1: needle\n"),
            ("search_content", json!({"pattern": "nothing"}), "(no line matches in 3 files"),
            ("search_content", json!({"pattern": "(a"}), "unclosed group"),
            // Deep patterns find their end before the guest's stack does.
            ("search_content", json!({"pattern": format!("{}e{}", "(".repeat(40), ")".repeat(40))}), "matching line"),
            (
                "search_content",
                json!({"pattern": format!("{}a{}", "(".repeat(5_000), ")".repeat(4_999))}),
                "not a regular expression",
            ),
            ("search_content", json!({"pattern": r"\pL{200}|[^a]{100}"}), "no line matches"),
            ("search_files", json!({"pattern": "*.rs"}), "src/a.rs\nsrc/b.rs\n\n(2 files)"),
            ("search_files", json!({"pattern": "**/.hidden/**"}), ".hidden/x.rs\n\n(1 file)"),
            ("search_files", json!({"pattern": "*.rs", "directory": ".."}), "not allowed"),
            ("search_files", json!({"pattern": "*.rs", "directory": "srcs"}), "similar paths: `src`"),
        ],
    );
}

#[test]
fn search_root_shows_relative_paths_and_requests_others() {
    let place = Place::new();
    place.file(".gitignore", "*.log\n");
    place.file("docs/sub/a.txt", "one\n");
    place.file("docs/sub/a.log", "one\n");
    let root = place.path().display().to_string();
    let may = format!("search: {{files: [{{path: ., as: '{root}'}}], params: {{root: '{root}', max_bytes: 1000}}}}");
    tells(
        &place,
        &may,
        &[
            // Rules of folders above hold too.
            (
                "search_content",
                json!({"pattern": "one", "directory": "docs"}),
                "docs/sub/a.txt\n1: one\n\n(1 matching line in 1 file)",
            ),
            (
                "search_files",
                json!({"pattern": "*.txt", "directory": format!("{root}/docs")}),
                "docs/sub/a.txt\n\n(1 file)",
            ),
            ("search_files", json!({"pattern": "*", "directory": "/usr"}), "/usr"),
        ],
    );
}

/// Of several folders that were granted by names, all are searched.
#[test]
fn search_covers_all_granted_folders() {
    let place = Place::new();
    place.file("b/x.txt", "needle\n");
    place.file("a/y.txt", "needle\n");
    tells(
        &place,
        "search: {files: [{path: b}, {path: a}]}",
        &[
            (
                "search_content",
                json!({"pattern": "needle"}),
                "a/y.txt\n1: needle\n\nb/x.txt\n1: needle\n\n(2 matching lines",
            ),
            ("search_files", json!({"pattern": "*.txt", "directory": "b"}), "b/x.txt\n\n(1 file)"),
        ],
    );
}

#[test]
fn search_is_bounded_by_max_bytes_and_not_by_input_bytes() {
    let place = Place::new();
    for n in 0..70 {
        place.file(&format!("docs/{n:02}.txt"), "0123456789abcde\n".repeat(1 << 16));
    }
    let call = || ("search_content", json!({"pattern": "needle"}));
    let whole = "no line matches in 70 files";
    tells(&place, MAY, &[(call().0, call().1, whole)]);
    let little = MAY.replace("as: .}]", "as: .}], params: {max_bytes: 3000000}");
    let said = "(no line matches in 3 files; the search ended after 3 MiB of files; narrow it";
    tells(&place, &little, &[(call().0, call().1, said)]);
}

/// Returns `true` if no part of the path is hidden: hidden files are searched only if they are asked for.
fn is_plain(path: &str) -> bool {
    path.split('/').all(|part| !part.starts_with('.'))
}

/// In a tree as real ones are it finds what git finds, by the same rules about what is ignored.
#[test]
fn search_finds_the_same_files_as_git() {
    let place = Place::new();
    let tree = place.real_tree("docs");
    let listed = place.git(&tree, &["ls-files", "--others", "--exclude-standard"]);
    let listed: Vec<_> = listed.lines().filter(|path| is_plain(path)).collect();
    assert!(listed.len() > 500, "{}", listed.len());
    for ending in [".toml", ".snap", ".wit", ".md", "/mod.rs", "/lib.rs"] {
        let expected: Vec<_> = listed.iter().filter(|path| path.ends_with(ending)).copied().collect();
        let pattern = if ending.starts_with('/') { format!("**{ending}") } else { format!("**/*{ending}") };
        let (results, _) = told(&place, MAY, &[("search_files", json!({"pattern": pattern, "max_results": 1000}))]);
        let mut found: Vec<_> = results[0].lines().take_while(|line| !line.is_empty()).collect();
        found.retain(|line| !line.starts_with('('));
        found.sort();
        let mut sorted = expected.clone();
        sorted.sort();
        assert_eq!(found, sorted, "{ending}: {}", results[0]);
    }
    for pattern in ["limits::PLUGIN_[A-Z]+", "^#!\\[", "[a-z]é|日本", "TODO|unreachable!\\("] {
        let grep = ["grep", "--untracked", "--line-number", "-I", "--no-color", "--perl-regexp", pattern];
        let expected = place.git(&tree, &grep);
        let mut expected: Vec<(String, u64)> = expected
            .lines()
            .map(|line| line.splitn(3, ':').collect::<Vec<_>>())
            .filter(|parts| is_plain(parts[0]))
            .map(|parts| (parts[0].to_owned(), parts[1].parse().unwrap()))
            .collect();
        expected.sort();
        let call = ("search_content", json!({"pattern": pattern, "max_results": 1000}));
        let (results, _) = told(&place, MAY, &[call]);
        let (mut found, mut path) = (Vec::new(), "");
        for line in results[0].lines() {
            match line.split_once(": ").map(|(number, _)| number.parse()) {
                Some(Ok(number)) => found.push((path.to_owned(), number)),
                _ if line.is_empty() || line.starts_with('(') => {}
                _ => path = line,
            }
        }
        found.sort();
        assert!(!found.is_empty() || expected.is_empty(), "{pattern}: {}", results[0]);
        assert_eq!(found, expected, "{pattern}");
    }
}
