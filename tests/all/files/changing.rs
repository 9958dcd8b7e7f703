use super::*;

/// May read the folder `docs`, and changes of files are made without a question.
const MAY: &str = "filesystem: {files: [{path: docs, as: .}], powers: [propose-files], changes: apply}";

fn read(place: &Place, path: &str) -> String {
    fs::read_to_string(place.path().join(path)).unwrap()
}

/// Each tool does what it says, in a folder that it cannot leave.
#[test]
pub fn filesystem() {
    let place = Place::new();
    place.file("docs/a.txt", "one\r\ntwo\r\nthree");
    place.file("docs/b.txt", "one\r\ntwo\r\n3\r\n");
    place.file("docs/sub/x.rs", "fn x() {}\n");
    place.file("docs/pic.png", b"\x89PNG\r\n\x1a\n\0");
    place.file("docs/run", b"\x7fELF\0");
    place.file("secret.txt", "not for you");
    tells(
        &place,
        MAY,
        &[
            ("fs_read", json!({"path": "a.txt"}), "one\r\ntwo\r\nthree"),
            ("fs_read", json!({"path": "a.text"}), "similar paths: `a.txt`"),
            ("fs_read", json!({"path": "run"}), "not text but an ELF program"),
            ("fs_read", json!({"path": "sub"}), "is a folder; fs_list"),
            ("fs_read", json!({"path": "../secret.txt"}), "not allowed"),
            (
                "fs_read_lines",
                json!({"path": "a.txt", "offset": 2, "limit": 1}),
                "`a.txt`, lines 2 to 2 of 3\n     2\ttwo\n",
            ),
            ("fs_list", json!({"path": "."}), r#"{"name":"a.txt","type":"file","size":15}"#),
            ("fs_list", json!({"path": "."}), r#"{"name":"sub","type":"folder"}"#),
            ("fs_stat", json!({"path": "sub/x.rs"}), r#"{"path":"sub/x.rs","type":"file","size":10,"modified":"20"#),
            ("fs_diff", json!({"file_a": "a.txt", "file_b": "b.txt"}), "-three\n\\ No newline at end of file\n+3\r\n"),
            ("fs_diff", json!({"file_a": "a.txt", "file_b": "a.txt"}), "files are identical"),
            // What was read before may have changed since: each proposal is made from what is there.
            ("fs_edit", json!({"path": "a.txt", "old_text": "one\ntwo", "new_text": "1\n2"}), "changed a.txt (+2 -2)"),
            ("fs_edit", json!({"path": "a.txt", "old_text": "one", "new_text": "1"}), "`old_text` is not in the file"),
            (
                "fs_patch",
                json!({"path": "sub/x.rs", "hunks": [{"old_text": "x", "new_text": "y"}, {"old_text": "{}", "new_text": "{ 1 }"}]}),
                "changed sub/x.rs (+1 -1)",
            ),
            (
                "fs_patch",
                json!({"path": "sub/x.rs", "hunks": [{"old_text": "y", "new_text": "z"}, {"old_text": "no", "new_text": ""}]}),
                "nothing was changed, because of `hunks[1]`",
            ),
            ("fs_write", json!({"path": "new/deep/ü.txt", "content": "neu"}), "created new/deep/ü.txt (+1 -0)"),
            ("fs_write", json!({"path": "new/deep/ü.txt", "content": "neu"}), "already has exactly this content"),
            ("fs_write", json!({"path": "b.txt", "content": ""}), "changed b.txt (+0 -3)"),
            ("fs_mkdir", json!({"path": "empty"}), "empty"),
            ("fs_mkdir", json!({"path": "empty"}), "already exists"),
            ("fs_copy", json!({"source": "sub", "destination": "sub2"}), "sub2"),
            ("fs_copy", json!({"source": "a.txt", "destination": "sub2"}), "use `sub2/a.txt`"),
            ("fs_move", json!({"source": "sub", "destination": "sub/in"}), "cannot go into itself"),
            ("fs_move", json!({"source": "sub", "destination": "moved"}), "moved"),
            ("fs_delete", json!({"path": "sub2"}), "not empty; set `recursive`"),
            ("fs_delete", json!({"path": "sub2", "recursive": true}), "sub2"),
            ("fs_delete", json!({"path": "."}), "the granted folder itself"),
            ("fs_delete", json!({"path": "run"}), "run"),
        ],
    );
    assert_eq!(read(&place, "docs/a.txt"), "1\r\n2\r\nthree");
    assert_eq!(read(&place, "docs/moved/x.rs"), "fn y() { 1 }\n");
    assert_eq!(read(&place, "docs/new/deep/ü.txt"), "neu");
    assert_eq!(read(&place, "docs/b.txt"), "");
    let mut left: Vec<_> =
        fs::read_dir(place.path().join("docs")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a.txt", "b.txt", "empty", "moved", "new", "pic.png"]);
}

#[test]
fn fs_read_returns_an_image() {
    let place = Place::new();
    place.file("docs/pic.png", b"\x89PNG\r\n\x1a\n\0");
    let (_, ran) = told(&place, MAY, &[("fs_read", json!({"path": "pic.png"}))]);
    assert!(ran.stderr.contains("fs_read done"), "{}", ran.shown());
}

#[test]
fn fs_edit_without_propose_files_changes_nothing() {
    let place = Place::new();
    place.file("docs/a.txt", "one");
    let reads = "filesystem: {files: [{path: docs, as: .}]}";
    let edit = json!({"path": "a.txt", "old_text": "one", "new_text": "two"});
    tells(&place, reads, &[("fs_read", json!({"path": "a.txt"}), "one"), ("fs_edit", edit, "propose-files")]);
    assert_eq!(read(&place, "docs/a.txt"), "one");
}

#[test]
fn filesystem_root_resolves_paths_and_requests_others() {
    let place = Place::new();
    place.file("docs/a.txt", "one\n");
    place.file("more/b.txt", "two\n");
    let root = place.path();
    let (docs, more) = (root.join("docs").display().to_string(), root.join("more").display().to_string());
    let may = format!(
        "filesystem: {{files: [{{path: docs, as: '{docs}'}}], powers: [propose-files], changes: apply, params: {{root: '{docs}'}}}}"
    );
    let calls = [
        ("fs_read", json!({"path": "a.txt"}), "one\n"),
        ("fs_read", json!({"path": format!("{docs}/a.txt")}), "one\n"),
        ("fs_edit", json!({"path": "./a.txt", "old_text": "one", "new_text": "1"}), "(+1 -1)"),
        ("fs_write", json!({"path": format!("{docs}/new.txt"), "content": "x"}), "(+1 -0)"),
        // Whom it is asked for, and whether it is, is the host's.
        ("fs_read", json!({"path": "../more/b.txt"}), &*more),
        ("fs_list", json!({"path": more}), &*more),
        ("fs_delete", json!({"path": "."}), "the granted folder itself"),
        ("fs_read", json!({"path": "~/x"}), "write the full path"),
    ];
    tells(&place, &may, &calls);
    assert_eq!(read(&place, "docs/a.txt"), "1\n");
    assert_eq!(read(&place, "docs/new.txt"), "x");
    let relative = may.replace(&format!("root: '{docs}'"), "root: docs");
    tells(&place, &relative, &[("fs_read", json!({"path": "a.txt"}), "`root` must be the absolute path")]);
}

#[cfg(unix)]
#[test]
fn filesystem_reports_links_and_follows_none_outside() {
    use std::os::unix::fs::symlink;

    let place = Place::new();
    let file = place.file("docs/a.txt", "one");
    place.file("secret.txt", "not for you");
    let docs = file.parent().unwrap();
    symlink("a.txt", docs.join("in")).unwrap();
    symlink("../secret.txt", docs.join("out")).unwrap();
    symlink("gone", docs.join("nowhere")).unwrap();
    tells(
        &place,
        MAY,
        &[
            ("fs_list", json!({"path": "."}), r#"{"name":"out","type":"link"}"#),
            ("fs_stat", json!({"path": "in"}), r#""type":"file","size":3"#),
            ("fs_stat", json!({"path": "in"}), r#""link_to":"a.txt""#),
            ("fs_stat", json!({"path": "out"}), r#""type":"link""#),
            ("fs_stat", json!({"path": "nowhere"}), r#""link_to":"gone""#),
            ("fs_read", json!({"path": "in"}), "one"),
            ("fs_read", json!({"path": "out"}), "not allowed"),
            ("fs_write", json!({"path": "out", "content": "x"}), "not allowed"),
            ("fs_delete", json!({"path": "nowhere"}), "nowhere"),
        ],
    );
    assert_eq!(read(&place, "secret.txt"), "not for you");
    assert!(docs.join("nowhere").symlink_metadata().is_err());
}

#[test]
fn huge_file_is_read_in_parts() {
    let place = Place::new();
    place.file("docs/long.txt", "0123456789\n".repeat(1_000_000));
    tells(
        &place,
        MAY,
        &[
            ("fs_read", json!({"path": "long.txt"}), "read a part of it with fs_read_lines"),
            (
                "fs_read_lines",
                json!({"path": "long.txt", "offset": 999_999}),
                "lines 999999 to 1000000 of 1000000\n999999\t0123",
            ),
            (
                "fs_edit",
                json!({"path": "long.txt", "old_text": "x", "new_text": "y"}),
                "the file is too large to be edited",
            ),
        ],
    );
}
