//! The claims of `docs/security-claims.md`: each has a test that shows it.

use std::{collections::BTreeSet, fs, path::Path};

/// The rows of its table: the claim, the file and the test.
fn claims() -> Vec<(String, String, String)> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security-claims.md")).unwrap();
    let table = text.split("| claim | test |\n|---|---|\n").nth(1).expect("there is the table");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let (claim, shown) = line.trim_matches('|').rsplit_once('|').unwrap_or_else(|| panic!("{line}"));
        let mut names = shown.split('`').skip(1).step_by(2);
        let (Some(file), Some(test), None) = (names.next(), names.next(), names.next()) else {
            panic!("a claim names one file and one test: {line}")
        };
        (claim.trim().to_owned(), file.to_owned(), test.to_owned())
    };
    rows.map(row).collect()
}

#[test]
fn every_security_claim_names_a_test() {
    let claims = claims();
    assert!(claims.len() > 30, "{}", claims.len());
    let mut seen = BTreeSet::new();
    for (claim, file, test) in claims {
        assert!(!claim.is_empty() && seen.insert(test.clone()), "`{test}` shows two claims");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("all").join(&file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let at = text.find(&format!("fn {test}(")).unwrap_or_else(|| panic!("{file} has no test `{test}`"));
        let before = text[..at].trim_end_matches("async ").trim_end();
        assert!(
            before.ends_with(']') && before.rsplit('\n').next().unwrap().contains("test"),
            "{file}: `{test}` is no test"
        );
    }
}

#[test]
fn every_attack_test_file_is_claimed() {
    let claimed: BTreeSet<_> = claims().into_iter().map(|(_, file, _)| file).collect();
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("all");
    let listed = |folder| fs::read_dir(all.join(folder)).unwrap().map(move |entry| (folder, entry.unwrap()));
    for (folder, entry) in listed("hostile").chain(listed("egress")) {
        let name = entry.file_name().into_string().unwrap();
        if !name.ends_with(".rs") {
            continue;
        }
        let file = format!("{folder}/{name}");
        let text = fs::read_to_string(all.join(&file)).unwrap();
        // The guests themselves, and the edges of an import that stand beside its tests.
        let has_tests = text.contains("#[tokio::test") && name != "kv.rs";
        assert!(!has_tests || claimed.contains(&file), "{file} shows nothing that docs/security-claims.md claims");
    }
}
